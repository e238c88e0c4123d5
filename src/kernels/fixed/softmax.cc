#include "kernels/fixed/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "kernels/fixed/rounding.h"

namespace htpipe::kernels {
namespace {

constexpr int kOctaveBits = 22;
constexpr std::int64_t kOctave = std::int64_t{1} << kOctaveBits;
constexpr std::int64_t kOne = 32767;  ///< the exponential of 0; others are below 1 in 15 fractional bits

/// 2^(f - 1) in 15 bits for a quarter of an octave: ((c f + r) + b) f + a, cut to integers after each product.
struct Quarter {
  std::int64_t square;    ///< c, 4 fractional bits
  std::int64_t rounding;  ///< r, 2 fractional bits
  std::int64_t linear;    ///< b
  std::int64_t constant;  ///< a, 6 fractional bits
};
constexpr std::array<Quarter, 4> kQuarters = {
    {{68793, 0, 11326, 1048596}, {81900, 0, 10908, 1052019}, {97396, 1, 9928, 1067859}, {115630, 2, 8200, 1109778}}};

/// 2^-distance with 15 fractional bits.
std::int64_t exponential(std::int64_t distance) {
  if (distance == 0) return kOne;
  const std::int64_t octaves = (distance + kOctave - 1) >> kOctaveBits;
  if (octaves > 16) return 0;
  const std::int64_t f = (octaves << kOctaveBits) - distance;
  const Quarter& quarter = kQuarters[static_cast<std::size_t>(f >> (kOctaveBits - 2))];
  const std::int64_t slope =
      ((quarter.square * f + (quarter.rounding << (kOctaveBits + 2))) >> (kOctaveBits + 4)) + quarter.linear;
  const std::int64_t value = (slope * f + (quarter.constant << (kOctaveBits - 6))) >> kOctaveBits;
  return value >> (octaves - 1);
}

/// 2^(f - 1) with 15 fractional bits for a quarter of f in 2^-14: (c2 f + c1) f + c0, cut to integers after each product.
struct Parabola {
  std::int64_t c2;  ///< in 2^-20
  std::int64_t c1;  ///< in 2^-25
  std::int64_t c0;  ///< in 2^-11 units of the value, with the half for rounding
};
constexpr std::array<Parabola, 4> kPowers = {{{275214, 23195446, 33555083},
                                              {327615, 22339436, 33664613},
                                              {389566, 20333417, 34171467},
                                              {462721, 16797453, 35506747}}};

/// 2^-distance with 15 fractional bits as 8-bit layers compute it; `distance` in 2^-14 octaves.
std::int64_t narrow_exponential(std::int64_t distance) {
  const std::int64_t octaves = distance >> 14;
  const std::int64_t back = distance & 16383;
  if (octaves > 15) return 0;
  if (back == 0) return kOne >> octaves;
  const std::int64_t f = 16384 - back;
  const Parabola& p = kPowers[static_cast<std::size_t>(f >> 12)];
  const std::int64_t slope = (f * p.c2 + (p.c1 << 9)) >> 20;
  return ((f * slope + (p.c0 << 3)) >> 14) >> octaves;
}

/// About 2^(2 bits) / divisor, where `bits` is one less than the bits of the divisor: Newton's iteration in integers,
/// from 2^(bits - 1) to its fixed point.
std::int64_t newton_reciprocal(std::int64_t divisor, int bits) {
  std::int64_t r = std::int64_t{1} << (bits - 1);
  for (int i = 0; i < 6; ++i) r = (r * ((std::int64_t{2} << bits) - ((r * divisor) >> bits))) >> bits;
  return r;
}

/// A row of two is a logistic function of the difference, from another polynomial.
double pair_exponential(double octaves) {
  const double whole = std::ceil(octaves);
  const double f = whole - octaves;
  return std::ldexp(1 + f * (22626.0 / 32768 + f * (7799.0 / 32768 + f * (2343.0 / 32768))),
                    -static_cast<int>(std::min(whole, 1000.0)));
}

std::int64_t clamped(double value, std::int64_t high) {
  return static_cast<std::int64_t>(std::clamp(value, 0.0, static_cast<double>(high)));
}

}  // namespace

Result<FixedSoftmax> FixedSoftmax::make(const Grid& from, const Grid& to, double beta, std::int64_t length) {
  if (from.wide() != to.wide()) return fail(Code::kNoFixedRule, "operand and result differ in width");
  if (!(beta > 0)) return fail(Code::kNoFixedRule, "a factor that is not positive");
  FixedSoftmax softmax;
  softmax.to_ = to;
  softmax.length_ = length;
  const double octaves = std::min(from.scale * beta * std::numbers::log2e, 64.0);
  softmax.factor_ = static_cast<std::int64_t>(std::floor(std::ldexp(octaves, kOctaveBits)));
  if (from.wide()) return softmax;
  // Short rows with large steps are computed with real numbers, the others in integers: with a factor of 8 significant
  // bits, none of them below 2^-14, and a scale of the result in whole units of 2^-16.
  softmax.units_ = static_cast<std::int64_t>(std::min(to.scale * 65536, 65536.0));
  if (length == 2) {
    softmax.fill_pairs(from.scale * beta);
    return softmax;
  }
  softmax.exact_ = length <= 16 && softmax.units_ >= 128;
  if (!softmax.exact_ && softmax.units_ < 1)
    return fail(Code::kNoFixedRule, "a Softmax whose result has steps below 2^-16");
  if (softmax.exact_) {
    for (std::int64_t q = 0; q <= from.high; ++q)
      softmax.reals_.push_back(std::exp(-static_cast<double>(q) * from.scale * beta));
    return softmax;
  }
  const int exponent = std::min(7 - floor_log2(octaves), 14);
  const auto factor = static_cast<std::int64_t>(std::floor(std::ldexp(octaves, exponent)));
  for (std::int64_t q = 0; q <= from.high; ++q)
    softmax.exponentials_.push_back(narrow_exponential(shift(q * factor, exponent - 14)));
  return softmax;
}

/// A row of two is a logistic function of the difference in steps of 1/256 up to 255/256, converted then.
void FixedSoftmax::fill_pairs(double step) {
  const Unary rescale = convert(Grid{.scale = 1.0 / 256}, to_);
  for (int difference = -255; difference <= 255; ++difference) {
    const auto share = static_cast<std::int64_t>(std::floor(255 / (1 + std::exp(-difference * step)) + 0.5));
    pairs_.push_back({rescale(255 - share), rescale(share)});
  }
}

void FixedSoftmax::run(std::int64_t* stored) const {
  if (length_ == 0) return;
  if (!pairs_.empty()) {
    const auto& [first, second] = pairs_[static_cast<std::size_t>(stored[1] - stored[0] + 255)];
    stored[0] = first;
    stored[1] = second;
    return;
  }
  const std::int64_t largest = *std::max_element(stored, stored + length_);
  if (!to_.wide()) return exact_ ? run_real(stored, largest) : run_narrow(stored, largest);
  if (length_ == 2) return run_pair(stored, largest);
  run_wide(stored, largest);
}

void FixedSoftmax::run_wide(std::int64_t* stored, std::int64_t largest) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < length_; ++i) {
    stored[i] = exponential((largest - stored[i]) * factor_);
    sum += stored[i];
  }
  // The reciprocal has 14 significant bits for sums below 2, 15 below 4, then 16.
  const std::int64_t half = sum >> 1;
  const int octave = std::max(0, floor_log2(static_cast<double>(sum)) - 15);
  const int bits = 28 + std::min(2 * octave, octave + 2);
  const std::int64_t reciprocal = ((std::int64_t{1} << (bits + 1)) + half) / (2 * half);
  if (to_.zero != 0) {
    // Shares in 2^-16 first; then they are converted.
    const double share = std::ldexp(static_cast<double>(reciprocal), 15 - bits);
    for (std::int64_t i = 0; i < length_; ++i) {
      const double units = std::floor(static_cast<double>(stored[i]) * share);
      const double value = std::floor(units / (65536 * to_.scale) + 0.5);
      stored[i] = clamped(value + static_cast<double>(to_.zero), to_.high);
    }
    return;
  }
  const double unit = std::ldexp(static_cast<double>(reciprocal), -(bits + 1)) / to_.scale;
  for (std::int64_t i = 0; i < length_; ++i) {
    stored[i] = clamped(std::floor(static_cast<double>(stored[i]) * unit) + static_cast<double>(to_.zero), to_.high);
  }
}

