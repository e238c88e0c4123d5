#include "ops/float_class.h"

#include <fmt/core.h>

namespace htpipe::ops {
namespace {

/// All exponent bits: the number behind it is infinite, or NaN when bits of the fraction are set.
template <typename Bits>
Kernel compare_bits(Bits exponent, FloatClass wanted, Signs signs, std::int64_t count) {
  constexpr Bits kSign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
  Kernel kernel;
  if (wanted == FloatClass::kNan) {
    kernel.run = [=](const KernelCall& call) {
      const Bits* in = call.in<Bits>(0);
      std::uint8_t* out = call.out<std::uint8_t>(0);
      for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<Bits>(in[i] & ~kSign) > exponent ? 1 : 0;
    };
    return kernel;
  }
  // A sign that does not count is compared with a NaN, which no infinity equals.
  const Bits nothing = static_cast<Bits>(exponent | 1U);
  const Bits positive = signs.positive ? exponent : nothing;
  const Bits negative = static_cast<Bits>((signs.negative ? exponent : nothing) | kSign);
  kernel.run = [=](const KernelCall& call) {
    const Bits* in = call.in<Bits>(0);
    std::uint8_t* out = call.out<std::uint8_t>(0);
    for (std::int64_t i = 0; i < count; ++i) out[i] = in[i] == positive || in[i] == negative ? 1 : 0;
  };
  return kernel;
}

}  // namespace

Result<std::vector<TensorType>> infer_class(const NodeView& node) {
  if (!is_float(node.type(0).dtype)) {
    return fail(Code::kDtypeMismatch, fmt::format("{} has no NaN and no infinity", name_of(node.type(0).dtype)));
  }
  return std::vector<TensorType>{{DType::kBool, node.type(0).shape, std::nullopt}};
}

Result<Kernel> class_kernel(const KernelRequest& request, FloatClass wanted, Signs signs) {
  const TensorType& type = request.node.type(0);
  const std::int64_t count = type.count();
  switch (type.dtype) {
    case DType::kF64:
      return compare_bits<std::uint64_t>(0x7FF0000000000000U, wanted, signs, count);
    case DType::kF32:
      return compare_bits<std::uint32_t>(0x7F800000U, wanted, signs, count);
    case DType::kF16:
      return compare_bits<std::uint16_t>(0x7C00U, wanted, signs, count);
    case DType::kBF16:
      return compare_bits<std::uint16_t>(0x7F80U, wanted, signs, count);
    default:
      return fail(Code::kUnsupportedForm, fmt::format("{} has no NaN and no infinity", name_of(type.dtype)));
  }
}

}  // namespace htpipe::ops
