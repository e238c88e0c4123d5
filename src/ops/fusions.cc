#include "ops/fusions.h"

#include <cmath>

#include "kernels/fixed/elementwise.h"
#include "ops/fixed_map.h"

namespace htpipe::ops {
namespace {

/// The operand of a product that is multiplied by its own sigmoid; -1 = there is none.
int swish_operand(const Node& node) {
  if (!node.is("ElementWiseBinary") || node.attributes.text("operation") != "multiply") return -1;
  if (node.attributes.text("activation") != "none") return -1;
  for (int i = 0; i < 2; ++i) {
    const Value* x = node.operands[static_cast<std::size_t>(i)];
    const Node* other = node.operands[static_cast<std::size_t>(1 - i)]->producer;
    if (other == nullptr || !other->is("ElementWiseNeuron") || other->operands[0] != x) continue;
    if (other->attributes.text("operation") == "sigmoid") return i;
  }
  return -1;
}

/// True for a Convert behind a pool: the chip then looks the stored values up in a table, as the pool itself does when
/// its encodings differ. A Transpose in between changes nothing, a Reshape does.
bool converts_pool(const Node& node) {
  if (!node.is("Convert")) return false;
  const Node* from = node.operands[0]->producer;
  while (from != nullptr && from->is("Transpose")) from = from->operands[0]->producer;
  return from != nullptr && (from->is("PoolAvg2d") || from->is("PoolMax2d"));
}

Result<std::optional<Kernel>> converted_pool(const Node& node) {
  const TensorType& type = node.operands[0]->type;
  const TensorType& result = node.result()->type;
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(type));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(result));
  if (from.wide() || to.wide()) return std::optional<Kernel>();
  Kernel kernel;
  kernel.run = [map = kernels::UnaryMap(kernels::table([](double x) { return x; }, from, to), type.dtype, result.dtype),
                count = type.count()](const KernelCall& call) { run_map(map, count, call); };
  return std::optional<Kernel>(std::move(kernel));
}

}  // namespace

Result<std::optional<Kernel>> fused_kernel(const Node& node) {
  if (converts_pool(node)) return converted_pool(node);
  const int operand = swish_operand(node);
  if (operand < 0) return std::optional<Kernel>();
  const TensorType& type = node.operands[static_cast<std::size_t>(operand)]->type;
  const TensorType& result = node.result()->type;
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(type));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(result));
  if (from.wide() != to.wide()) return std::optional<Kernel>();
  const auto swish = [](double x) { return x / (1 + std::exp(-x)); };
  Kernel kernel;
  kernel.run = [map = kernels::UnaryMap(kernels::table(swish, from, to), type.dtype, result.dtype),
                count = type.count(), operand](const KernelCall& call) {
    for_parts(call, count, kMapGrain, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      map.run(call.operands[static_cast<std::size_t>(operand)], call.results[0], begin, end);
    });
  };
  return std::optional<Kernel>(std::move(kernel));
}

}  // namespace htpipe::ops
