#include "kernels/fixed/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace htpipe::kernels {
namespace {

TEST(Rounding, ShiftIsFloorOfAPowerOfTwo) {
  for (const std::int64_t a : {-9, -8, -7, -1, 0, 1, 7, 8, 9, 1'000'003}) {
    for (int k = -5; k <= 6; ++k) {
      EXPECT_EQ(shift(a, k), static_cast<std::int64_t>(std::floor(std::ldexp(static_cast<double>(a), -k))))
          << a << " " << k;
    }
  }
  EXPECT_EQ(shift(-1, 200), -1);
  EXPECT_EQ(shift(1, 200), 0);
}

TEST(Rounding, MantissaKeepsSoManyBits) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const double x =
        std::ldexp(1.0 + static_cast<double>(random()) / 4294967296.0, static_cast<int>(random() % 40) - 20);
    for (const int bits : {11, 12, 15, 16, 22}) {
      const Mantissa m = mantissa(x, bits);
      EXPECT_LE(m.value, std::int64_t{1} << bits);
      EXPECT_GE(m.value, std::int64_t{1} << (bits - 1));
      EXPECT_LE(std::fabs(std::ldexp(static_cast<double>(m.value), -m.shift) / x - 1), std::ldexp(1.0, -bits));
    }
  }
}

TEST(Rounding, FloorLog2) {
  EXPECT_EQ(floor_log2(1.0), 0);
  EXPECT_EQ(floor_log2(std::nextafter(1.0, 0.0)), -1);
  EXPECT_EQ(floor_log2(0.25), -2);
  EXPECT_EQ(floor_log2(1023.9), 9);
}

/// The nearest binary16 number by search among all of them, halves away from zero.
float nearest_half_away(float value) {
  float best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const float candidate = from_f16(static_cast<std::uint16_t>(bits));
    const double distance = std::fabs(static_cast<double>(candidate) - std::fabs(static_cast<double>(value)));
    if (distance <= least) {  // ascending magnitudes: the larger one wins a tie
      least = distance;
      best = candidate;
    }
  }
  return std::copysign(best, value);
}

TEST(Rounding, F16HalvesGoAwayFromZero) {
  std::mt19937 random(4);
  for (int i = 0; i < 300; ++i) {
    const auto bits = static_cast<std::uint16_t>(random() % 0x7BFF);
    const float low = from_f16(bits);
    const float high = from_f16(static_cast<std::uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(from_f16(to_f16_half_away(middle)), high);
    EXPECT_EQ(from_f16(to_f16_half_away(-middle)), -high);
    const float inward = std::nextafter(middle, 0.0F);
    EXPECT_EQ(from_f16(to_f16_half_away(inward)), inward > low ? low : from_f16(to_f16(inward)));
    const float anywhere = low + (high - low) * static_cast<float>(random() % 1000) / 1000.0F;
    EXPECT_EQ(from_f16(to_f16_half_away(anywhere)), nearest_half_away(anywhere)) << anywhere;
  }
}

TEST(Rounding, F16KeepsWhatItCanSay) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = from_f16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(from_f16(to_f16_half_away(value))));
    } else {
      EXPECT_EQ(to_f16_half_away(value), half) << bits;
    }
  }
  EXPECT_TRUE(std::isinf(from_f16(to_f16_half_away(65520.0F))));
  EXPECT_EQ(from_f16(to_f16_half_away(65519.0F)), 65504.0F);
  EXPECT_TRUE(std::isinf(from_f16(to_f16_half_away(1e30F))));
}

}  // namespace
}  // namespace htpipe::kernels
