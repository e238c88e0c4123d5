#include "quant/histogram.h"

#include <algorithm>
#include <cmath>

namespace htpipe::quant {
namespace {

constexpr int kFinestExponent = -120;

std::int64_t bin_of(float value, int exponent) {
  return static_cast<std::int64_t>(std::floor(std::ldexp(static_cast<double>(value), -exponent)));
}

/// Smallest exponent at which [low, high] spans at most kBins bins. It depends on the two bounds alone.
int exponent_for(float low, float high) {
  int exponent = kFinestExponent;
  const double reach = std::max(std::fabs(static_cast<double>(low)), std::fabs(static_cast<double>(high)));
  if (reach > 0) exponent = std::max(exponent, std::ilogb(reach) - 40);  // below that, bin numbers would not be exact
  while (bin_of(high, exponent) - bin_of(low, exponent) >= Histogram::kBins) ++exponent;
  return exponent;
}

}  // namespace

double Histogram::width() const { return std::ldexp(1.0, exponent_); }

void Histogram::grow(float low, float high) {
  const int exponent = exponent_for(low, high);
  const std::int64_t first = bin_of(low, exponent);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(bin_of(high, exponent) - first + 1), 0);
  if (total_ > 0) {
    const int shift = exponent - exponent_;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      const std::int64_t bin = (first_ + static_cast<std::int64_t>(i)) >> std::min(shift, 62);
      counts[static_cast<std::size_t>(bin - first)] += counts_[i];
    }
  }
  exponent_ = exponent;
  first_ = first;
  counts_ = std::move(counts);
}

void Histogram::add(std::span<const float> values) {
  const auto bounded = [](float value) { return std::fabs(value) < kInfinite; };
  if (std::all_of(values.begin(), values.end(), bounded)) return add_bounded(values);
  std::vector<float> rest;
  for (const float value : values) {
    if (bounded(value)) rest.push_back(value);
    below_ = below_ || value <= -kInfinite;
    above_ = above_ || value >= kInfinite;
  }
  add_bounded(rest);
}

void Histogram::add_bounded(std::span<const float> values) {
  if (values.empty()) return;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const float new_min = total_ == 0 ? *low : std::min(min_, *low);
  const float new_max = total_ == 0 ? *high : std::max(max_, *high);
  if (total_ == 0 || new_min < min_ || new_max > max_) grow(new_min, new_max);
  min_ = new_min;
  max_ = new_max;
  for (const float value : values) ++counts_[static_cast<std::size_t>(bin_of(value, exponent_) - first_)];
  total_ += static_cast<std::int64_t>(values.size());
}

void Histogram::merge(const Histogram& other) {
  below_ = below_ || other.below_;
  above_ = above_ || other.above_;
  if (other.total_ == 0) return;
  const float low = total_ == 0 ? other.min_ : std::min(min_, other.min_);
  const float high = total_ == 0 ? other.max_ : std::max(max_, other.max_);
  grow(low, high);
  const int shift = std::min(exponent_ - other.exponent_, 62);
  for (std::size_t i = 0; i < other.counts_.size(); ++i) {
    const std::int64_t bin = (other.first_ + static_cast<std::int64_t>(i)) >> shift;
    counts_[static_cast<std::size_t>(bin - first_)] += other.counts_[i];
  }
  min_ = low;
  max_ = high;
  total_ += other.total_;
}

}  // namespace htpipe::quant
