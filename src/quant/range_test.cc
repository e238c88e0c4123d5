// Choice of ranges against direct computation over all values, and the encodings made from them.
#include "quant/range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace htpipe::quant {
namespace {

Histogram histogram_of(const std::vector<float>& values) {
  Histogram histogram;
  histogram.add(values);
  return histogram;
}

/// Bell-shaped, with a few far outliers.
std::vector<float> bell(std::size_t count, float outlier, bool one_sided) {
  std::mt19937 random(7);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += static_cast<double>(random()) / 4294967296.0;
    if (i % 5000 == 17) sum = static_cast<double>(outlier);
    values[i] = static_cast<float>(one_sided ? std::max(sum, 0.0) : sum);
  }
  return values;
}

TEST(ChooseRange, MinMaxIsExactAndContainsZero) {
  const auto range = [](const std::vector<float>& values) {
    return choose_range(histogram_of(values), RangeMethod::kMinMax, 100, 8);
  };
  EXPECT_EQ(range({-1.5F, 2.25F, 0.1F}).low, -1.5F);
  EXPECT_EQ(range({-1.5F, 2.25F, 0.1F}).high, 2.25F);
  EXPECT_EQ(range({1, 2}).low, 0.0F);
  EXPECT_EQ(range({-3, -2}).high, 0.0F);
  const Range nothing = choose_range(Histogram(), RangeMethod::kMse, 99, 8);
  EXPECT_EQ(nothing.low, 0.0F);
  EXPECT_EQ(nothing.high, 0.0F);
}

TEST(ChooseRange, PercentileClipsThatShare) {
  for (const bool one_sided : {false, true}) {
    std::vector<float> values = bell(50000, 40.0F, one_sided);
    for (const double percentile : {99.0, 99.9, 100.0}) {
      const Histogram histogram = histogram_of(values);
      const Range range = choose_range(histogram, RangeMethod::kPercentile, percentile, 8);
      const auto outside =
          std::count_if(values.begin(), values.end(), [&range](float x) { return x < range.low || x > range.high; });
      EXPECT_LE(static_cast<double>(outside), (1 - percentile / 100) * 50000 + 1e-6) << percentile;
      // One bin tighter at either end would clip more than was asked for.
      const auto width = static_cast<float>(histogram.width());
      const auto above = std::count_if(values.begin(), values.end(), [&](float x) { return x > range.high - width; });
      const double share = (1 - percentile / 100) * 50000 * (one_sided ? 1 : 0.5);
      EXPECT_GT(static_cast<double>(above), share) << percentile;
    }
    EXPECT_EQ(choose_range(histogram_of(values), RangeMethod::kPercentile, 100, 8).high, 40.0F);
  }
}

double stored_error(const std::vector<float>& values, Range range, int bits) {
  const Encoding encoding = asymmetric_encoding(range, bits);
  const double scale = static_cast<double>(encoding.scale());
  double error = 0;
  for (const float x : values) {
    const double q =
        std::clamp(std::rint(static_cast<double>(x) / scale) + encoding.zero_point(), 0.0, std::ldexp(1.0, bits) - 1);
    const double back = (q - encoding.zero_point()) * scale;
    error += (back - static_cast<double>(x)) * (back - static_cast<double>(x));
  }
  return error;
}

TEST(ChooseRange, MseIsNearTheBestOfAFineSearch) {
  for (const bool one_sided : {false, true}) {
    const std::vector<float> values = bell(20000, 14.0F, one_sided);
    for (const int bits : {4, 8}) {
      const Range chosen = choose_range(histogram_of(values), RangeMethod::kMse, 100, bits);
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      double best = std::numeric_limits<double>::infinity();
      for (int a = 1; a <= 40; ++a) {
        for (int b = 1; b <= 40; ++b) {
          const Range candidate{std::min(*low, 0.0F) * static_cast<float>(a) / 40, *high * static_cast<float>(b) / 40};
          best = std::min(best, stored_error(values, candidate, bits));
          if (one_sided) break;
        }
      }
      const double full = stored_error(values, {std::min(*low, 0.0F), *high}, bits);
      EXPECT_LE(stored_error(values, chosen, bits), 1.15 * best) << bits << " bits, one-sided " << one_sided;
      EXPECT_LE(stored_error(values, chosen, bits), full * 1.001);
      if (bits == 4) {
        EXPECT_LT(stored_error(values, chosen, bits), 0.8 * full) << "outliers were not clipped";
      }
    }
  }
}

TEST(AsymmetricEncoding, RepresentsZeroAndBothEnds) {
  std::mt19937 random(9);
  for (int i = 0; i < 2000; ++i) {
    const float low = -std::ldexp(static_cast<float>(random() % 1000), static_cast<int>(random() % 20) - 15);
    const float high = std::ldexp(static_cast<float>(random() % 1000), static_cast<int>(random() % 20) - 15);
    for (const int bits : {8, 16}) {
      const Encoding encoding = asymmetric_encoding({low, high}, bits);
      const double levels = std::ldexp(1.0, bits) - 1;
      const auto scale = static_cast<double>(encoding.scale());
      EXPECT_GT(scale, 0);
      EXPECT_GE(encoding.zero_point(), 0);
      EXPECT_LE(encoding.zero_point(), static_cast<int>(levels));
      EXPECT_EQ(encoding.bits, bits);
      if (static_cast<double>(high) - static_cast<double>(low) < 1e-6) continue;
      // Both ends are within half a step of what can be stored.
      EXPECT_LE(-encoding.zero_point() * scale, static_cast<double>(low) + 0.51 * scale);
      EXPECT_GE((levels - encoding.zero_point()) * scale, static_cast<double>(high) - 0.51 * scale);
    }
  }
  EXPECT_EQ(asymmetric_encoding({0, 6}, 8).zero_point(), 0);
  EXPECT_EQ(asymmetric_encoding({-6, 0}, 8).zero_point(), 255);
  EXPECT_GT(asymmetric_encoding({0, 0}, 8).scale(), 1e-4F);
  EXPECT_GT(asymmetric_encoding({-1e-20F, 1e-20F}, 16).scale(), 1e-6F);
}

TEST(ParseRangeMethod, KnownNames) {
  EXPECT_EQ(*parse_range_method("minmax"), RangeMethod::kMinMax);
  EXPECT_EQ(*parse_range_method("percentile"), RangeMethod::kPercentile);
  EXPECT_EQ(*parse_range_method("mse"), RangeMethod::kMse);
  EXPECT_EQ(parse_range_method("entropy").error().code, Code::kConfigType);
}

TEST(ChooseRange, MasksEndFarEnoughBehindForASoftmax) {
  Histogram histogram;
  histogram.add(std::vector<float>{-1e30F, 4, -2});
  for (const RangeMethod method : {RangeMethod::kMinMax, RangeMethod::kPercentile, RangeMethod::kMse}) {
    const Range range = choose_range(histogram, method, 100, 8);
    EXPECT_LT(std::exp(range.low + 2), 1.0 / 510) << "more than half a step of the result";
    EXPECT_GT(range.low, -20);
    EXPECT_LE(range.high, 4);
  }
}

}  // namespace
}  // namespace htpipe::quant
