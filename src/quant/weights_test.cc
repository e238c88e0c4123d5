// Stored weights and biases stand for the real ones, also where channels are dead or biases are huge.
#include "quant/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quant/quantize.h"

namespace htpipe::quant {
namespace {

Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return Tensor::from<float>({DType::kF32, shape, std::nullopt}, values);
}

Tensor random_weights(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor({DType::kF32, shape, std::nullopt});
  for (float& x : tensor.mutable_data<float>())
    x = static_cast<float>(static_cast<double>(random()) / 2147483648.0 - 1.0);
  return tensor;
}

TEST(QuantizeParameters, EveryWeightIsWithinHalfAStep) {
  for (const int bits : {4, 8}) {
    for (const int axis : {-1, 0, 3}) {
      const Tensor weight = random_weights({5, 3, 4, 7}, static_cast<unsigned>(bits + axis));
      const Parameters stored = quantize_parameters(weight, Tensor(), axis, 0.02F, bits);
      EXPECT_TRUE(stored.bias.empty());
      const Encoding& encoding = *stored.weight.type().encoding;
      EXPECT_EQ(encoding.axis, axis);
      EXPECT_EQ(encoding.bits, bits);
      EXPECT_EQ(encoding.scales.size(),
                axis < 0 ? 1U : static_cast<std::size_t>(weight.shape()[static_cast<std::size_t>(axis)]));
      const int top = bits == 4 ? 7 : 127;
      int largest = 0;
      for (std::int64_t i = 0; i < weight.count(); ++i) {
        const std::size_t channel = axis == 0   ? static_cast<std::size_t>(i / 84)
                                    : axis == 3 ? static_cast<std::size_t>(i % 7)
                                                : 0;
        EXPECT_LE(std::fabs(stored.weight.real(i) - weight.real(i)),
                  0.5001 * static_cast<double>(encoding.scales[channel]));
        const int q = std::abs(static_cast<int>(stored.weight.data<std::int8_t>()[static_cast<std::size_t>(i)]));
        EXPECT_LE(q, top);
        largest = std::max(largest, q);
      }
      EXPECT_EQ(largest, top) << "the codes are not used up";
    }
  }
}

TEST(QuantizeParameters, DeadChannelsKeepALeastScale) {
  Tensor weight = random_weights({1, 1, 8, 6}, 3);
  for (std::size_t i = 2; i < 48; i += 6) weight.mutable_data<float>()[i] *= 1e-6F;
  const Tensor bias = floats({6}, {0.5F, -1.25F, 0.75F, 0, 1, 0});
  const float least = least_weight_scale(Encoding::per_tensor(0.02F, 0, 8), Encoding::per_tensor(0.05F, 100, 8));
  EXPECT_FLOAT_EQ(least, std::ldexp(0.05F / 0.02F, -18));
  const Parameters stored = quantize_parameters(weight, bias, 3, 0.02F, 8, least);
  EXPECT_EQ(stored.weight.type().encoding->scales[2], least);
  EXPECT_GT(stored.weight.type().encoding->scales[1], least);
  EXPECT_NEAR(stored.bias.real(2), 0.75, 1e-6);
  // The zero point of 16 bits, in steps of the sum, must fit 32 bits.
  const float wide = least_weight_scale(Encoding::per_tensor(1, 0, 16), Encoding::per_tensor(1, 65535, 16));
  EXPECT_LT(65535.0 / static_cast<double>(wide), std::ldexp(1.0, 31));
}

TEST(QuantizeParameters, BiasesAreInStepsOfInputTimesWeight) {
  const Tensor weight = random_weights({1, 1, 8, 6}, 3);
  const Tensor bias = floats({6}, {0.5F, -1.25F, 0, 3e-5F, 100, -0.001F});
  const Parameters stored = quantize_parameters(weight, bias, 3, 0.031F, 8);
  const Encoding& encoding = *stored.bias.type().encoding;
  ASSERT_EQ(encoding.scales.size(), 6U);
  for (std::size_t c = 0; c < 6; ++c) {
    EXPECT_EQ(encoding.scales[c], 0.031F * stored.weight.type().encoding->scales[c]);
    EXPECT_NEAR(stored.bias.real(static_cast<std::int64_t>(c)), bias.real(static_cast<std::int64_t>(c)),
                0.5001 * static_cast<double>(encoding.scales[c]));
  }
}

TEST(QuantizeParameters, DeadChannelsAreHarmless) {
  const Tensor weight = floats({1, 1, 2, 3}, {0.5F, 0, 1e-30F, -1, 0, 1e-30F});
  const Tensor bias = floats({3}, {1, -2, 3});
  const Parameters stored = quantize_parameters(weight, bias, 3, 0.1F, 8);
  const Encoding& encoding = *stored.weight.type().encoding;
  EXPECT_EQ(encoding.scales[1], encoding.scales[0]);
  EXPECT_EQ(encoding.scales[2], encoding.scales[0]);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_NEAR(stored.bias.real(i), bias.real(i), 1e-3);
  // Nothing but zeros: any scale will do, but it must be one.
  const Parameters zeros = quantize_parameters(floats({2, 2}, {0, 0, 0, 0}), floats({2}, {1, 2}), 0, 0.1F, 8);
  for (const float scale : zeros.weight.type().encoding->scales) EXPECT_GT(scale, 0);
  EXPECT_NEAR(zeros.bias.real(1), 2, 0.06);
}

TEST(QuantizeParameters, HugeBiasesGetALargerScale) {
  const Tensor weight = floats({1, 1, 1, 2}, {1e-6F, 1});
  const Tensor bias = floats({2}, {1000, 1000});
  const Parameters stored = quantize_parameters(weight, bias, 3, 1e-3F, 8);
  for (const std::int32_t q : stored.bias.data<std::int32_t>())
    EXPECT_LE(std::abs(static_cast<double>(q)), 1073741825.0);
  EXPECT_NEAR(stored.bias.real(0), 1000, 0.01);
  EXPECT_NEAR(stored.bias.real(1), 1000, 0.01);
  EXPECT_EQ(stored.weight.type().encoding->scales[1], 1.0F / 127.0F);  // only the channel that needs it
}

TEST(StoreAs, RoundsToEvenAndClamps) {
  const Tensor real = floats({6}, {0.25F, 0.75F, -0.25F, 1000, -1000, 1.1F});
  const Tensor u8 = store_as(real, {DType::kU8, {6}, Encoding::per_tensor(0.5F, 10, 8)});
  const auto q = u8.data<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(q.begin(), q.end()), (std::vector<int>{10, 12, 10, 255, 0, 12}));
  const Tensor f16 = store_as(real, {DType::kF16, {6}, std::nullopt});
  EXPECT_EQ(from_f16(f16.data<std::uint16_t>()[5]), round_f16(1.1F));
}

}  // namespace
}  // namespace htpipe::quant
