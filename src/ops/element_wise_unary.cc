// ElementWiseUnary: functions of one operand. Source: QNN operator ElementWiseUnary (operation numbers of QnnOpDef).
// What the C library computes is computed in double and rounded once: its float functions differ in the last bit
// between machines. exp and erf have vector kernels of their own (kernels/vector_math.h).
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "kernels/fixed/curves.h"
#include "kernels/fixed/elementwise.h"
#include "ops/fixed_map.h"
#include "ops/map_call.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

using I64 = std::int64_t;
using U64 = std::uint64_t;

struct Operation {
  using Loop = void (*)(const void* in, void* out, std::int64_t count);

  std::string_view name;
  int number;                 ///< of QNN; -1 = QNN has no such operation
  Loop real;                  ///< on float32; null where the operation has no meaning
  Loop integer;               ///< on int64
  Loop logic;                 ///< on bool
  bool sign_matters = false;  ///< int64 and unsigned 64-bit numbers have other results
};

struct Abs {
  float operator()(float x) const { return std::fabs(x); }
  I64 operator()(I64 x) const { return x < 0 ? static_cast<I64>(0 - static_cast<U64>(x)) : x; }
};
struct Neg {
  float operator()(float x) const { return -x; }
  I64 operator()(I64 x) const { return static_cast<I64>(0 - static_cast<U64>(x)); }
};
/// 0 for NaN, as PyTorch has it.
struct Sign {
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(static_cast<int>(x > 0) - static_cast<int>(x < 0));
  }
};
struct Not {
  std::uint8_t operator()(std::uint8_t x) const { return x == 0 ? 1 : 0; }
};
struct BitNot {
  I64 operator()(I64 x) const { return ~x; }
};
struct Same {
  I64 operator()(I64 x) const { return x; }
};
struct Ceil {
  float operator()(float x) const { return std::ceil(x); }
};
struct Floor {
  float operator()(float x) const { return std::floor(x); }
};
struct Trunc {
  float operator()(float x) const { return std::trunc(x); }
};
/// Halves go to the even neighbour: the rounding mode that every C++ program starts with.
struct Round {
  float operator()(float x) const { return std::nearbyint(x); }
};
struct Reciprocal {
  float operator()(float x) const { return 1.0F / x; }
};
struct Sqrt {
  float operator()(float x) const { return std::sqrt(x); }
};
struct Rsqrt {
  float operator()(float x) const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
};
/// A function of the C library.
template <double (*Function)(double)>
struct Library {
  float operator()(float x) const { return static_cast<float>(Function(static_cast<double>(x))); }
};

template <typename T, typename Function>
void loop(const void* in, void* out, std::int64_t count) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  for (std::int64_t i = 0; i < count; ++i) to[i] = Function()(from[i]);
}
template <typename F>
constexpr Operation::Loop kOnReal = loop<float, F>;
template <typename F>
constexpr Operation::Loop kOnInteger = loop<I64, F>;
template <double (*F)(double)>
constexpr Operation::Loop kLibrary = loop<float, Library<F>>;
constexpr Operation::Loop kOnLogic = loop<std::uint8_t, Not>;
constexpr Operation::Loop kNone = nullptr;

constexpr Operation kOperations[] = {
    {"abs", 0, kOnReal<Abs>, kOnInteger<Abs>, kNone, true},
    {"acos", -1, kLibrary<std::acos>, kNone, kNone},
    {"acosh", -1, kLibrary<std::acosh>, kNone, kNone},
    {"asin", 1, kLibrary<std::asin>, kNone, kNone},
    {"asinh", -1, kLibrary<std::asinh>, kNone, kNone},
    {"atan", 2, kLibrary<std::atan>, kNone, kNone},
    {"atanh", -1, kLibrary<std::atanh>, kNone, kNone},
    {"bit_not", -1, kNone, kOnInteger<BitNot>, kOnLogic},
    {"ceil", 3, kOnReal<Ceil>, kOnInteger<Same>, kNone},
    {"cos", 4, kLibrary<std::cos>, kNone, kNone},
    {"cosh", -1, kLibrary<std::cosh>, kNone, kNone},
    {"erf", -1, kLibrary<std::erf>, kNone, kNone},
    {"exp", 5, kLibrary<std::exp>, kNone, kNone},
    {"floor", 6, kOnReal<Floor>, kOnInteger<Same>, kNone},
    {"log", 7, kLibrary<std::log>, kNone, kNone},
    {"neg", 8, kOnReal<Neg>, kOnInteger<Neg>, kNone},
    {"not", 9, kNone, kNone, kOnLogic},
    {"reciprocal", 10, kOnReal<Reciprocal>, kNone, kNone},
    {"round", 11, kOnReal<Round>, kOnInteger<Same>, kNone},
    {"rsqrt", 12, kOnReal<Rsqrt>, kNone, kNone},
    {"sign", 13, kOnReal<Sign>, kOnInteger<Sign>, kNone, true},
    {"sin", 14, kLibrary<std::sin>, kNone, kNone},
    {"sinh", -1, kLibrary<std::sinh>, kNone, kNone},
    {"sqrt", 15, kOnReal<Sqrt>, kNone, kNone},
    {"tan", -1, kLibrary<std::tan>, kNone, kNone},
    {"trunc", -1, kOnReal<Trunc>, kOnInteger<Same>, kNone},
};

