// Cast: plain numbers in another data type. Source: QNN operator Cast.
// Real numbers lose their fraction in integers; integers keep their low bits; anything but 0 is true. What C++ leaves
// open: real numbers outside a type's range take its nearest bound (of int32 for the types below 32 bits, of int64 for
// u32), and NaN becomes 0.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "ops/registry.h"
#include "ops/stored.h"
#include "ops/to_attribute.h"
#include "tensor/dtype.h"

namespace htpipe::ops {
namespace {

/// How elements of a type are stored, and what they count as.
template <typename Stored_, typename Number_>
struct Plain {
  using Stored = Stored_;
  using Number = Number_;
  static Number load(Stored x) { return static_cast<Number>(x); }
};
struct Half {
  using Stored = std::uint16_t;
  using Number = float;
  static float load(std::uint16_t bits) { return from_f16(bits); }
};
struct BFloat {
  using Stored = std::uint16_t;
  using Number = float;
  static float load(std::uint16_t bits) { return from_bf16(bits); }
};
struct Logic {
  using Stored = std::uint8_t;
  using Number = bool;
  static bool load(std::uint8_t x) { return x != 0; }
};

/// Nearest number of `Integer`; NaN is 0. The bounds are powers of two or one less, so that both compare exactly.
template <typename Integer, typename Real>
Integer saturate(Real x) {
  constexpr auto kLow = static_cast<Real>(std::numeric_limits<Integer>::min());
  const Real above = std::ldexp(Real(1), std::numeric_limits<Integer>::digits);
  if (x != x) return 0;
  if (x < kLow) return std::numeric_limits<Integer>::min();
  return x >= above ? std::numeric_limits<Integer>::max() : static_cast<Integer>(x);
}

template <typename To, typename Number>
typename To::Stored store(Number x) {
  using Stored = typename To::Stored;
  if constexpr (std::is_same_v<To, Logic>) {
    return x != Number(0) ? 1 : 0;
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_f16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, BFloat>) {
    return to_bf16(static_cast<float>(x));
  } else if constexpr (std::is_integral_v<Stored> && std::is_floating_point_v<Number>) {
    if constexpr (sizeof(Stored) < 4) return static_cast<Stored>(saturate<std::int32_t>(x));
    if constexpr (std::is_same_v<Stored, std::uint32_t>) return static_cast<Stored>(saturate<std::int64_t>(x));
    return saturate<Stored>(x);
  } else {
    return static_cast<Stored>(x);
  }
}

/// Calls use(type) with the description of `dtype`.
template <typename Use>
auto with_type(DType dtype, Use use) {
  switch (dtype) {
    case DType::kF64:
      return use(Plain<double, double>());
    case DType::kF32:
      return use(Plain<float, float>());
    case DType::kF16:
      return use(Half());
    case DType::kBF16:
      return use(BFloat());
    case DType::kI64:
      return use(Plain<std::int64_t, std::int64_t>());
    case DType::kI32:
      return use(Plain<std::int32_t, std::int32_t>());
    case DType::kI16:
      return use(Plain<std::int16_t, std::int16_t>());
    case DType::kI8:
      return use(Plain<std::int8_t, std::int8_t>());
    case DType::kU64:
      return use(Plain<std::uint64_t, std::uint64_t>());
    case DType::kU32:
      return use(Plain<std::uint32_t, std::uint32_t>());
    case DType::kU16:
      return use(Plain<std::uint16_t, std::uint16_t>());
    case DType::kU8:
      return use(Plain<std::uint8_t, std::uint8_t>());
    case DType::kBool:
      break;
  }
  return use(Logic());
}

using Loop = void (*)(const void* in, void* out, std::int64_t count);

template <typename From, typename To>
void loop(const void* in, void* out, std::int64_t count) {
  const auto* from = static_cast<const typename From::Stored*>(in);
  auto* to = static_cast<typename To::Stored*>(out);
  for (std::int64_t i = 0; i < count; ++i) to[i] = store<To>(From::load(from[i]));
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const auto to = parse_dtype(node.attributes.text("to"));
  if (!to) return fail(Code::kUnsupportedForm, fmt::format("no data type \"{}\"", node.attributes.text("to")));
  if (node.type(0).encoding) {
    return fail(Code::kDtypeMismatch, "stored integers with an encoding are no plain numbers; Dequantize reads them");
  }
  return std::vector<TensorType>{{*to, node.type(0).shape, std::nullopt}};
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const DType from = request.node.type(0).dtype;
  const DType to = request.results[0]->dtype;
  const std::int64_t count = request.node.type(0).count();
  Kernel kernel;
  if (from == to && from != DType::kBool) {
    kernel.run = [size = request.node.type(0).size_bytes()](const KernelCall& call) {
      if (size != 0) std::memcpy(call.results[0], call.operands[0], size);
    };
    return kernel;
  }
  const Loop convert = with_type(from, [to](auto source) {
    return with_type(to, [](auto target) -> Loop { return loop<decltype(source), decltype(target)>; });
  });
  kernel.run = [convert, count](const KernelCall& call) { convert(call.operands[0], call.results[0], count); };
  return kernel;
}

/// From plain numbers to stored ones that mean themselves: the chip clamps and knows no scale.
Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const TensorType& from = request.node.type(0);
  const TensorType& to = *request.results[0];
  const bool plain = !from.encoding && (from.dtype == DType::kI32 || from.dtype == DType::kBool);
  const bool itself = to.encoding && to.encoding->per_tensor() && to.encoding->scale() == 1.0F &&
                      to.encoding->zero_point() == 0 && (to.dtype == DType::kU8 || to.dtype == DType::kU16);
  if (!plain || !itself) {
    return fail(Code::kNoFixedRule, fmt::format("Cast from {} to {}", to_string(from), to_string(to)));
  }
  const std::int64_t high = highest(to.dtype);
  Kernel kernel;
  kernel.run = [from = from.dtype, to = to.dtype, count = to.count(), high](const KernelCall& call) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t number = from == DType::kBool ? static_cast<std::int64_t>(call.in<std::uint8_t>(0)[i] != 0)
                                                       : load_stored(call.operands[0], from, i);
      save_stored(call.results[0], to, i, std::clamp<std::int64_t>(number, 0, high));
    }
  };
  return kernel;
}

}  // namespace

const OpDef& cast() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Cast";
    def.doc = "The same numbers in another data type.";
    def.operands = {{"input"}};
    def.attributes = {to_attribute()};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.fixed_kernel = fixed_kernel;
    def.any_dtype = true;
    def.layout = Layout::kElementwise;
    def.lowering = {"Cast"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
