// Building of nodes; see call.h.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "import/pt2/call.h"

namespace htpipe::pt2 {
namespace {

constexpr std::size_t kLargeConstant = 4096;

/// Integers of any type as int32 when all fit.
std::optional<Tensor> narrowed(const Tensor& tensor) {
  if (!is_integer(tensor.dtype())) return std::nullopt;
  std::vector<std::int32_t> values;
  values.reserve(static_cast<std::size_t>(tensor.count()));
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const double value = tensor.real(i);
    if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max()) {
      return std::nullopt;
    }
    values.push_back(static_cast<std::int32_t>(value));
  }
  return Tensor::from<std::int32_t>({DType::kI32, tensor.shape(), std::nullopt}, std::span<const std::int32_t>(values));
}

}  // namespace

DType internal(DType dtype) { return is_float(dtype) ? DType::kF32 : dtype; }

Status check_elements(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) || product > kMostElements) {
    return fail(Code::kUnsupportedForm, fmt::format("{} times {} elements are too many here", a, b));
  }
  return {};
}

std::int64_t rank_of(const Value* value) { return static_cast<std::int64_t>(value->type.shape.size()); }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) || is_float(b)) return DType::kF32;
  if (a == DType::kBool) return b;
  if (b == DType::kBool) return a;
  return DType::kI64;
}

Many Call::add_many(std::string_view op, Attributes attributes, Values operands, std::string_view suffix) {
  return builder_.add_all(op, std::move(attributes), std::move(operands), suffix);
}

One Call::add(std::string_view op, Attributes attributes, Values operands, std::string_view suffix) {
  return builder_.add(op, std::move(attributes), std::move(operands), suffix);
}

One Call::constant(std::string_view suffix, Tensor tensor) { return builder_.constant(suffix, std::move(tensor)); }

One Call::constant(std::string_view suffix, Shape shape, const std::vector<float>& values) {
  return constant(suffix,
                  Tensor::from<float>({DType::kF32, std::move(shape), std::nullopt}, std::span<const float>(values)));
}

One Call::integers_constant(std::string_view suffix, Shape shape, const IntList& values, DType dtype) {
  TensorType type{dtype, std::move(shape), std::nullopt};
  if (dtype == DType::kI64) {
    return constant(suffix, Tensor::from<std::int64_t>(std::move(type), std::span<const std::int64_t>(values)));
  }
  if (dtype == DType::kI32) {
    const std::vector<std::int32_t> narrow(values.begin(), values.end());
    return constant(suffix, Tensor::from<std::int32_t>(std::move(type), std::span<const std::int32_t>(narrow)));
  }
  if (dtype == DType::kBool) {
    std::vector<std::uint8_t> truth;
    for (const std::int64_t value : values) truth.push_back(value != 0 ? 1 : 0);
    return constant(suffix, Tensor::from<std::uint8_t>(std::move(type), std::span<const std::uint8_t>(truth)));
  }
  if (dtype == DType::kF32) {
    return constant(suffix, type.shape, std::vector<float>(values.begin(), values.end()));
  }
  HTPIPE_TRY(Value * wide, integers_constant(suffix, type.shape, values));
  return cast(wide, dtype, suffix);
}

One Call::scalar(double value, DType dtype, std::string_view suffix) {
  if (is_float(dtype)) return constant(suffix, {}, std::vector<float>{static_cast<float>(value)});
  if (dtype == DType::kBool) return integers_constant(suffix, {}, {value != 0.0 ? 1 : 0}, dtype);
  // Numbers such as torch.iinfo(torch.int64).max do not fit into a double as they are.
  constexpr double kHighest = 9223372036854774784.0;
  if (std::isnan(value)) return fail(Code::kUnsupportedForm, "a number that is not one, as an integer");
  return integers_constant(suffix, {}, {static_cast<std::int64_t>(std::clamp(value, -kHighest, kHighest))}, dtype);
}