void FixedSoftmax::run_pair(std::int64_t* stored, std::int64_t largest) const {
  const double unit = std::ldexp(static_cast<double>(factor_), -kOctaveBits);
  const double first = pair_exponential(static_cast<double>(largest - stored[0]) * unit);
  const double second = pair_exponential(static_cast<double>(largest - stored[1]) * unit);
  const double share = first / (first + second);
  stored[0] = clamped(std::floor(share / to_.scale + 0.5) + static_cast<double>(to_.zero), to_.high);
  stored[1] = clamped(std::floor((1 - share) / to_.scale + 0.5) + static_cast<double>(to_.zero), to_.high);
}

/// The zero point of an 8-bit result is ignored here and in run_real.
void FixedSoftmax::run_narrow(std::int64_t* stored, std::int64_t largest) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < length_; ++i) {
    stored[i] = exponentials_[static_cast<std::size_t>(largest - stored[i])];
    sum += stored[i];
  }
  const std::int64_t divisor = (sum * units_) >> 8;  // the sum in steps of the result, 2^-23
  const int bits = floor_log2(static_cast<double>(divisor));
  if (bits >= 24) {  // no share reaches half a step
    std::fill(stored, stored + length_, std::int64_t{0});
    return;
  }
  const std::int64_t reciprocal = newton_reciprocal(divisor, bits);
  const int drop = bits - 8;
  const std::int64_t half = drop > 0 ? std::int64_t{1} << (drop - 1) : 0;
  for (std::int64_t i = 0; i < length_; ++i) {
    const std::int64_t share = (stored[i] * reciprocal) >> bits;
    stored[i] = std::min(shift(share + half, drop), to_.high);
  }
}

