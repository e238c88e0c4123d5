#include "kernels/fixed/row_requant.h"

#include <algorithm>
#include <cmath>

#include "kernels/fixed/fixed_loops.h"

namespace htpipe::kernels {
namespace {

/// Vectors read whole, also behind the last channel.
constexpr std::size_t kPadding = 64;
constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
/// kReal: what a product keeps behind the point, so that a half added to it is still exact.
constexpr int kMostFraction = 50;
/// kReal: a * scale beyond 2^26 gives more than 2^18 steps.
constexpr double kRealLimit = 67108864.0;
constexpr double kNoLimit = 1e300;

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

}  // namespace

RowRequant::RowRequant(const ConvRequant& requant, const Sums& sums)
    : requant_(requant), parts_(sums.parts), drop_(sums.drop), wide_(requant.wide_) {
  corrections_.assign(sums.corrections.begin(), sums.corrections.end());
  const std::size_t count = requant.channels_.size();
  corrections_.resize(count, 0);
  RowConstants& c = constants_;
  c.high = narrow(requant.high_);
  c.flip = narrow(requant.signed_offset_);
  c.zero = static_cast<float>(requant.zero_);
  using Form = RowConstants::Form;
  const bool standard = !requant.stride2_ && !requant.exact_;
  c.form = requant.exact_ ? Form::kExact : standard && !requant.wide_ ? Form::kWhole : Form::kReal;
  // Halves drop bits, as only the standard form does.
  if (parts_ >= Parts::kInputHalves && parts_ != Parts::kWeightHalves && !standard) c.form = Form::kEach;
  for (auto* values : {&c.add, &c.limits, &c.left, &c.right, &c.multiplier, &c.offset}) {
    values->assign(count + kPadding, 0);
  }
  for (auto* values : {&c.scale, &c.factor, &c.addend}) values->assign(count + kPadding, 0.0);
  c.exact_bias.assign(count + kPadding, 0.0F);
  c.exact_factor.assign(count + kPadding, 0.0F);
  c.limit = kNoLimit;
  c.fraction = requant.v68_ ? 14 : 16;
  for (std::size_t i = 0; i < count; ++i) {
    const ChannelRequant& channel = requant.channels_[i];
    const std::int64_t correction = corrections_[i] >> drop_;
    std::int64_t add = -correction;
    if (!requant.exact_) add += channel.bias;
    if (standard && requant.wide_) add -= channel.zero_term;
    if (std::abs(add) > kMost - std::min(sums.reach, kMost)) c.form = Form::kEach;
    c.add[i] = narrow(std::clamp(add, -kMost, kMost));
    c.scale[i] = 1;
    if (c.form == Form::kExact) {
      c.exact_factor[i] = channel.real_multiplier;
      c.exact_bias[i] = channel.real_bias;
    } else if (c.form == Form::kWhole) {
      if (channel.shift < -15) c.form = Form::kEach;
      const int left = std::clamp(-channel.shift, 0, 15);
      c.shifts_left = c.shifts_left || left > 0;
      c.limits[i] = left > 0 ? 1 << 15 : narrow(kMost);
      c.left[i] = left;
      c.right[i] = std::clamp(channel.shift, 0, 31);
      // v73: ((2 a + 1) m + 2^15) >> 16, plus the zero point; v68: (a m + 2^13) >> 14.
      c.multiplier[i] = narrow(requant.v68_ ? channel.multiplier : 2 * channel.multiplier);
      c.offset[i] = narrow(requant.v68_ ? 1 << 13 : channel.multiplier + (1 << 15) + requant.zero_ * 65536);
    } else if (c.form == Form::kReal) {
      const double factor = std::ldexp(static_cast<double>(channel.multiplier), -channel.multiplier_shift);
      if (channel.multiplier_shift < 1 || channel.multiplier_shift > kMostFraction) c.form = Form::kEach;
      c.factor[i] = factor;
      c.addend[i] = channel.rounds ? 0.5 : 0.0;
      if (standard && !requant.v68_) {
        // floor((S + ½) factor + ½) + zero with S = a * 2^dropped shifted.
        const int shift = channel.shift - (requant.deep_ ? 16 : 8);
        c.right[i] = std::clamp(shift, 0, 31);
        c.scale[i] = std::ldexp(1.0, std::max(-shift, 0));
        c.addend[i] = factor / 2 + 0.5 + static_cast<double>(requant.zero_);
        c.limit = kRealLimit;
      }
    }
  }
  if (drop_ > 0) {
    for (const std::int64_t correction : corrections_) {
      if (correction % (std::int64_t{1} << drop_) != 0) c.form = Form::kEach;
    }
  }
}

void RowRequant::apply(std::int32_t* const* sums, std::int64_t first, std::int64_t count, void* out) const {
  if (constants_.form == RowConstants::Form::kEach) return apply_each(sums, first, count, out);
  const FixedLoops& loops = fixed_loops();
  std::int32_t* whole = sums[0];
  switch (parts_) {
    case Parts::kWhole:
      if (drop_ > 0) loops.drop_bits(whole, drop_, count);
      break;
    case Parts::kInputHalves:
      loops.join_two(whole, sums[1], count);
      break;
    case Parts::kWeightHalves:
      for (std::int64_t i = 0; i < count; ++i) whole[i] += sums[1][i] * 256;
      break;
    case Parts::kBothHalves:
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t middle = std::int64_t{sums[1][i]} + sums[2][i] + (whole[i] >> 8);
        whole[i] = narrow(sums[3][i] + (middle >> 8));
      }
      break;
  }
  if (wide_) {
    loops.requant_u16(constants_, whole, first, count, static_cast<std::uint16_t*>(out));
  } else {
    loops.requant_u8(constants_, whole, first, count, static_cast<std::uint8_t*>(out));
  }
}

void RowRequant::apply_each(const std::int32_t* const* sums, std::int64_t first, std::int64_t count, void* out) const {
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t sum = sums[0][i];
    if (parts_ != Parts::kWhole) sum += std::int64_t{sums[1][i]} * 256;
    if (parts_ == Parts::kBothHalves) sum += (std::int64_t{sums[2][i]} + std::int64_t{sums[3][i]} * 256) * 256;
    const auto channel = static_cast<std::size_t>(first + i);
    const std::int64_t q = requant_.apply(sum - corrections_[channel], channel);
    if (wide_) {
      static_cast<std::uint16_t*>(out)[i] = static_cast<std::uint16_t>(q);
    } else {
      static_cast<std::uint8_t*>(out)[i] = static_cast<std::uint8_t>(q);
    }
  }
}

}  // namespace htpipe::kernels