One Call::cast(Value* value, DType to, std::string_view suffix) {
  if (value->type.dtype == to) return value;
  return add("Cast", {{"to", std::string(name_of(to))}}, {value}, suffix);
}

One Call::as_index(Value* value, std::string_view suffix) {
  if (value->type.dtype == DType::kI32) return value;
  if (value->producer != nullptr && value->producer->is("Cast") &&
      value->producer->operands[0]->type.dtype == DType::kI32) {
    return value->producer->operands[0];
  }
  if (value->is_constant()) {
    if (auto tensor = narrowed(value->constant)) {
      return builder_.graph().add_constant(value->name + "_i32", std::move(*tensor));
    }
  }
  return cast(value, DType::kI32, suffix);
}

One Call::reshape(Value* value, const Shape& shape, std::string_view suffix) {
  if (value->type.shape == shape) return value;
  return add("Reshape", {{"shape", shape}}, {value}, suffix);
}

One Call::transpose(Value* value, const IntList& order, std::string_view suffix) {
  if (std::is_sorted(order.begin(), order.end())) return value;
  if (value->is_constant() && value->type.size_bytes() > kLargeConstant) {
    // A weight stays as it is in the file, where it may have several users.
    const std::string name = suffix.empty() ? node_.name : fmt::format("{}_{}", node_.name, suffix);
    HTPIPE_TRY(const htpipe::Node* added,
               builder_.graph().add_node("Transpose", name, {{"perm", order}}, {value}, builder_.source()));
    return added->result();
  }
  return add("Transpose", {{"perm", order}}, {value}, suffix);
}

One Call::broadcast(Value* value, const Shape& shape, std::string_view suffix) {
  return builder_.expand(value, shape, suffix);
}

One Call::slice(Value* value, std::int64_t axis, std::int64_t begin, std::int64_t end, std::string_view suffix) {
  const Shape& shape = value->type.shape;
  const auto at = static_cast<std::size_t>(axis);
  if (begin == 0 && end == shape[at]) return value;
  IntList first(shape.size(), 0);
  IntList last = shape;
  first[at] = begin;
  last[at] = end;
  return add("StridedSlice", {{"begin", first}, {"end", last}, {"strides", IntList(shape.size(), 1)}}, {value}, suffix);
}

Value* Call::ranked(Value* value) {
  if (!value->is_constant() || !value->type.shape.empty()) return value;
  return builder_.graph().add_constant(value->name, value->constant.with_type({value->type.dtype, {1}, std::nullopt}));
}

One Call::binary(std::string_view operation, Value* a, Value* b, std::string_view suffix) {
  const bool scalar = a->type.shape.empty() && b->type.shape.empty();
  if (!scalar) {
    a = ranked(a);
    b = ranked(b);
  }
  return add("ElementWiseBinary", {{"operation", std::string(operation)}}, {a, b}, suffix);
}

One Call::unary(std::string_view operation, Value* value, std::string_view suffix) {
  return add("ElementWiseUnary", {{"operation", std::string(operation)}}, {value}, suffix);
}

One Call::neuron(std::string_view operation, Value* value, std::string_view suffix) {
  return add("ElementWiseNeuron", {{"operation", std::string(operation)}}, {value}, suffix);
}

One Call::concat(Values values, std::int64_t axis, std::string_view suffix) {
  if (values.size() == 1) return values.front();
  return add("Concat", {{"axis", axis}}, std::move(values), suffix);
}

One Call::select(Value* condition, Value* a, Value* b, std::string_view suffix) {
  if (!condition->type.shape.empty() || !a->type.shape.empty() || !b->type.shape.empty()) {
    condition = ranked(condition);
    a = ranked(a);
    b = ranked(b);
  }
  return add("ElementWiseSelect", {}, {condition, a, b}, suffix);
}

One Call::reduce(std::string_view op, Value* value, const IntList& axes, bool keep, std::string_view suffix) {
  if (axes.empty()) return value;
  return add(op, {{"axes", axes}, {"keep_dims", keep}}, {value}, suffix);
}

}  // namespace htpipe::pt2