const Operation* find_operation(std::string_view name) {
  for (const Operation& operation : kOperations) {
    if (operation.name == name) return &operation;
  }
  return nullptr;
}

/// Values with an encoding are real numbers, whatever they are stored in.
Operation::Loop loop_for(const Operation& operation, const TensorType& type) {
  if (is_float(type.dtype) || type.encoding) return operation.real;
  return type.dtype == DType::kBool ? operation.logic : operation.integer;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const std::string& name = node.attributes.text("operation");
  const Operation* operation = find_operation(name);
  if (operation == nullptr) return fail(Code::kUnsupportedForm, fmt::format("no operation \"{}\"", name));
  const TensorType& type = node.type(0);
  if (loop_for(*operation, type) == nullptr || (operation->sign_matters && type.dtype == DType::kU64)) {
    return fail(Code::kUnsupportedForm, fmt::format("no {} of {}", name, name_of(type.dtype)));
  }
  return std::vector<TensorType>{{type.dtype, type.shape, std::nullopt}};
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const TensorType& type = request.node.type(0);
  const std::string& name = request.node.attributes.text("operation");
  const bool known = type.dtype == DType::kF32 || type.dtype == DType::kI64 || type.dtype == DType::kBool;
  const Operation* operation = find_operation(name);
  const Operation::Loop loop = operation != nullptr && known ? loop_for(*operation, type) : nullptr;
  if (loop == nullptr) return fail(Code::kUnsupportedForm, fmt::format("no {} of {}", name, name_of(type.dtype)));
  if (type.dtype == DType::kF32 && name == "exp") return map_kernel(kernels::Unary32::kExp, type.count());
  if (type.dtype == DType::kF32 && name == "erf") return map_kernel(kernels::Unary32::kErf, type.count());
  Kernel kernel;
  kernel.run = [loop, count = type.count(), in_size = size_of(type.dtype),
                out_size = size_of(request.results[0]->dtype)](const KernelCall& call) {
    constexpr std::int64_t kGrain = 1 << 13;  // elements that are worth a hand-over to another thread
    for_parts(call, count, kGrain, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      const auto first = static_cast<std::size_t>(begin);
      loop(call.in<std::byte>(0) + first * in_size, call.out<std::byte>(0) + first * out_size, end - begin);
    });
  };
  return kernel;
}

/// What the chip stores for each stored operand. Errors: no-fixed-rule.
Result<kernels::Unary> unary_rule(const Operation& operation, const kernels::Grid& from, const kernels::Grid& to) {
  const std::string_view name = operation.name;
  if (operation.number < 0) return fail(Code::kNoFixedRule, fmt::format("no integer arithmetic for {}", name));
  if (from.wide() != to.wide()) return fail(Code::kNoFixedRule, fmt::format("{} between 8 and 16 bits", name));
  if (name == "neg") return kernels::negate(from, to);
  if (from.wide()) {
    if (name == "asin") return fail(Code::kNoFixedRule, "the chip has no asin of 16 bits");
    if (name == "log" && to.scale <= std::ldexp(1.0, -14)) {
      return fail(Code::kNoFixedRule, "in 16 bits the chip stores zeros for log in steps of 1/16384 and less");
    }
    if (name == "sqrt") return kernels::wide_root(from, to);
    if (name == "abs") {
      kernels::Grid magnitude = from;
      magnitude.zero = 0;
      return kernels::Unary([zero = from.zero, map = kernels::convert(magnitude, to)](std::int64_t q) {
        return map(std::abs(q - zero));
      });
    }
  }
  const auto function = [loop = operation.real, log = name == "log"](double x) {
    if (log && x < 0) return -std::numeric_limits<double>::infinity();
    const auto in = static_cast<float>(x);
    float out = 0;
    loop(&in, &out, 1);
    return static_cast<double>(out);
  };
  const bool whole = name == "ceil" || name == "floor" || name == "round";
  return kernels::table(function, from, to, whole && to.wide() ? kernels::LastStep::kDown : kernels::LastStep::kEven);
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const TensorType& type = request.node.type(0);
  const TensorType& result = *request.results[0];
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(type));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(result));
  const Operation* operation = find_operation(request.node.attributes.text("operation"));
  if (operation == nullptr || operation->real == nullptr) {
    return fail(Code::kUnsupportedForm, fmt::format("no such function of {}", name_of(type.dtype)));
  }
  HTPIPE_TRY(const kernels::Unary rule, unary_rule(*operation, from, to));
  Kernel kernel;
  kernel.run = [map = kernels::UnaryMap(rule, type.dtype, result.dtype), count = type.count()](const KernelCall& call) {
    run_map(map, count, call);
  };
  return kernel;
}

/// What is lowered: the operations that QNN has.
std::vector<std::pair<std::string_view, std::uint32_t>> numbers() {
  std::vector<std::pair<std::string_view, std::uint32_t>> table;
  for (const Operation& operation : kOperations) {
    if (operation.number >= 0) table.emplace_back(operation.name, static_cast<std::uint32_t>(operation.number));
  }
  return table;
}

}  // namespace

const OpDef& element_wise_unary() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "ElementWiseUnary";
    def.doc = "Elementwise function of one operand.";
    def.operands = {{"input"}};
    def.attributes = {{"operation", std::string("abs"), true, "abs, exp, not, round ...: see element_wise_unary.cc"}};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"ElementWiseUnary", {{"operation", "operation", ParamKind::kEnum, numbers()}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
