// ElementWiseNeuron: one-input activations. Source: QNN operator ElementWiseNeuron (operation numbers of QnnOpDef).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/fixed/curves.h"
#include "kernels/fixed/elementwise.h"
#include "ops/fixed_map.h"
#include "ops/map_call.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

/// What is lowered: the operations that QNN has. It has one gelu only; the approximation with tanh is at most 4.8e-4 away
/// from it, where |x| is about 2.7.
const std::vector<std::pair<std::string_view, std::uint32_t>>& numbers() {
  static const std::vector<std::pair<std::string_view, std::uint32_t>> table = {
      {"elu", 0},          {"gelu", 1},    {"hard_sigmoid", 2}, {"hard_swish", 3}, {"relu", 4},
      {"relu_min_max", 5}, {"sigmoid", 6}, {"softplus", 7},     {"tanh", 8},       {"gelu_tanh", 1}};
  return table;
}

// Functions that only choose are exact in float; the others are computed in double and rounded once, but for those that
// have a vector kernel (kernels/vector_math.h).
// Every one passes NaN on.
struct Relu {
  static constexpr bool kExactInFloat = true;
  template <typename T>
  T operator()(T x) const {
    return x <= T(0) ? T(0) : x;
  }
};
struct ReluMinMax {
  static constexpr bool kExactInFloat = true;
  float low;
  float high;
  template <typename T>
  T operator()(T x) const {
    const T above = x < static_cast<T>(low) ? static_cast<T>(low) : x;
    return static_cast<T>(high) < above ? static_cast<T>(high) : above;
  }
};
struct HardSigmoid {
  static constexpr bool kExactInFloat = false;
  double alpha;
  double beta;
  double operator()(double x) const { return std::clamp(alpha * x + beta, 0.0, 1.0); }
};
struct HardSwish {
  static constexpr bool kExactInFloat = false;
  double operator()(double x) const { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }
};
struct Sigmoid {
  static constexpr bool kExactInFloat = false;
  double operator()(double x) const { return 1 / (1 + std::exp(-x)); }
};
struct Tanh {
  static constexpr bool kExactInFloat = false;
  double operator()(double x) const { return std::tanh(x); }
};
struct Gelu {
  static constexpr bool kExactInFloat = false;
  double operator()(double x) const { return 0.5 * x * (1 + std::erf(x * 0.70710678118654752440)); }
};
struct GeluTanh {
  static constexpr bool kExactInFloat = false;
  double operator()(double x) const {
    constexpr double kRoot = 0.79788456080286535588;  // of 2 / pi
    return 0.5 * x * (1 + std::tanh(kRoot * (x + 0.044715 * x * x * x)));
  }
};
struct Elu {
  static constexpr bool kExactInFloat = false;
  double alpha;
  double operator()(double x) const { return x > 0 ? x : alpha * std::expm1(x); }
};
struct Softplus {
  static constexpr bool kExactInFloat = false;
  double beta;
  double threshold;
  double operator()(double x) const {
    const double scaled = beta * x;
    if (scaled > threshold) return x;
    return (std::max(scaled, 0.0) + std::log1p(std::exp(-std::fabs(scaled)))) / beta;
  }
};

/// Calls use(function) for the operation that the attributes name. Errors: unsupported-form.
template <typename Use>
auto with_function(const Attributes& attributes, Use use) -> decltype(use(Relu())) {
  const std::string& operation = attributes.text("operation");
  const auto real = [&attributes](const char* name) { return static_cast<double>(attributes.real(name)); };
  if (operation == "relu") return use(Relu());
  if (operation == "relu_min_max") {
    const ReluMinMax function = {attributes.real("min_value"), attributes.real("max_value")};
    if (!(function.low <= function.high)) return fail(Code::kUnsupportedForm, "min_value is above max_value");
    return use(function);
  }
  if (operation == "sigmoid") return use(Sigmoid());
  if (operation == "tanh") return use(Tanh());
  if (operation == "gelu") return use(Gelu());
  if (operation == "gelu_tanh") return use(GeluTanh());
  // QNN's own defaults are 0.2 and 0.5; PyTorch's function has the slope 1/6.
  if (operation == "hard_sigmoid") return use(HardSigmoid{real("alpha"), real("beta")});
  if (operation == "hard_swish") return use(HardSwish());
  if (operation == "elu") return use(Elu{real("alpha")});
  if (operation == "softplus") {
    if (!(real("beta") > 0)) return fail(Code::kUnsupportedForm, "beta of softplus must be above 0");
    return use(Softplus{real("beta"), real("threshold")});
  }
  return fail(Code::kUnsupportedForm, fmt::format("no operation \"{}\"", operation));
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const TensorType& type = node.type(0);
  const std::string& operation = node.attributes.text("operation");
  HTPIPE_CHECK_OK(with_function(node.attributes, [](auto) { return Status(); }));
  if (!is_float(type.dtype) && !type.encoding && (type.dtype == DType::kBool || operation != "relu")) {
    return fail(Code::kUnsupportedForm, fmt::format("no {} of {}", operation, name_of(type.dtype)));
  }
  return std::vector<TensorType>{{type.dtype, type.shape, std::nullopt}};
}

