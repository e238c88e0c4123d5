#include "accuracy/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace htpipe::accuracy {
namespace {

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(static_cast<double>(random()) / 2147483648.0 - 1.0);
  return values;
}

TEST(Comparison, AgreesWithOneLongSum) {
  const std::vector<float> a = numbers(5000, 1);
  std::vector<float> b = numbers(5000, 2);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = a[i] + 0.05F * b[i];
  long double dot = 0, aa = 0, bb = 0, ee = 0, most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const long double x = a[i];
    const long double y = b[i];
    dot += x * y;
    aa += x * x;
    bb += y * y;
    ee += (x - y) * (x - y);
    most = std::max(most, std::fabs(x - y));
    largest = std::max(largest, std::fabs(x));
  }
  Comparison streamed;
  for (std::size_t i = 0; i < a.size(); i += 500) {
    streamed.add(std::span(a).subspan(i, 500), std::span(b).subspan(i, 500));
  }
  EXPECT_NEAR(streamed.cosine(), static_cast<double>(dot / std::sqrt(aa * bb)), 1e-12);
  EXPECT_NEAR(streamed.snr_db(), static_cast<double>(10 * std::log10(aa / ee)), 1e-9);
  EXPECT_EQ(streamed.max_error(), static_cast<double>(most));
  EXPECT_EQ(streamed.reference_max(), static_cast<double>(largest));
  EXPECT_EQ(streamed.count(), 5000);
}

TEST(Comparison, SpecialCases) {
  const std::vector<float> zero(4, 0.0F);
  const std::vector<float> some = {1, -2, 3, 0};
  Comparison same;
  same.add(some, some);
  EXPECT_DOUBLE_EQ(same.cosine(), 1);
  EXPECT_TRUE(std::isinf(same.snr_db()));
  Comparison nothing;
  nothing.add(zero, zero);
  EXPECT_EQ(nothing.cosine(), 1);
  Comparison one_side;
  one_side.add(zero, some);
  EXPECT_EQ(one_side.cosine(), 0);
  Comparison opposite;
  opposite.add(some, std::vector<float>{-1, 2, -3, 0});
  EXPECT_DOUBLE_EQ(opposite.cosine(), -1);
}

TEST(Comparison, NotANumberIsNoSmallError) {
  for (const std::size_t at : {0U, 1U}) {
    std::vector<float> broken = {1, 2};
    broken[at] = std::numeric_limits<float>::quiet_NaN();
    Comparison comparison;
    comparison.add(std::vector<float>{1, 2}, broken);
    EXPECT_TRUE(std::isinf(comparison.max_error()));
    EXPECT_FALSE(comparison.cosine() > 0.5);
    EXPECT_FALSE(comparison.snr_db() > 0);
  }
}

template <typename T>
Tensor tensor(DType dtype, const std::vector<T>& values) {
  return Tensor::from<T>({dtype, {static_cast<std::int64_t>(values.size())}, {}}, values);
}

TEST(StepAgreement, CountsStoredSteps) {
  StepAgreement steps;
  steps.add(tensor<std::uint8_t>(DType::kU8, {0, 10, 255, 7}), tensor<std::uint8_t>(DType::kU8, {0, 11, 250, 7}));
  EXPECT_EQ(steps.compared, 4);
  EXPECT_EQ(steps.equal, 2);
  EXPECT_EQ(steps.within_one, 3);
  EXPECT_EQ(steps.max_steps, 5);
  StepAgreement signed_steps;
  signed_steps.add(tensor<std::int16_t>(DType::kI16, {-32768, 5}), tensor<std::int16_t>(DType::kI16, {32767, 5}));
  EXPECT_EQ(signed_steps.max_steps, 65535);
  steps.merge(signed_steps);
  EXPECT_EQ(steps.compared, 6);
  EXPECT_EQ(steps.equal, 3);
  EXPECT_EQ(steps.max_steps, 65535);
}

TEST(StepAgreement, Fp16StepsCrossZero) {
  // Neighbours of zero on both sides: +0 and -0 are the same number, the smallest ones are one step away.
  StepAgreement steps;
  steps.add(tensor<std::uint16_t>(DType::kF16, {0x0000, 0x0001, 0x3C00, 0xBC00}),
            tensor<std::uint16_t>(DType::kF16, {0x8000, 0x8001, 0x3C01, 0xBBFF}));
  EXPECT_EQ(steps.equal, 1);
  EXPECT_EQ(steps.within_one, 3);
  EXPECT_EQ(steps.max_steps, 2);
}

TEST(Argmax, FirstOneOnATie) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax(std::vector<float>{-5}), 0);
}

}  // namespace
}  // namespace htpipe::accuracy