void FixedSoftmax::run_real(std::int64_t* stored, std::int64_t largest) const {
  double sum = 0;
  for (std::int64_t i = 0; i < length_; ++i) sum += reals_[static_cast<std::size_t>(largest - stored[i])];
  for (std::int64_t i = 0; i < length_; ++i) {
    const double share = reals_[static_cast<std::size_t>(largest - stored[i])] / sum;
    stored[i] = clamped(std::floor(share / to_.scale + 0.5), to_.high);
  }
}

void fixed_log_softmax(std::int64_t* stored, std::int64_t length, const Grid& from, const Grid& to, double beta) {
  if (length == 0) return;
  const std::int64_t largest = *std::max_element(stored, stored + length);
  double sum = 0;
  for (std::int64_t i = 0; i < length; ++i)
    sum += std::exp(static_cast<double>(stored[i] - largest) * from.scale * beta);
  // The distance from the largest element is scaled by 255/256 (65535/65536) too little.
  const double ratio = from.scale * beta / to.scale * (1 - 1 / static_cast<double>(to.high + 1));
  const double shift = std::log(sum) / to.scale;
  for (std::int64_t i = 0; i < length; ++i) {
    const double value = std::floor(static_cast<double>(stored[i] - largest) * ratio - shift + 0.5);
    stored[i] = clamped(value + static_cast<double>(to.zero), to.high);
  }
}

}  // namespace htpipe::kernels
