// ElementWiseBinary: add, subtract, multiply, maximum, minimum with numpy broadcasting and fused activation.
// Source: QNN operator ElementWiseBinary (operation numbers of QnnOpDef).
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "ops/activation.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

const std::vector<std::pair<std::string_view, std::uint32_t>>& operations() {
  static const std::vector<std::pair<std::string_view, std::uint32_t>> table = {
      {"add", 0}, {"maximum", 10}, {"minimum", 11}, {"multiply", 13}, {"subtract", 18}};
  return table;
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return fail(Code::kShapeMismatch, fmt::format("{} and {} do not broadcast", to_string(a), to_string(b)));
    }
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const std::string& operation = node.attributes.text("operation");
  const auto& known = operations();
  if (std::none_of(known.begin(), known.end(), [&](const auto& row) { return row.first == operation; })) {
    return fail(Code::kUnsupportedForm, fmt::format("no operation \"{}\"", operation));
  }
  HTPIPE_CHECK_OK(activation_range(node.attributes.text("activation")));
  if (node.type(0).dtype != node.type(1).dtype) {
    return fail(Code::kDtypeMismatch,
                fmt::format("{} and {}", name_of(node.type(0).dtype), name_of(node.type(1).dtype)));
  }
  HTPIPE_TRY(Shape shape, broadcast(node.type(0).shape, node.type(1).shape));
  return std::vector<TensorType>{{node.type(0).dtype, std::move(shape), std::nullopt}};
}

/// Index of the operand's element for every result element; empty when the shapes are equal.
std::vector<std::int32_t> index_map(const Shape& operand, const Shape& result) {
  if (operand == result) return {};
  std::vector<std::int64_t> strides(result.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < operand.size(); ++i) {
    const std::int64_t dimension = operand[operand.size() - 1 - i];
    strides[result.size() - 1 - i] = dimension == 1 ? 0 : stride;
    stride *= dimension;
  }
  std::vector<std::int32_t> map(static_cast<std::size_t>(element_count(result)));
  for (std::size_t i = 0; i < map.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i);
    std::int64_t index = 0;
    for (std::size_t axis = result.size(); axis-- > 0;) {
      index += rest % result[axis] * strides[axis];
      rest /= result[axis];
    }
    map[i] = static_cast<std::int32_t>(index);
  }
  return map;
}

/// Calls body(i, a_index, b_index) for every result element.
template <typename Body>
void for_each_pair(std::int64_t count, const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b,
                   Body body) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    body(i, a.empty() ? i : a[at], b.empty() ? i : b[at]);
  }
}

float compute(const std::string& operation, float a, float b) {
  if (operation == "add") return a + b;
  if (operation == "subtract") return a - b;
  if (operation == "multiply") return a * b;
  return operation == "maximum" ? std::max(a, b) : std::min(a, b);
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const ActivationRange range, activation_range(node.attributes.text("activation")));
  const std::string operation = node.attributes.text("operation");
  const Shape& shape = request.results[0]->shape;
  const std::int64_t count = element_count(shape);
  Kernel kernel;
  kernel.run = [=, map_a = index_map(node.type(0).shape, shape),
                map_b = index_map(node.type(1).shape, shape)](const KernelCall& call) {
    const float* a = call.in<float>(0);
    const float* b = call.in<float>(1);
    float* out = call.out<float>(0);
    if (operation == "add" && map_a.empty() && map_b.empty()) {
      for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
    } else {
      for_each_pair(count, map_a, map_b, [&](std::int64_t i, std::int64_t ia, std::int64_t ib) {
        out[i] = compute(operation, a[ia], b[ib]);
      });
    }
    apply_activation(range, out, count);
  };
  return kernel;
}

bool is_scalar(const NodeView& node, std::size_t operand) {
  return node.constants[operand] != nullptr && node.constants[operand]->count() == 1;
}

/// With a constant of one element the chip makes a table of the other operand; a positive factor is a Convert.
kernels::Binary with_scalar(const std::string& operation, const kernels::Grid& data, double scalar, bool scalar_first,
                            const kernels::Grid& out) {
  kernels::Unary unary;
  if (operation == "multiply" && scalar > 0) {
    kernels::Grid scaled = data;
    scaled.scale *= scalar;
    unary = kernels::convert(scaled, out);
  } else {
    const auto value = [operation, scalar, scalar_first](double x) {
      if (operation == "add") return x + scalar;
      if (operation == "subtract") return scalar_first ? scalar - x : x - scalar;
      if (operation == "multiply") return x * scalar;
      return operation == "maximum" ? std::max(x, scalar) : std::min(x, scalar);
    };
    unary = kernels::table(value, data, out);
  }
  return [unary, scalar_first](std::int64_t x, std::int64_t y) { return unary(scalar_first ? y : x); };
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_CHECK_OK(check_activation_encoding(node.attributes.text("activation"), *request.results[0]));
  HTPIPE_TRY(const kernels::Grid a, kernels::Grid::of(node.type(0)));
  HTPIPE_TRY(const kernels::Grid b, kernels::Grid::of(node.type(1)));
  HTPIPE_TRY(const kernels::Grid out, kernels::Grid::of(*request.results[0]));
  const std::string& operation = node.attributes.text("operation");
  const bool first_scalar = is_scalar(node, 0);
  kernels::Binary function;
  if (!out.wide() && (first_scalar || is_scalar(node, 1))) {
    function =
        with_scalar(operation, first_scalar ? b : a, node.constants[first_scalar ? 0 : 1]->real(0), first_scalar, out);
  } else if (operation == "add" || operation == "subtract") {
    function = kernels::add(a, b, out, operation == "subtract");
  } else if (operation == "multiply") {
    function = kernels::multiply(a, b, out);
  } else {
    function = kernels::maximum(a, b, out, operation == "minimum");
  }
  // Two 8-bit operands: all 65,536 answers computed once.
  auto answers = std::make_shared<std::vector<std::uint8_t>>();
  if (!a.wide() && !b.wide() && !out.wide()) {
    answers->resize(65536);
    for (std::size_t i = 0; i < answers->size(); ++i) {
      (*answers)[i] =
          static_cast<std::uint8_t>(function(static_cast<std::int64_t>(i >> 8), static_cast<std::int64_t>(i & 255)));
    }
  }
  const Shape& shape = request.results[0]->shape;
  const std::int64_t count = element_count(shape);
  const DType dtype_a = node.type(0).dtype;
  const DType dtype_b = node.type(1).dtype;
  const DType dtype_out = request.results[0]->dtype;
  Kernel kernel;
  kernel.run = [=, map_a = index_map(node.type(0).shape, shape),
                map_b = index_map(node.type(1).shape, shape)](const KernelCall& call) {
    for_each_pair(count, map_a, map_b, [&](std::int64_t i, std::int64_t ia, std::int64_t ib) {
      const std::int64_t x = kernels::load(call.operands[0], dtype_a, ia);
      const std::int64_t y = kernels::load(call.operands[1], dtype_b, ib);
      const std::int64_t q = answers->empty() ? function(x, y) : (*answers)[static_cast<std::size_t>(x * 256 + y)];
      kernels::store(call.results[0], dtype_out, i, q);
    });
  };
  return kernel;
}

}  // namespace

const OpDef& element_wise_binary() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "ElementWiseBinary";
    def.doc = "Elementwise function of two operands, with broadcasting.";
    def.operands = {{"a"}, {"b"}};
    def.attributes = {{"operation", std::string("add"), true, "add, subtract, multiply, maximum or minimum"},
                      activation_attribute()};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"ElementWiseBinary", {{"operation", "operation", ParamKind::kEnum, operations()}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
