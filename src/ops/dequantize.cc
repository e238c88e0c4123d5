// Dequantize: stored integers to float. Source: QNN operator Dequantize. Without a chip (htp_version 0) it follows ONNX's
// DequantizeLinear for all integer types, and for scales per tensor, channel or block.
#include "kernels/fixed/elementwise.h"
#include "ops/fixed_map.h"
#include "ops/registry.h"
#include "ops/stored.h"
#include "ops/to_attribute.h"

namespace htpipe::ops {
namespace {

Result<Kernel> onnx_kernel(const KernelRequest& request) {
  const TensorType& type = request.node.type(0);
  if (!type.encoding || !is_stored(type.dtype)) {
    return fail(Code::kNoFixedRule, "Dequantize needs an operand with an encoding, of at most 32 bits");
  }
  Kernel kernel;
  kernel.run = [type, to = request.results[0]->dtype](const KernelCall& call) {
    for_each_scale(type, [&](std::int64_t i, std::size_t at) {
      const std::int64_t q = load_stored(call.operands[0], type.dtype, i) - type.encoding->zero_points[at];
      save_float(call.results[0], to, i, static_cast<float>(q) * type.encoding->scales[at]);
    });
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  if (request.htp_version == 0) return onnx_kernel(request);
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(request.node.type(0)));
  const DType dtype = request.node.type(0).dtype;
  const DType to = request.results[0]->dtype;
  const std::int64_t count = request.node.type(0).count();
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    for_parts(call, count, kMapGrain, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t q = kernels::load(call.operands[0], dtype, i);
        if (to == DType::kF16) {
          call.out<std::uint16_t>(0)[i] = kernels::dequantize_f16(q, from);
        } else {
          call.out<float>(0)[i] = kernels::dequantize(q, from);
        }
      }
    });
  };
  return kernel;
}

}  // namespace

const OpDef& dequantize() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Dequantize";
    def.doc = "From stored integers to float.";
    def.operands = {{"input"}};
    def.attributes = {to_attribute()};
    def.infer = [](const NodeView& node) { return infer_to(node, false, true); };
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"Dequantize"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
