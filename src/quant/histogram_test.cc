// Histograms against the sorted list of all values.
#include "quant/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace htpipe::quant {
namespace {

std::vector<float> sample(std::size_t count, unsigned seed, float scale) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& x : values) {
    const double unit = static_cast<double>(random()) / 2147483648.0 - 1.0;
    x = static_cast<float>(unit * unit * unit) * scale;
  }
  return values;
}

void expect_counts_of(const Histogram& histogram, std::vector<float> values) {
  std::sort(values.begin(), values.end());
  EXPECT_EQ(histogram.total(), static_cast<std::int64_t>(values.size()));
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
  EXPECT_LE(histogram.counts().size(), static_cast<std::size_t>(Histogram::kBins));
  EXPECT_EQ(std::accumulate(histogram.counts().begin(), histogram.counts().end(), std::int64_t{0}), histogram.total());
  int exponent = 0;
  EXPECT_EQ(std::frexp(histogram.width(), &exponent), 0.5) << "the width is no power of two";
  for (std::size_t bin = 0; bin < histogram.counts().size(); ++bin) {
    const double low = static_cast<double>(histogram.first_bin() + static_cast<std::int64_t>(bin)) * histogram.width();
    const double high = low + histogram.width();
    const auto below = [&values](double bound) {
      return std::lower_bound(values.begin(), values.end(), bound,
                              [](float x, double b) { return static_cast<double>(x) < b; });
    };
    ASSERT_EQ(histogram.counts()[bin], below(high) - below(low)) << "bin " << bin << " [" << low << ", " << high << ")";
  }
}

TEST(Histogram, CountsWhatASortedListCounts) {
  const std::vector<float> values = sample(20000, 1, 3.0F);
  Histogram histogram;
  histogram.add(values);
  expect_counts_of(histogram, values);
  // Fine enough to choose ranges from: at least half of the bins are in use.
  EXPECT_GT(histogram.counts().size(), static_cast<std::size_t>(Histogram::kBins / 2));
}

TEST(Histogram, GrowthLosesNothing) {
  Histogram histogram;
  std::vector<float> all;
  for (const float scale : {1e-6F, 1e-3F, 0.5F, 0.01F, 700.0F, 3.0F, 2e5F}) {
    const std::vector<float> values = sample(3000, static_cast<unsigned>(all.size()), scale);
    histogram.add(values);
    all.insert(all.end(), values.begin(), values.end());
    expect_counts_of(histogram, all);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Histogram, OrderAndPortionsDoNotMatter) {
  std::vector<std::vector<float>> parts;
  for (unsigned i = 0; i < 12; ++i) parts.push_back(sample(500, i, std::ldexp(1.0F, static_cast<int>(i * 5 % 12) - 6)));
  Histogram forwards;
  for (const auto& part : parts) forwards.add(part);
  Histogram backwards;
  for (std::size_t i = parts.size(); i-- > 0;) backwards.add(parts[i]);
  Histogram at_once;
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  at_once.add(all);
  for (const Histogram* other : {&backwards, &at_once}) {
    EXPECT_EQ(other->width(), forwards.width());
    EXPECT_EQ(other->first_bin(), forwards.first_bin());
    EXPECT_EQ(other->counts(), forwards.counts());
    EXPECT_EQ(other->min(), forwards.min());
    EXPECT_EQ(other->max(), forwards.max());
  }
}

TEST(Histogram, ExtremeValues) {
  for (const std::vector<float>& values : {std::vector<float>{0}, std::vector<float>{5, 5, 5},
                                           std::vector<float>{-1e-38F, 1e-38F}, std::vector<float>{-9e8F, 9e8F, 0},
                                           std::vector<float>{9e8F, 9.0000006e8F}, std::vector<float>{1e-40F, -1, 0}}) {
    Histogram histogram;
    histogram.add(values);
    expect_counts_of(histogram, values);
    Histogram one_by_one;
    for (const float value : values) one_by_one.add(std::span(&value, 1));
    EXPECT_EQ(one_by_one.counts(), histogram.counts());
  }
  Histogram empty;
  empty.add({});
  EXPECT_TRUE(empty.empty());
}

TEST(Histogram, MergingIsAddingBoth) {
  const std::vector<std::vector<float>> parts = {{0.5F, -0.25F, 3},       {},     {1e-3F, 2e-3F},   {700, -2, 1e30F},
                                                 {-1e-38F, 0, 0, 1e-38F}, {5, 5}, {-9e8F, 9e8F, 0}, {-1e20F}};
  for (const auto& a : parts) {
    for (const auto& b : parts) {
      Histogram one;
      Histogram other;
      Histogram both;
      one.add(a);
      other.add(b);
      both.add(a);
      both.add(b);
      one.merge(other);
      EXPECT_EQ(one.width(), both.width());
      EXPECT_EQ(one.first_bin(), both.first_bin());
      EXPECT_EQ(one.counts(), both.counts());
      EXPECT_EQ(one.min(), both.min());
      EXPECT_EQ(one.max(), both.max());
      EXPECT_EQ(one.total(), both.total());
      EXPECT_EQ(one.reaches_below(), both.reaches_below());
      EXPECT_EQ(one.reaches_above(), both.reaches_above());
    }
  }
}

TEST(Histogram, LeavesInfinitiesOfMasksOut) {
  Histogram histogram;
  histogram.add(std::vector<float>{-1e30F, 1, 2, -3});
  histogram.add(std::vector<float>{-3e38F});
  EXPECT_EQ(histogram.total(), 3);
  EXPECT_EQ(histogram.min(), -3);
  EXPECT_EQ(histogram.max(), 2);
  EXPECT_TRUE(histogram.reaches_below());
  EXPECT_FALSE(histogram.reaches_above());
}

}  // namespace
}  // namespace htpipe::quant
