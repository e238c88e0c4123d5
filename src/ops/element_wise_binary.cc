// ElementWiseBinary: functions of two operands (binary_operations.cc) with numpy broadcasting and fused activation.
// Source: QNN operator ElementWiseBinary (operation numbers of QnnOpDef).
#include <fmt/core.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/vector_math.h"
#include "ops/activation.h"
#include "ops/binary_operations.h"
#include "ops/binary_rules.h"
#include "ops/fixed_pairs.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

/// What is lowered: the operations that QNN has.
std::vector<std::pair<std::string_view, std::uint32_t>> numbers() {
  std::vector<std::pair<std::string_view, std::uint32_t>> table;
  for (const BinaryOperation& operation : binary_operations()) {
    if (operation.number >= 0) table.emplace_back(operation.name, static_cast<std::uint32_t>(operation.number));
  }
  return table;
}

/// Values with an encoding are real numbers, whatever they are stored in.
bool is_real(const TensorType& type) { return is_float(type.dtype) || type.encoding.has_value(); }

BinaryOperation::Loop loop_for(const BinaryOperation& operation, const TensorType& type) {
  if (is_real(type)) return operation.real;
  return type.dtype == DType::kBool ? operation.logic : operation.integer;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const std::string& name = node.attributes.text("operation");
  const BinaryOperation* operation = find_binary_operation(name);
  if (operation == nullptr) return fail(Code::kUnsupportedForm, fmt::format("no operation \"{}\"", name));
  HTPIPE_CHECK_OK(activation_range(node.attributes.text("activation")));
  const TensorType& type = node.type(0);
  if (type.dtype != node.type(1).dtype) {
    return fail(Code::kDtypeMismatch, fmt::format("{} and {}", name_of(type.dtype), name_of(node.type(1).dtype)));
  }
  if (loop_for(*operation, type) == nullptr || (operation->sign_matters && type.dtype == DType::kU64)) {
    return fail(Code::kUnsupportedForm, fmt::format("no {} of {}", name, name_of(type.dtype)));
  }
  if (node.attributes.text("activation") != "none" && (operation->compares || !is_real(type))) {
    return fail(Code::kUnsupportedForm, fmt::format("an activation behind {} of {}", name, name_of(type.dtype)));
  }
  HTPIPE_TRY(Shape shape, broadcast(type.shape, node.type(1).shape));
  return std::vector<TensorType>{{operation->compares ? DType::kBool : type.dtype, std::move(shape), std::nullopt}};
}

/// The exponent of a power that products give: 2 or 3 for every element; else 0.
int whole_exponent(const NodeView& node) {
  const Tensor* exponent = node.constants[1];
  if (node.attributes.text("operation") != "power" || exponent == nullptr || exponent->count() != 1) return 0;
  const double value = exponent->real(0);
  return value == 2.0 || value == 3.0 ? static_cast<int>(value) : 0;
}

Kernel with_activation(ActivationRange range, std::int64_t count, Kernel kernel) {
  if (range.low == -std::numeric_limits<float>::infinity()) return kernel;
  kernel.run = [run = std::move(kernel.run), range, count](const KernelCall& call) {
    run(call);
    apply_activation(range, call.out<float>(0), count);
  };
  return kernel;
}

Kernel power_kernel(int exponent, std::int64_t count) {
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    const float* in = call.in<float>(0);
    float* out = call.out<float>(0);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto x = static_cast<double>(in[i]);
      out[i] = static_cast<float>(exponent == 2 ? x * x : x * x * x);
    }
  };
  return kernel;
}

/// The operations that have a vector kernel.
std::optional<kernels::Binary32> vector_operation(std::string_view name) {
  using Row = std::pair<std::string_view, kernels::Binary32>;
  static constexpr Row kRows[] = {
      {"add", kernels::Binary32::kAdd},           {"subtract", kernels::Binary32::kSubtract},
      {"multiply", kernels::Binary32::kMultiply}, {"divide", kernels::Binary32::kDivide},
      {"maximum", kernels::Binary32::kMaximum},   {"minimum", kernels::Binary32::kMinimum}};
  for (const Row& row : kRows) {
    if (row.first == name) return row.second;
  }
  return std::nullopt;
}

