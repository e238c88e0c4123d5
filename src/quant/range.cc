#include "quant/range.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace htpipe::quant {
namespace {

Range with_zero(Range range) { return {std::min(range.low, 0.0F), std::max(range.high, 0.0F)}; }

Range percentile_range(const Histogram& histogram, double percentile) {
  // Half of the clipped share at each end; a one-sided value (ReLU) gives its share to the other end.
  const double share = std::clamp(1.0 - percentile / 100.0, 0.0, 0.5);
  const bool one_sided = histogram.min() >= 0 || histogram.max() <= 0;
  const double each = static_cast<double>(histogram.total()) * share * (one_sided ? 1.0 : 0.5);
  const auto& counts = histogram.counts();
  std::size_t first = 0;
  std::size_t last = counts.size() - 1;
  if (histogram.min() < 0) {
    for (double seen = 0; first < last && seen + static_cast<double>(counts[first]) <= each; ++first) {
      seen += static_cast<double>(counts[first]);
    }
  }
  if (histogram.max() > 0) {
    for (double seen = 0; last > first && seen + static_cast<double>(counts[last]) <= each; --last) {
      seen += static_cast<double>(counts[last]);
    }
  }
  const auto edge = [&](std::size_t bin) {
    return static_cast<float>(static_cast<double>(histogram.first_bin() + static_cast<std::int64_t>(bin)) *
                              histogram.width());
  };
  return {std::max(edge(first), histogram.min()), std::min(edge(last + 1), histogram.max())};
}

/// Squared error of storing the histogram's values in `range` with `levels` steps: rounding plus clipping.
double squared_error(const Histogram& histogram, Range range, double levels) {
  const double scale = (static_cast<double>(range.high) - static_cast<double>(range.low)) / levels;
  if (!(scale > 0)) return INFINITY;
  double error = 0;
  const auto& counts = histogram.counts();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double centre =
        (static_cast<double>(histogram.first_bin() + static_cast<std::int64_t>(i)) + 0.5) * histogram.width();
    const double clipped = std::clamp(centre, static_cast<double>(range.low), static_cast<double>(range.high));
    // A value that is exactly zero (the half of a ReLU's results) is stored without error.
    const bool zero_bin = histogram.first_bin() + static_cast<std::int64_t>(i) == 0 && histogram.min() == 0;
    const double rounding = zero_bin ? 0 : scale * scale / 12;
    error += static_cast<double>(counts[i]) * ((centre - clipped) * (centre - clipped) + rounding);
  }
  return error;
}

Range mse_range(const Histogram& histogram, int bits) {
  const Range full = with_zero({histogram.min(), histogram.max()});
  const double levels = std::ldexp(1.0, bits) - 1;
  constexpr int kSteps = 64;
  Range best = full;
  double least = squared_error(histogram, full, levels);
  for (int step = 1; step < kSteps; ++step) {
    const float keep = 1.0F - static_cast<float>(step) / static_cast<float>(kSteps + 16);
    for (const Range candidate : {Range{full.low * keep, full.high * keep}, Range{full.low, full.high * keep},
                                  Range{full.low * keep, full.high}}) {
      const double error = squared_error(histogram, candidate, levels);
      if (error < least) {
        least = error;
        best = candidate;
      }
    }
  }
  return best;
}

Range bounded_range(const Histogram& histogram, RangeMethod method, double percentile, int bits) {
  if (histogram.empty()) return {};
  switch (method) {
    case RangeMethod::kPercentile:
      return with_zero(percentile_range(histogram, percentile));
    case RangeMethod::kMse:
      return with_zero(mse_range(histogram, bits));
    case RangeMethod::kMinMax:
      break;
  }
  return with_zero({histogram.min(), histogram.max()});
}

}  // namespace

Result<RangeMethod> parse_range_method(std::string_view text) {
  if (text == "minmax") return RangeMethod::kMinMax;
  if (text == "percentile") return RangeMethod::kPercentile;
  if (text == "mse") return RangeMethod::kMse;
  return fail(
      Error(Code::kConfigType, fmt::format("no range method \"{}\"", text)).with_hint("minmax, percentile or mse"));
}

Range choose_range(const Histogram& histogram, RangeMethod method, double percentile, int bits) {
  const Range range = bounded_range(histogram, method, percentile, bits);
  // What stands for an infinity gets the bound, so far away that its exponential counts for nothing.
  constexpr float kFarAway = 10.0F;
  return {histogram.reaches_below() ? range.low - kFarAway : range.low,
          histogram.reaches_above() ? range.high + kFarAway : range.high};
}

Encoding asymmetric_encoding(Range range, int bits) {
  const double levels = std::ldexp(1.0, bits) - 1;
  const double extent = static_cast<double>(range.high) - static_cast<double>(range.low);
  // Below that, scale ratios leave the range in which the chip's arithmetic is known.
  constexpr double kLeastExtent = 1e-6;
  if (!(extent > kLeastExtent)) return Encoding::per_tensor(static_cast<float>(1.0 / levels), 0, bits);
  const auto scale = static_cast<float>(extent / levels);
  const double zero = std::clamp(std::rint(-static_cast<double>(range.low) / static_cast<double>(scale)), 0.0, levels);
  return Encoding::per_tensor(scale, static_cast<std::int32_t>(zero), bits);
}

}  // namespace htpipe::quant
