// Element types, and binary16 against the conversion instructions of the processor.
#include "tensor/dtype.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace htpipe {
namespace {

constexpr std::array kAll = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32,
                             DType::kI16, DType::kI8,  DType::kU32, DType::kU16,  DType::kU8,  DType::kBool};

__attribute__((target("f16c"))) std::uint16_t processor_to_f16(float value) {
  return static_cast<std::uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
}
__attribute__((target("f16c"))) float processor_from_f16(std::uint16_t bits) { return _cvtsh_ss(bits); }

/// The value of a binary16 code by its definition in IEEE 754.
double defined_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int fraction = bits & 0x3FF;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

bool is_nan_code(std::uint16_t bits) { return (bits & 0x7FFF) > 0x7C00; }

TEST(F16Test, WidensAllCodesExactly) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const float value = from_f16(bits);
    if (is_nan_code(bits)) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else if ((bits & 0x7FFF) == 0x7C00) {
      EXPECT_TRUE(std::isinf(value)) << code;
      EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0);
    } else {
      ASSERT_EQ(static_cast<double>(value), defined_value(bits)) << code;
      ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << code;
    }
  }
}

TEST(F16Test, NarrowsWhatItWidened) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const std::uint16_t back = to_f16(from_f16(bits));
    if (is_nan_code(bits)) {
      EXPECT_TRUE(is_nan_code(back)) << code;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

// Each processor with AVX2 has F16C; clang 14 cannot ask for the latter.
class F16ProcessorTest : public testing::Test {
 protected:
  void SetUp() override {
    if (__builtin_cpu_supports("avx2") == 0) GTEST_SKIP() << "this processor has no conversion to compare with";
  }
  static void expect_same(float value) {
    const std::uint16_t ours = to_f16(value);
    const std::uint16_t theirs = processor_to_f16(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(is_nan_code(ours));
    } else {
      ASSERT_EQ(ours, theirs) << std::hexfloat << value;
    }
  }
};

TEST_F(F16ProcessorTest, WidensAllCodesAlike) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    if (is_nan_code(bits)) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(from_f16(bits)), std::bit_cast<std::uint32_t>(processor_from_f16(bits)));
  }
}

TEST_F(F16ProcessorTest, RoundsAlikeAroundEachCodeAndEachMidpoint) {
  // The largest finite code has its midpoint where infinity begins.
  for (std::uint32_t code = 0; code <= 0x7BFF; ++code) {
    const double here = defined_value(static_cast<std::uint16_t>(code));
    const double next = code == 0x7BFF ? 65536 : defined_value(static_cast<std::uint16_t>(code + 1));
    for (const double point : {here, (here + next) / 2}) {
      const auto value = static_cast<float>(point);
      for (const float near : {std::nextafterf(value, -1.0F), value, std::nextafterf(value, 1e9F)}) {
        expect_same(near);
        expect_same(-near);
      }
    }
  }
}

TEST_F(F16ProcessorTest, RoundsAlikeForRandomBits) {
  std::mt19937 random(7);
  for (int i = 0; i < 1000000; ++i) expect_same(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const float value : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::max(), 65519.996F, 65520.0F}) {
    expect_same(value);
  }
}

TEST(Bf16Test, IsTheUpperHalfOfAFloat) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const float value = from_bf16(static_cast<std::uint16_t>(code));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), code << 16);
  }
  EXPECT_EQ(from_bf16(0x3F80), 1.0F);
  EXPECT_EQ(from_bf16(0xC049), -3.140625F);
}

TEST(DTypeTest, NamesParseBack) {
  for (const DType dtype : kAll) EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  for (const char* text : {"", "f", "f8", "F32", "int8", "u4", "f32 "}) EXPECT_EQ(parse_dtype(text), std::nullopt);
}

template <typename T>
void expect_limits(DType dtype) {
  EXPECT_EQ(size_of(dtype), sizeof(T));
  EXPECT_EQ(lowest(dtype), static_cast<std::int64_t>(std::numeric_limits<T>::min()));
  EXPECT_EQ(highest(dtype), static_cast<std::int64_t>(std::numeric_limits<T>::max()));
  EXPECT_TRUE(is_integer(dtype));
  EXPECT_FALSE(is_float(dtype));
}

TEST(DTypeTest, IntegersHaveTheLimitsOfTheLanguage) {
  expect_limits<std::int64_t>(DType::kI64);
  expect_limits<std::int32_t>(DType::kI32);
  expect_limits<std::int16_t>(DType::kI16);
  expect_limits<std::int8_t>(DType::kI8);
  expect_limits<std::uint32_t>(DType::kU32);
  expect_limits<std::uint16_t>(DType::kU16);
  expect_limits<std::uint8_t>(DType::kU8);
}

TEST(DTypeTest, FloatsAndBoolAreNoIntegers) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_TRUE(is_float(dtype));
    EXPECT_FALSE(is_integer(dtype));
  }
  EXPECT_FALSE(is_integer(DType::kBool));
  EXPECT_FALSE(is_float(DType::kBool));
  EXPECT_EQ(size_of(DType::kF64), 8U);
  EXPECT_EQ(size_of(DType::kF32), 4U);
  EXPECT_EQ(size_of(DType::kF16), 2U);
  EXPECT_EQ(size_of(DType::kBF16), 2U);
  EXPECT_EQ(size_of(DType::kBool), 1U);
}

}  // namespace
}  // namespace htpipe