Kernel vector_kernel(kernels::Binary32 operation, const BroadcastPlan& plan, ActivationRange range) {
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    share_runs(call, plan, [&](std::int64_t to, const BroadcastPlan::Offsets& from, std::int64_t count) {
      kernels::vector_math().binary({operation, call.in<float>(0) + from[0], call.in<float>(1) + from[1],
                                     plan.repeats[0], plan.repeats[1], call.out<float>(0) + to, count, range.low,
                                     range.high});
    });
  };
  return kernel;
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  const TensorType& type = node.type(0);
  const std::string& name = node.attributes.text("operation");
  HTPIPE_TRY(const ActivationRange range, activation_range(node.attributes.text("activation")));
  const bool known = type.dtype == DType::kF32 || type.dtype == DType::kI64 || type.dtype == DType::kBool;
  const BinaryOperation* operation = find_binary_operation(name);
  const BinaryOperation::Loop loop = operation != nullptr && known ? loop_for(*operation, type) : nullptr;
  if (loop == nullptr) return fail(Code::kUnsupportedForm, fmt::format("no {} of {}", name, name_of(type.dtype)));
  const Shape& shape = request.results[0]->shape;
  const bool clamps = request.results[0]->dtype == DType::kF32;
  if (const int exponent = whole_exponent(node); exponent != 0 && clamps && shape == type.shape) {
    return with_activation(range, element_count(shape), power_kernel(exponent, element_count(shape)));
  }
  if (const auto vector = vector_operation(name); vector && type.dtype == DType::kF32) {
    return vector_kernel(*vector, plan_broadcast({&type.shape, &node.type(1).shape}, shape), range);
  }
  Kernel kernel;
  kernel.run = [loop, plan = plan_broadcast({&type.shape, &node.type(1).shape}, shape)](const KernelCall& call) {
    loop(plan, call.operands[0], call.operands[1], call.results[0]);
  };
  return clamps ? with_activation(range, element_count(shape), std::move(kernel)) : kernel;
}

Result<Kernel> double_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  const BinaryOperation::Loop loop = double_loop(node.attributes.text("operation"));
  if (loop == nullptr || node.attributes.text("activation") != "none") {
    return fail(Code::kUnsupportedForm, "not in float64");
  }
  Kernel kernel;
  kernel.run = [loop, plan = plan_broadcast({&node.type(0).shape, &node.type(1).shape}, request.results[0]->shape)](
                   const KernelCall& call) { loop(plan, call.operands[0], call.operands[1], call.results[0]); };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  if (request.results[0]->encoding) {
    HTPIPE_CHECK_OK(check_activation_encoding(node.attributes.text("activation"), *request.results[0]));
  }
  HTPIPE_TRY(const kernels::Binary function, binary_rule(node, *request.results[0]));
  const std::string& operation = node.attributes.text("operation");
  if (operation != "add" && operation != "subtract") return pair_kernel(request, function);
  HTPIPE_TRY(const kernels::Grid a, kernels::Grid::of(node.type(0)));
  HTPIPE_TRY(const kernels::Grid b, kernels::Grid::of(node.type(1)));
  HTPIPE_TRY(const kernels::Grid out, kernels::Grid::of(*request.results[0]));
  return pair_kernel(request, function, kernels::add_factors(a, b, out, operation == "subtract"));
}

}  // namespace

const OpDef& element_wise_binary() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "ElementWiseBinary";
    def.doc = "Elementwise function of two operands, with broadcasting.";
    def.operands = {{"a"}, {"b"}};
    def.attributes = {
        {"operation", std::string("add"), true, "add, multiply, less, and, shift_left ...: see binary_operations.cc"},
        activation_attribute()};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.double_kernel = double_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"ElementWiseBinary", {{"operation", "operation", ParamKind::kEnum, numbers()}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
