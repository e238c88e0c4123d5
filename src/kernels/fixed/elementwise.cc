#include "kernels/fixed/elementwise.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernels/fixed/rounding.h"

namespace htpipe::kernels {
namespace {

std::int64_t half_up(double value) { return static_cast<std::int64_t>(std::floor(value + 0.5)); }

/// Between 16-bit encodings: the factor has 18 fractional bits.
struct WideFactor {
  static constexpr int kBits = 18;
  std::int64_t value;
  WideFactor(const Grid& from, const Grid& to) {
    const float ratio = static_cast<float>(from.scale) / static_cast<float>(to.scale);
    value = half_up(std::ldexp(static_cast<double>(ratio), kBits));
  }
  /// `q` times the factor, rounded half up to `fraction_bits`.
  [[nodiscard]] std::int64_t times(std::int64_t q, int fraction_bits) const {
    const int drop = kBits - fraction_bits;
    return (q * value + (std::int64_t{1} << (drop - 1))) >> drop;
  }
};

/// Convert: products around the middle of the range are rounded to 1/8, and so is the part of the zero points.
Unary convert_wide(const Grid& from, const Grid& to, std::int64_t sign) {
  constexpr std::int64_t kCentre = 32768;
  const WideFactor factor(from, to);
  const std::int64_t offset = to.zero * 8 + factor.times(sign * (kCentre - from.zero), 3);
  return
      [=](std::int64_t q) { return clamp_to((factor.times(sign * (q - kCentre), 3) + offset + 4) >> 3, 0, to.high); };
}

/// Convert between 8-bit encodings: rounded half up twice, to k fractional bits and to the integer.
Unary convert_byte(const Grid& from, const Grid& to, std::int64_t sign) {
  const double ratio = from.scale / to.scale;
  const int exponent = floor_log2(ratio);
  const std::int64_t m = sign * half_up(std::ldexp(ratio, 14 - exponent));
  const int k = 6 - std::max(0, exponent);
  const int drop = 14 - exponent - k;
  return [=](std::int64_t q) {
    const std::int64_t x = (q - from.zero) * m;
    const std::int64_t t = drop > 0 ? (x + (std::int64_t{1} << (drop - 1))) >> drop : shift(x, drop);
    const std::int64_t rounded = k > 0 ? (t + (std::int64_t{1} << (k - 1))) >> k : shift(t, k);
    return clamp_to(rounded + to.zero, 0, to.high);
  };
}

/// Convert from 16 to 8 bits; offsets saturate at 16 bits.
Unary convert_narrowing(const Grid& from, const Grid& to) {
  constexpr std::int64_t kCentre = 32767;
  const auto ratio = static_cast<double>(static_cast<float>(from.scale) / static_cast<float>(to.scale));
  const int bits = ratio < 0.0625 ? std::min(22, 13 - floor_log2(ratio)) : 15;
  const int f = bits - 15;
  const std::int64_t m = half_up(std::ldexp(ratio, bits));
  const std::int64_t whole = (to.zero << f) + shift((kCentre - from.zero) * m + 16384, 15);
  const std::int64_t constant = clamp_to(whole, -32768, 32767) + (f > 0 ? std::int64_t{1} << (f - 1) : 0);
  return [=](std::int64_t q) { return clamp_to((((((q - kCentre) * m + 16384) >> 15) + constant) >> f), 0, to.high); };
}

/// What Maximum and Minimum do to their 16-bit operands: rounded once, but for the part of the zero points.
Unary rescale_wide(const Grid& from, const Grid& to) {
  constexpr std::int64_t kCentre = 32768;
  const WideFactor factor(from, to);
  const std::int64_t offset = (to.zero * 8 + factor.times(kCentre - from.zero, 3)) << (WideFactor::kBits - 3);
  const std::int64_t constant = offset + (std::int64_t{1} << (WideFactor::kBits - 1));
  return [=](std::int64_t q) {
    return clamp_to(((q - kCentre) * factor.value + constant) >> WideFactor::kBits, 0, to.high);
  };
}

constexpr int kWideProductBits = 34;

/// Product of two 16-bit values: a factor of 34 fractional bits; twice the centre of the products is rounded to 1/8.
/// In `Int`, which holds 35 bits more than `m` has.
template <typename Int>
Binary multiply_wide(const Grid& a, const Grid& b, const Grid& out, std::int64_t m) {
  constexpr int kHalf = kWideProductBits + 1;
  const Int centre = static_cast<Int>((2 * a.zero - 65535) * (2 * b.zero - 65535)) * m;  // in 2^-35
  const Int unit = Int{1} << 32;
  const Int rounded = ((centre + unit / 2) >> 32) * unit;
  const Int constant = static_cast<Int>((out.zero << kHalf) + (std::int64_t{1} << kWideProductBits)) + rounded - centre;
  return [=](std::int64_t x, std::int64_t y) {
    const Int q = (static_cast<Int>(2 * (x - a.zero) * (y - b.zero)) * m + constant) >> kHalf;
    return static_cast<std::int64_t>(q < 0 ? Int{0} : q > out.high ? Int{out.high} : q);
  };
}

Binary multiply_wide(const Grid& a, const Grid& b, const Grid& out) {
  __extension__ using Wide = __int128;
  const float ratio = static_cast<float>(a.scale) * static_cast<float>(b.scale) / static_cast<float>(out.scale);
  // Beyond 2^20 every product but 0 is clamped.
  const double bounded = std::min(static_cast<double>(ratio), 0x1p20);
  const std::int64_t m = half_up(std::ldexp(bounded, kWideProductBits));
  constexpr std::int64_t kNarrow = std::int64_t{1} << 27;
  return m < kNarrow ? multiply_wide<std::int64_t>(a, b, out, m) : multiply_wide<Wide>(a, b, out, m);
}

}  // namespace

Result<Grid> Grid::of(const TensorType& type) {
  if (!type.encoding || !type.encoding->per_tensor()) {
    return fail(Code::kNoFixedRule, "a value has no per-tensor encoding");
  }
  Grid grid;
  grid.scale = static_cast<double>(type.encoding->scale());
  switch (type.dtype) {
    case DType::kU8:
      break;
    case DType::kI8:
      grid.offset = 128;
      break;
    case DType::kU16:
      grid.high = 65535;
      break;
    case DType::kI16:
      grid.high = 65535;
      grid.offset = 32768;
      break;
    default:
      return fail(Code::kNoFixedRule, fmt::format("no integer rule for {}", name_of(type.dtype)));
  }
  grid.zero = type.encoding->zero_point() + grid.offset;
  return grid;
}

Unary convert(const Grid& from, const Grid& to) {
  if (from == to) return [](std::int64_t q) { return q; };
  if (from.wide() && to.wide()) return convert_wide(from, to, 1);
  if (from.wide()) return convert_narrowing(from, to);
  if (!to.wide()) return convert_byte(from, to, 1);
  const Mantissa m = mantissa(from.scale / to.scale, 16);
  return [m, from, to](std::int64_t q) {
    const std::int64_t scaled = shift((q - from.zero) * m.value + shift(1, 1 - m.shift), m.shift);
    return clamp_to(scaled + to.zero, 0, to.high);
  };
}

Unary negate(const Grid& from, const Grid& to) {
  return from.wide() ? convert_wide(from, to, -1) : convert_byte(from, to, -1);
}

std::int64_t table_entry(double value, const Grid& to, LastStep last) {
  const float scaled = static_cast<float>(value) * (1.0F / static_cast<float>(to.scale));
  if (std::isnan(scaled)) return to.high;
  const float y = std::clamp(scaled + static_cast<float>(to.zero), 0.0F, static_cast<float>(to.high));
  return static_cast<std::int64_t>(last == LastStep::kDown ? std::floor(y) : std::rint(y));
}

Unary table(const std::function<double(double)>& function, const Grid& from, const Grid& to, LastStep last) {
  return [=](std::int64_t q) { return table_entry(function(static_cast<double>(dequantize(q, from))), to, last); };
}

Unary wide_clamp(double low, double high, const Grid& from, const Grid& to) {
  const auto bound = [&to](double value) {
    const double q = std::rint(value / to.scale + static_cast<double>(to.zero));
    return static_cast<std::int64_t>(std::clamp(q, 0.0, static_cast<double>(to.high)));
  };
  return [map = convert(from, to), low_q = bound(low), high_q = bound(high)](std::int64_t q) {
    return clamp_to(map(q), low_q, high_q);
  };
}

AddFactors add_factors(const Grid& a, const Grid& b, const Grid& out, bool subtract) {
  const double ratio_a = a.scale / out.scale;
  const double ratio_b = b.scale / out.scale;
  AddFactors f;
  if (out.wide()) {
    f.bits = std::min(16, 14 - floor_log2(std::max(ratio_a, ratio_b)));
  } else {
    const double reach = subtract ? std::max(ratio_a, ratio_b) : ratio_a + ratio_b;
    f.bits = std::max(9, std::min(15, 13 - floor_log2(reach)));
  }
  f.first = half_up(std::ldexp(ratio_a, f.bits));
  f.second = half_up(std::ldexp(ratio_b, f.bits)) * (subtract ? -1 : 1);
  const std::int64_t zeros = a.zero * f.first + b.zero * f.second;
  f.constant = out.wide() ? shift(out.zero, -f.bits) + shift(1, 1 - f.bits) - zeros
                          : (out.zero << (f.bits - 8)) - ((zeros + 128) >> 8) + (std::int64_t{1} << (f.bits - 9));
  return f;
}

Binary add(const Grid& a, const Grid& b, const Grid& out, bool subtract) {
  const AddFactors f = add_factors(a, b, out, subtract);
  if (out.wide()) {
    return [f, high = out.high](std::int64_t x, std::int64_t y) {
      return clamp_to(shift(x * f.first + y * f.second + f.constant, f.bits), 0, high);
    };
  }
  return [f, high = out.high](std::int64_t x, std::int64_t y) {
    return clamp_to((((x * f.first + y * f.second) >> 8) + f.constant) >> (f.bits - 8), 0, high);
  };
}

Binary multiply(const Grid& a, const Grid& b, const Grid& out) {
  const double ratio = a.scale * b.scale / out.scale;
  if (out.wide()) return multiply_wide(a, b, out);
  int s = std::min(22, 14 - floor_log2(ratio));
  // A factor of 1, 2, 4 … keeps one bit more.
  if (ratio >= 1 && ratio == std::ldexp(1.0, floor_log2(ratio))) ++s;
  // The product is centred by K so that it fits 16 bits.
  const std::int64_t twice = (2 * a.zero - 255) * (2 * b.zero - 255) + 256;
  const std::int64_t centre = 256 * (twice >> 9);
  std::int64_t m = 0;
  std::int64_t rest = 0;
  std::int64_t offset = 0;
  int f = 0;
  for (;;) {
    m = half_up(std::ldexp(ratio, s));
    f = s - 15;
    rest = (centre * m + (std::int64_t{1} << 14)) >> 15;
    if (f < 1) break;
    offset = rest + (out.zero << f) + (std::int64_t{1} << (f - 1));
    if (offset >= -32768 && offset <= 32767) break;
    --s;
  }
  return [=](std::int64_t x, std::int64_t y) {
    const std::int64_t product = (x - a.zero) * (y - b.zero) - centre;
    const std::int64_t q = f >= 1 ? (((product * m) >> 15) + offset) >> f
                                  : shift(((product * m + (std::int64_t{1} << 14)) >> 15) + rest, f) + out.zero;
    return clamp_to(q, 0, out.high);
  };
}

Binary maximum(const Grid& a, const Grid& b, const Grid& out, bool minimum) {
  const auto map = [&out](const Grid& from) { return out.wide() ? rescale_wide(from, out) : convert(from, out); };
  return [minimum, left = map(a), right = map(b)](std::int64_t x, std::int64_t y) {
    const std::int64_t l = left(x);
    const std::int64_t r = right(y);
    return minimum ? std::min(l, r) : std::max(l, r);
  };
}

Binary squared_difference(const Grid& a, const Grid& b, const Grid& out) {
  // The difference is stored first: symmetric, as far as the root of what the result can hold.
  Grid between = out;
  between.scale = 2 * std::sqrt(static_cast<double>(out.high - out.zero) * out.scale) / static_cast<double>(out.high);
  between.zero = (out.high + 1) / 2;
  return [difference = add(a, b, between, true), square = multiply(between, between, out)](std::int64_t x,
                                                                                           std::int64_t y) {
    const std::int64_t d = difference(x, y);
    return square(d, d);
  };
}

std::int64_t quantize(float value, const Grid& to) {
  const float scaled = value * (1.0F / static_cast<float>(to.scale));
  const double through = to.wide() ? static_cast<double>(scaled) : static_cast<double>(round_f16(scaled));
  if (std::isnan(through)) return clamp_to(to.zero, 0, to.high);
  const double limited = std::clamp(through, -1e6, 1e6);
  const double rounded = std::copysign(std::floor(std::fabs(limited) + 0.5), limited);
  return clamp_to(static_cast<std::int64_t>(rounded) + to.zero, 0, to.high);
}

float dequantize(std::int64_t stored, const Grid& from) {
  return static_cast<float>(stored - from.zero) * static_cast<float>(from.scale);
}

std::uint16_t dequantize_f16(std::int64_t stored, const Grid& from) {
  if (from.wide()) return to_f16_half_away(dequantize(stored, from));
  const float scale = from_f16(to_f16_half_away(static_cast<float>(from.scale)));
  return to_f16_half_away(static_cast<float>(stored - from.zero) * scale);
}

std::int64_t load(const void* data, DType dtype, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  switch (dtype) {
    case DType::kU8:
      return static_cast<const std::uint8_t*>(data)[at];
    case DType::kI8:
      return static_cast<const std::int8_t*>(data)[at] + 128;
    case DType::kU16:
      return static_cast<const std::uint16_t*>(data)[at];
    case DType::kI16:
      return static_cast<const std::int16_t*>(data)[at] + 32768;
    default:
      throw_bug(__FILE__, __LINE__, "dtype", "no stored integer");
  }
}

void store(void* data, DType dtype, std::int64_t index, std::int64_t value) {
  const auto at = static_cast<std::size_t>(index);
  switch (dtype) {
    case DType::kU8:
      static_cast<std::uint8_t*>(data)[at] = static_cast<std::uint8_t>(value);
      break;
    case DType::kI8:
      static_cast<std::int8_t*>(data)[at] = static_cast<std::int8_t>(value - 128);
      break;
    case DType::kU16:
      static_cast<std::uint16_t*>(data)[at] = static_cast<std::uint16_t>(value);
      break;
    case DType::kI16:
      static_cast<std::int16_t*>(data)[at] = static_cast<std::int16_t>(value - 32768);
      break;
    default:
      throw_bug(__FILE__, __LINE__, "dtype", "no stored integer");
  }
}

UnaryMap::UnaryMap(const Unary& function, DType from, DType to) : from_(from), to_(to) {
  const std::size_t count = std::size_t{1} << (8 * size_of(from));
  const auto moved = [](DType dtype) { return dtype == DType::kI8 ? 128U : dtype == DType::kI16 ? 32768U : 0U; };
  std::vector<std::uint16_t> answers(count);
  for (std::size_t stored = 0; stored < count; ++stored) {
    const std::int64_t q = function(static_cast<std::int64_t>(stored ^ moved(from)));
    answers[stored] = static_cast<std::uint16_t>(static_cast<std::uint64_t>(q) ^ moved(to));
  }
  copies_ = size_of(from) == size_of(to);
  for (std::size_t stored = 0; stored < count && copies_; ++stored) copies_ = answers[stored] == stored;
  if (copies_) return;
  if (size_of(to) == 1) {
    bytes_.assign(answers.begin(), answers.end());
  } else {
    words_ = std::move(answers);
  }
}

void UnaryMap::run(const void* in, void* out, std::int64_t begin, std::int64_t end) const {
  if (copies_) {
    const auto size = static_cast<std::int64_t>(size_of(from_));
    std::memcpy(static_cast<std::byte*>(out) + begin * size, static_cast<const std::byte*>(in) + begin * size,
                static_cast<std::size_t>((end - begin) * size));
    return;
  }
  const auto map = [begin, end](const auto* from, auto* to, const auto* table) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = table[from[i]];
  };
  const auto* byte_in = static_cast<const std::uint8_t*>(in);
  const auto* word_in = static_cast<const std::uint16_t*>(in);
  auto* byte_out = static_cast<std::uint8_t*>(out);
  auto* word_out = static_cast<std::uint16_t*>(out);
  const bool words_in = size_of(from_) == 2;
  if (size_of(to_) == 2) {
    words_in ? map(word_in, word_out, words_.data()) : map(byte_in, word_out, words_.data());
  } else {
    words_in ? map(word_in, byte_out, bytes_.data()) : map(byte_in, byte_out, bytes_.data());
  }
}

}  // namespace htpipe::kernels