constexpr std::int64_t kGrain = 1 << 13;  ///< elements that are worth a hand-over to another thread

template <typename T, typename Function>
Kernel loop(Function function, std::int64_t count) {
  Kernel kernel;
  kernel.run = [function, count](const KernelCall& call) {
    for_parts(call, count, kGrain, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      const T* in = call.in<T>(0);
      T* out = call.out<T>(0);
      for (std::int64_t i = begin; i < end; ++i) {
        if constexpr (Function::kExactInFloat) {
          out[i] = function(in[i]);
        } else {
          out[i] = static_cast<T>(function(static_cast<double>(in[i])));
        }
      }
    });
  };
  return kernel;
}

/// The operations that have a vector kernel.
std::optional<kernels::Unary32> vector_function(std::string_view operation) {
  if (operation == "sigmoid") return kernels::Unary32::kSigmoid;
  if (operation == "tanh") return kernels::Unary32::kTanh;
  if (operation == "gelu") return kernels::Unary32::kGelu;
  if (operation == "gelu_tanh") return kernels::Unary32::kGeluTanh;
  if (operation == "hard_swish") return kernels::Unary32::kHardSwish;
  return std::nullopt;
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const TensorType& type = request.node.type(0);
  const std::int64_t count = type.count();
  const std::string& operation = request.node.attributes.text("operation");
  if (type.dtype == DType::kI64 && operation == "relu") return loop<std::int64_t>(Relu(), count);
  if (type.dtype != DType::kF32) {
    return fail(Code::kUnsupportedForm, fmt::format("no {} of {}", operation, name_of(type.dtype)));
  }
  if (const auto function = vector_function(operation)) return map_kernel(*function, count);
  return with_function(request.node.attributes,
                       [count](auto each) -> Result<Kernel> { return loop<float>(each, count); });
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  const std::string& operation = node.attributes.text("operation");
  const bool is_gelu = operation == "gelu" || operation == "gelu_tanh";  // the chip has one
  using Function = std::function<double(double)>;
  HTPIPE_TRY(Function function, with_function(node.attributes, [](auto each) -> Result<Function> {
               return Function([each](double x) { return static_cast<double>(each(x)); });
             }));
  if (is_gelu) function = Gelu();
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(node.type(0)));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  const std::int64_t count = node.type(0).count();
  kernels::Unary unary = kernels::table(function, from, to);
  if (to.wide() && operation == "hard_sigmoid" && (to.zero != 0 || std::fabs(to.scale * 65535 - 1) > 1e-4)) {
    return fail(Code::kNoFixedRule,
                "in 16 bits the chip stores hard_sigmoid in steps of 1/65535, whatever the encoding says");
  }
  if (from.wide() && to.wide() && is_gelu) unary = kernels::wide_gelu(from, to);
  if (from.wide() && to.wide() && operation == "softplus") {
    unary = kernels::wide_softplus(static_cast<double>(node.attributes.real("beta")),
                                   static_cast<double>(node.attributes.real("threshold")), from, to);
  }
  if (from.wide() && operation == "relu") unary = kernels::wide_clamp(0, INFINITY, from, to);
  if (from.wide() && operation == "relu_min_max") {
    unary = kernels::wide_clamp(static_cast<double>(node.attributes.real("min_value")),
                                static_cast<double>(node.attributes.real("max_value")), from, to);
  }
  Kernel kernel;
  kernel.run = [map = kernels::UnaryMap(unary, node.type(0).dtype, request.results[0]->dtype),
                count](const KernelCall& call) { run_map(map, count, call); };
  return kernel;
}

}  // namespace

const OpDef& element_wise_neuron() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "ElementWiseNeuron";
    def.doc = "One-input activation function.";
    def.operands = {{"input"}};
    def.attributes = {
        {"operation", std::string("relu"), true,
         "relu, relu_min_max, sigmoid, tanh, gelu, gelu_tanh, hard_*, elu, softplus"},
        {"min_value", 0.0F, false, "relu_min_max only"},
        {"max_value", 6.0F, false, "relu_min_max only"},
        {"alpha", 1.0F / 6.0F, false, "hard_sigmoid: slope; elu: minus its lowest value"},
        {"beta", 0.5F, false, "hard_sigmoid: value at 0; softplus: factor of the argument"},
        {"threshold", 20.0F, false, "softplus: where beta times the argument is above, it is the result"}};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"ElementWiseNeuron",
                    {{"operation", "operation", ParamKind::kEnum, numbers()},
                     {"alpha", "alpha", ParamKind::kF32, {}, false, "hard_sigmoid"},
                     {"beta", "beta", ParamKind::kF32, {}, false, "hard_sigmoid"},
                     {"alpha", "alpha", ParamKind::kF32, {}, false, "elu"},
                     {"beta", "beta", ParamKind::kF32, {}, false, "softplus"},
                     {"threshold", "threshold", ParamKind::kF32, {}, false, "softplus"},
                     {"min_value", "min_value", ParamKind::kF32, {}, false, "relu_min_max"},
                     {"max_value", "max_value", ParamKind::kF32, {}, false, "relu_min_max"}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
