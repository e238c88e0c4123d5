// ElementWiseNeuron: one-input activations. Source: QNN operator ElementWiseNeuron (operation numbers of QnnOpDef).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

const std::vector<std::pair<std::string_view, std::uint32_t>>& operations() {
  static const std::vector<std::pair<std::string_view, std::uint32_t>> table = {
      {"gelu", 1},         {"hard_sigmoid", 2}, {"hard_swish", 3}, {"relu", 4},
      {"relu_min_max", 5}, {"sigmoid", 6},      {"tanh", 8}};
  return table;
}

using Function = std::function<double(double)>;

Result<Function> function_of(const Attributes& attributes) {
  const std::string& operation = attributes.text("operation");
  if (operation == "relu") return Function([](double x) { return x > 0 ? x : 0; });
  if (operation == "relu_min_max") {
    const auto low = static_cast<double>(attributes.real("min_value"));
    const auto high = static_cast<double>(attributes.real("max_value"));
    if (!(low <= high)) return fail(Code::kUnsupportedForm, "min_value is above max_value");
    return Function([low, high](double x) { return std::clamp(x, low, high); });
  }
  if (operation == "sigmoid") return Function([](double x) { return 1 / (1 + std::exp(-x)); });
  if (operation == "tanh") return Function([](double x) { return std::tanh(x); });
  if (operation == "gelu")
    return Function([](double x) { return 0.5 * x * (1 + std::erf(x * 0.70710678118654752440)); });
  if (operation == "hard_sigmoid") {
    // QNN's own defaults are 0.2 and 0.5; PyTorch's function has the slope 1/6.
    const auto alpha = static_cast<double>(attributes.real("alpha"));
    const auto beta = static_cast<double>(attributes.real("beta"));
    return Function([alpha, beta](double x) { return std::clamp(alpha * x + beta, 0.0, 1.0); });
  }
  if (operation == "hard_swish") return Function([](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); });
  return fail(Code::kUnsupportedForm, fmt::format("no operation \"{}\"", operation));
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(function_of(node.attributes));
  return std::vector<TensorType>{{node.type(0).dtype, node.type(0).shape, std::nullopt}};
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const Function function, function_of(request.node.attributes));
  const std::int64_t count = request.node.type(0).count();
  Kernel kernel;
  kernel.run = [function, count](const KernelCall& call) {
    const float* in = call.in<float>(0);
    float* out = call.out<float>(0);
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(function(static_cast<double>(in[i])));
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const Function function, function_of(node.attributes));
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(node.type(0)));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  const std::int64_t count = node.type(0).count();
  kernels::Unary unary = kernels::table(function, from, to);
  const std::string& operation = node.attributes.text("operation");
  if (to.wide() && operation == "hard_sigmoid" && (to.zero != 0 || std::fabs(to.scale * 65535 - 1) > 1e-4)) {
    return fail(Code::kNoFixedRule,
                "in 16 bits the chip stores hard_sigmoid in steps of 1/65535, whatever the encoding says");
  }
  if (from.wide() && operation == "relu") unary = kernels::wide_clamp(0, INFINITY, from, to);
  if (from.wide() && operation == "relu_min_max") {
    unary = kernels::wide_clamp(static_cast<double>(node.attributes.real("min_value")),
                                static_cast<double>(node.attributes.real("max_value")), from, to);
  }
  Kernel kernel;
  kernel.run = [map = kernels::UnaryMap(unary, node.type(0).dtype, request.results[0]->dtype),
                count](const KernelCall& call) { map.run(call.operands[0], call.results[0], count); };
  return kernel;
}

}  // namespace

const OpDef& element_wise_neuron() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "ElementWiseNeuron";
    def.doc = "One-input activation function.";
    def.operands = {{"input"}};
    def.attributes = {{"operation", std::string("relu"), true, "relu, relu_min_max, sigmoid, tanh, gelu, hard_*"},
                      {"min_value", 0.0F, false, "relu_min_max only"},
                      {"max_value", 6.0F, false, "relu_min_max only"},
                      {"alpha", 1.0F / 6.0F, false, "hard_sigmoid only: slope"},
                      {"beta", 0.5F, false, "hard_sigmoid only: value at 0"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"ElementWiseNeuron",
                    {{"operation", "operation", ParamKind::kEnum, operations()},
                     {"alpha", "alpha", ParamKind::kF32, {}, false, "hard_sigmoid"},
                     {"beta", "beta", ParamKind::kF32, {}, false, "hard_sigmoid"},
                     {"min_value", "min_value", ParamKind::kF32, {}, false, "relu_min_max"},
                     {"max_value", "max_value", ParamKind::kF32, {}, false, "relu_min_max"}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
