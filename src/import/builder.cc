#include "import/builder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ops/evaluate.h"

namespace htpipe {
namespace {

/// A constant may grow to 4 times its operands or 64 KB, never beyond 16 MB.
constexpr std::size_t kMaxGrowth = 4;
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxScratchBytes = std::size_t{64} << 20;

bool is_foldable(const Node& node) {
  std::size_t operand_bytes = 0;
  for (const Value* operand : node.operands) {
    if (operand == nullptr) continue;
    if (!operand->is_constant() || operand->type.encoding) return false;
    operand_bytes += operand->type.size_bytes();
  }
  std::size_t result_bytes = 0;
  for (const Value* result : node.results) result_bytes += result->type.size_bytes();
  return result_bytes <= std::max(kMaxGrowth * operand_bytes, kSmallBytes) && result_bytes <= kMaxBytes;
}

}  // namespace

void Builder::warn(std::string text) {
  if (warnings_ != nullptr) warnings_->push_back(fmt::format("{}: {}", name_, std::move(text)));
}

std::string Builder::name_with(std::string_view suffix) const {
  return suffix.empty() ? name_ : fmt::format("{}_{}", name_, suffix);
}

Result<std::vector<Value*>> Builder::add_all(std::string_view op, Attributes attributes, std::vector<Value*> operands,
                                             std::string_view suffix) {
  HTPIPE_TRY(Node * node, graph_.add_node(op, name_with(suffix), std::move(attributes), std::move(operands), source_));
  if (!is_foldable(*node)) return node->results;
  auto tensors = evaluate(*node, kMaxScratchBytes);
  // Without a rule for these types the node stays; whoever executes or compiles the graph tells.
  if (!tensors) return node->results;
  std::vector<std::string> names;
  for (const Value* result : node->results) names.push_back(result->name);
  graph_.erase(node);
  std::vector<Value*> constants;
  for (std::size_t i = 0; i < names.size(); ++i) {
    constants.push_back(graph_.add_constant(names[i], std::move((*tensors)[i])));
  }
  return constants;
}

Result<Value*> Builder::add(std::string_view op, Attributes attributes, std::vector<Value*> operands,
                            std::string_view suffix) {
  HTPIPE_TRY(const std::vector<Value*> results, add_all(op, std::move(attributes), std::move(operands), suffix));
  return results.front();
}

Value* Builder::constant(std::string_view suffix, Tensor tensor) {
  return graph_.add_constant(name_with(suffix), std::move(tensor));
}

Value* Builder::floats(std::string_view suffix, Shape shape, const std::vector<float>& values) {
  return constant(suffix, Tensor::from<float>({DType::kF32, std::move(shape), std::nullopt}, values));
}

Value* Builder::integers(std::string_view suffix, Shape shape, const std::vector<std::int64_t>& values) {
  return constant(suffix, Tensor::from<std::int64_t>({DType::kI64, std::move(shape), std::nullopt}, values));
}

Value* Builder::scalar(std::string_view suffix, double value, DType dtype) {
  return constant(suffix, filled({dtype, {}, std::nullopt}, value));
}

Result<Value*> Builder::cast(Value* value, DType to, std::string_view suffix) {
  if (value->type.dtype == to) return value;
  return add("Cast", {{"to", std::string(name_of(to))}}, {value}, suffix);
}

Result<Value*> Builder::reshape(Value* value, Shape shape, std::string_view suffix) {
  if (value->type.shape == shape) return value;
  return add("Reshape", {{"shape", std::move(shape)}}, {value}, suffix);
}

Result<Value*> Builder::transpose(Value* value, std::vector<std::int64_t> perm, std::string_view suffix) {
  bool moves = false;
  for (std::size_t i = 0; i < perm.size(); ++i) moves = moves || perm[i] != static_cast<std::int64_t>(i);
  if (!moves) return value;
  return add("Transpose", {{"perm", std::move(perm)}}, {value}, suffix);
}

Result<Value*> Builder::expand(Value* value, const Shape& shape, std::string_view suffix) {
  if (value->type.shape == shape) return value;
  const Shape& from = value->type.shape;
  const auto misfit = [&] {
    return fail(Code::kShapeMismatch, fmt::format("{} does not expand to {}", to_string(from), to_string(shape)));
  };
  if (from.size() > shape.size()) return misfit();
  Shape aligned(shape.size() - from.size(), 1);
  aligned.insert(aligned.end(), from.begin(), from.end());
  std::vector<std::int64_t> multiples(shape.size(), 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (aligned[i] == shape[i]) continue;
    if (aligned[i] != 1) return misfit();
    multiples[i] = shape[i];
  }
  const bool repeats = aligned != shape;
  HTPIPE_TRY(Value * same_rank,
             reshape(value, aligned, repeats ? fmt::format("{}_rank", suffix) : std::string(suffix)));
  if (!repeats) return same_rank;
  return add("Tile", {{"multiples", multiples}}, {same_rank}, suffix);
}

Result<Value*> Builder::unary(std::string_view operation, Value* value, std::string_view suffix) {
  return add("ElementWiseUnary", {{"operation", std::string(operation)}}, {value}, suffix);
}

Result<Value*> Builder::neuron(std::string_view operation, Value* value, std::string_view suffix) {
  return add("ElementWiseNeuron", {{"operation", std::string(operation)}}, {value}, suffix);
}

Result<Value*> Builder::binary(std::string_view operation, Value* a, Value* b, std::string_view suffix) {
  return add("ElementWiseBinary", {{"operation", std::string(operation)}}, {a, b}, suffix);
}

Result<Value*> Builder::binary(std::string_view operation, Value* a, double b, std::string_view suffix) {
  return binary(operation, a, scalar(suffix.empty() ? "value" : fmt::format("{}_value", suffix), b, a->type.dtype),
                suffix);
}

Result<std::int64_t> normal_axis(std::int64_t axis, std::size_t rank) {
  const auto size = static_cast<std::int64_t>(rank);
  if (axis < -size || axis >= size) {
    return fail(Code::kUnsupportedForm, fmt::format("axis {} of a tensor of rank {}", axis, rank));
  }
  return axis < 0 ? axis + size : axis;
}

void remove_unused_constants(Graph& graph) {
  std::vector<Value*> unused;
  for (const auto& value : graph.values()) {
    if (value->is_constant() && value->users.empty() && !graph.is_output(value.get())) unused.push_back(value.get());
  }
  for (Value* value : unused) graph.erase(value);
}

}  // namespace htpipe
