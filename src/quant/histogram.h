// A histogram of a value over any number of samples, in constant memory.
// Invariant: counts are exact and do not depend on the order of the samples: bins are [i, i+1) times a power of two, and
// the width is the smallest that lets all values seen so far fit; growing merges whole bins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace htpipe::quant {

class Histogram {
 public:
  static constexpr std::int64_t kBins = 2048;

  /// Magnitudes from here on stand for infinity, as in a mask of -1e30: they set no range.
  static constexpr float kInfinite = 1e9F;

  /// Adds finite values.
  void add(std::span<const float> values);
  /// Adds what another histogram saw: the same as if its values had been added here.
  void merge(const Histogram& other);

  [[nodiscard]] bool empty() const { return total_ == 0; }
  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] float min() const { return min_; }
  [[nodiscard]] float max() const { return max_; }
  /// Whether values were left out because they stand for an infinity.
  [[nodiscard]] bool reaches_below() const { return below_; }
  [[nodiscard]] bool reaches_above() const { return above_; }
  /// Width of a bin, a power of two.
  [[nodiscard]] double width() const;
  /// Index of the first bin in counts(): it covers [first_bin() * width(), (first_bin() + 1) * width()).
  [[nodiscard]] std::int64_t first_bin() const { return first_; }
  [[nodiscard]] const std::vector<std::int64_t>& counts() const { return counts_; }

 private:
  void add_bounded(std::span<const float> values);
  void grow(float low, float high);
  int exponent_ = 0;  ///< width = 2^exponent_
  std::int64_t first_ = 0;
  std::vector<std::int64_t> counts_;
  std::int64_t total_ = 0;
  float min_ = 0;
  float max_ = 0;
  bool below_ = false;
  bool above_ = false;
};

}  // namespace htpipe::quant
