// The inner loops of every instruction set that this machine has, against plain arithmetic, element by element.
#include "kernels/fixed/fixed_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/fixed/packed_bytes.h"

namespace htpipe::kernels {
namespace {

using Random = std::mt19937;

template <typename T>
std::vector<T> any(Random& random, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(random());
  return values;
}

TEST(FixedLoops, SetsAreInOrder) {
  const auto all = all_fixed_loops();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front()->name, "generic");
}

/// One tile with rows scattered in memory, as `pieces` cells of 4 * `steps` bytes.
void check_tile(const FixedLoops& loops, ProductTile tile, std::int64_t rows, std::int64_t blocks, std::int64_t pieces,
                std::int64_t steps, Random& random) {
  const std::int64_t k = pieces * steps * 4;
  const std::int64_t n = blocks * kProductBlock;
  const auto data = any<std::uint8_t>(random, rows * k);
  const auto weights = any<std::int8_t>(random, k * n);
  const PackedBytes packed = pack_bytes(weights.data(), k, n, n);
  std::vector<const std::uint8_t*> table;
  for (std::int64_t p = 0; p < pieces; ++p) {
    for (std::int64_t r = 0; r < rows; ++r) table.push_back(data.data() + (r * pieces + p) * steps * 4);
  }
  std::vector<std::int32_t> out(static_cast<std::size_t>(rows * n), -1);
  tile({table.data(), pieces, steps, packed.data.data(), packed.block_bytes(), out.data()});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < n; ++c) {
      std::int32_t sum = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        sum += data[static_cast<std::size_t>(r * k + i)] * weights[static_cast<std::size_t>(i * n + c)];
      }
      ASSERT_EQ(out[static_cast<std::size_t>(r * n + c)], sum)
          << loops.name << " " << rows << "x" << blocks << " blocks, " << pieces << " pieces of " << steps;
    }
  }
}

TEST(FixedLoops, TilesAreExact) {
  Random random(1);
  for (const FixedLoops* loops : all_fixed_loops()) {
    for (const std::int64_t pieces : {1, 2, 9}) {
      for (const std::int64_t steps : {1, 2, 7, 16}) {
        for (std::int64_t b = 1; b <= kProductBlocks; ++b) {
          check_tile(*loops, loops->wide[b - 1], kWideRows, b, pieces, steps, random);
        }
        for (std::int64_t b = 1; b <= kTallBlocks; ++b) {
          check_tile(*loops, loops->tall[b - 1], kTallRows, b, pieces, steps, random);
        }
      }
    }
  }
}

TEST(FixedLoops, LargestProductsDoNotSaturate) {
  constexpr std::int64_t kSteps = 8192;
  const std::vector<std::uint8_t> data(4 * kSteps, 255);
  const std::vector<std::int8_t> weights(4 * kSteps * kProductBlock, -128);
  const PackedBytes packed = pack_bytes(weights.data(), 4 * kSteps, kProductBlock, kProductBlock);
  const std::vector<const std::uint8_t*> table(kTallRows, data.data());
  for (const FixedLoops* loops : all_fixed_loops()) {
    std::vector<std::int32_t> out(kTallRows * kProductBlock);
    loops->tall[0]({table.data(), 1, kSteps, packed.data.data(), packed.block_bytes(), out.data()});
    EXPECT_EQ(out, std::vector<std::int32_t>(out.size(), -255 * 128 * 32768)) << loops->name;
  }
}

template <typename T>
void check_depthwise(const FixedLoops& loops, std::int64_t taps, std::int64_t channels, T flip, Random& random) {
  const auto data = any<T>(random, taps * channels);
  const auto weights = any<std::int8_t>(random, taps * channels);
  std::vector<const T*> rows;
  for (std::int64_t tap = 0; tap < taps; ++tap) rows.push_back(data.data() + tap * channels);
  std::vector<std::int32_t> sums(static_cast<std::size_t>((channels + 63) / 64 * 64), -1);
  if constexpr (sizeof(T) == 1) {
    std::vector<std::int8_t> packed(static_cast<std::size_t>(loops.depthwise_bytes(taps, channels)));
    loops.pack_depthwise(weights.data(), taps, channels, packed.data());
    loops.depthwise(rows.data(), packed.data(), taps, channels, sums.data());
  } else {
    std::vector<std::int16_t> pairs(static_cast<std::size_t>((taps + 1) / 2 * 2 * channels));
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t c = 0; c < channels; ++c) {
        pairs[static_cast<std::size_t>((tap / 2 * channels + c) * 2 + tap % 2)] =
            weights[static_cast<std::size_t>(tap * channels + c)];
      }
    }
    loops.depthwise_wide(rows.data(), pairs.data(), taps, channels, flip, sums.data());
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    std::int32_t sum = 0;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const auto at = static_cast<std::size_t>(tap * channels + c);
      const std::int32_t x = static_cast<T>(data[at] ^ flip) - (sizeof(T) == 2 ? 32768 : 0);
      sum += x * weights[at];
    }
    ASSERT_EQ(sums[static_cast<std::size_t>(c)], sum)
        << loops.name << " " << taps << " taps, channel " << c << " of " << channels << ", " << sizeof(T) << " bytes";
  }
}

TEST(FixedLoops, DepthwiseSumsAreExact) {
  Random random(2);
  for (const FixedLoops* loops : all_fixed_loops()) {
    for (const std::int64_t taps : {1, 2, 3, 4, 5, 9, 25}) {
      for (const std::int64_t channels : {1, 3, 7, 8, 15, 16, 17, 32, 63, 64, 65, 96, 144, 200}) {
        check_depthwise<std::uint8_t>(*loops, taps, channels, 0, random);
        check_depthwise<std::uint16_t>(*loops, taps, channels, 0, random);
        check_depthwise<std::uint16_t>(*loops, taps, channels, 32768, random);
      }
    }
  }
}

TEST(FixedLoops, ElementwiseLoopsAgree) {
  Random random(3);
  const FixedLoops& plain = *all_fixed_loops().front();
  for (const std::int64_t count : {1, 7, 31, 64, 100, 257}) {
    const auto a = any<std::uint8_t>(random, count);
    const auto b = any<std::uint8_t>(random, count);
    const auto x = any<std::uint16_t>(random, count);
    const auto y = any<std::uint16_t>(random, count);
    const AddConstants add{7001, -5003, static_cast<std::int32_t>(random() % 4096), 5, 0, 128, 128};
    const WideAddConstants wide{0.37109375, -0.6796875, 1234.5, 32768, 0, 32768};
    const auto results = [&](const FixedLoops& loops) {
      std::vector<std::int64_t> all;
      const auto take = [&all](const auto& values) { all.insert(all.end(), values.begin(), values.end()); };
      std::vector<std::uint8_t> bytes(a.size());
      std::vector<std::uint16_t> words(a.size());
      loops.add(add, a.data(), b.data(), count, bytes.data());
      take(bytes);
      loops.add_wide(wide, x.data(), y.data(), count, words.data());
      take(words);
      bytes = a;
      loops.max_u8(b.data(), count, bytes.data());
      take(bytes);
      bytes = a;
      loops.max_i8(reinterpret_cast<const std::int8_t*>(b.data()), count, reinterpret_cast<std::int8_t*>(bytes.data()));
      take(bytes);
      words = x;
      loops.max_u16(y.data(), count, words.data());
      take(words);
      words = x;
      loops.max_i16(reinterpret_cast<const std::int16_t*>(y.data()), count,
                    reinterpret_cast<std::int16_t*>(words.data()));
      take(words);
      std::vector<std::int32_t> sums(a.size(), 5);
      loops.sum_u8(a.data(), 128, count, sums.data());
      loops.sum_u16(x.data(), 32768, count, sums.data());
      take(sums);
      std::vector<std::uint8_t> high(a.size());
      loops.split(x.data(), 32768, count, bytes.data(), high.data());
      take(bytes);
      take(high);
      loops.flip_bytes(a.data(), 128, count, bytes.data());
      take(bytes);
      return all;
    };
    const auto want = results(plain);
    for (const FixedLoops* loops : all_fixed_loops()) EXPECT_EQ(results(*loops), want) << loops->name << " " << count;
  }
}

TensorType activation(DType dtype, float scale, int zero) {
  return {dtype, {1}, Encoding::per_tensor(scale, zero, size_of(dtype) == 2 ? 16 : 8)};
}

/// Random layers of the family: every form, both widths, ordinary and degenerate scales, biases that leave 32 bits.
struct Layer {
  ConvRequant requant;
  std::vector<std::int64_t> corrections;
  std::vector<std::int64_t> sizes;
  bool wide = false;
};

Layer any_layer(Random& random, std::int64_t channels, ConvForm form, int version, DType dtype) {
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random()) / 4294967296.0;
  };
  const bool wide = size_of(dtype) == 2;
  const bool is_signed = dtype == DType::kI8 || dtype == DType::kI16;
  const int half = wide ? 32768 : 128;
  const int zero_in = static_cast<int>(random() % static_cast<unsigned>(2 * half)) - (is_signed ? half : 0);
  const int zero_out = static_cast<int>(random() % static_cast<unsigned>(2 * half)) - (is_signed ? half : 0);
  const auto count = static_cast<std::size_t>(channels);
  WeightScales scales;
  scales.per_channel = random() % 3 != 0;
  scales.scales.resize(scales.per_channel ? count : 1);
  for (float& scale : scales.scales) scale = static_cast<float>(std::exp2(uniform(-12, -5)));
  const auto in_scale = static_cast<float>(std::exp2(uniform(-9, -3)) / (wide ? 256 : 1));
  const double spread = random() % 4 == 0 ? uniform(-22, 8) : uniform(-3, 3);
  const auto out_scale = static_cast<float>(std::exp2(uniform(-9, -3) + spread) / (wide ? 256 : 1));
  Layer layer;
  layer.wide = wide;
  std::vector<std::int64_t> weight_sums;
  std::vector<std::int32_t> bias;
  for (std::size_t c = 0; c < count; ++c) {
    weight_sums.push_back(static_cast<std::int64_t>(random() % 20001) - 10000);
    layer.sizes.push_back(std::abs(weight_sums.back()) + static_cast<std::int64_t>(random() % 10000));
    bias.push_back(static_cast<std::int32_t>(random()) >> static_cast<int>(random() % 24));
  }
  const TensorType in = activation(dtype, in_scale, zero_in);
  const TensorType out = activation(dtype, out_scale, zero_out);
  auto made = ConvRequant::make(
      {in, scales, out, bias, weight_sums, static_cast<float>(std::exp2(uniform(-20, -8))), channels, form, version});
  if (!made) return layer;
  layer.requant = *made;
  const std::int64_t zero = zero_in + (is_signed ? half : 0);
  for (const std::int64_t sum : weight_sums) layer.corrections.push_back(made->uncentred() ? 0 : zero * sum);
  return layer;
}

TEST(RowRequant, IsConvRequantForEveryForm) {
  Random random(4);
  constexpr std::int64_t kChannels = 37;
  std::map<RowConstants::Form, int> forms;
  for (int round = 0; round < 400; ++round) {
    const ConvForm form = std::array{ConvForm::kStandard, ConvForm::kNoShift, ConvForm::kExact}[random() % 3];
    const DType dtype = std::array{DType::kU8, DType::kI8, DType::kU16, DType::kI16}[random() % 4];
    const int version = std::array{68, 73, 75}[random() % 3];
    Layer layer = any_layer(random, kChannels, form, version, dtype);
    if (layer.corrections.empty()) continue;
    const bool halves = layer.wide && layer.requant.uncentred();
    const std::int64_t largest = *std::max_element(layer.sizes.begin(), layer.sizes.end());
    RowRequant::Sums sums;
    sums.parts = halves ? RowRequant::Parts::kInputHalves : RowRequant::Parts::kWhole;
    sums.corrections = layer.corrections;
    sums.reach = layer.wide && !halves ? 65536 * largest : 256 * largest;
    if (sums.reach > 2147483647) sums.reach = 2147483647;
    const RowRequant rows(layer.requant, sums);
    ++forms[rows.constants().form];
    std::vector<std::int32_t> low(kChannels);
    std::vector<std::int32_t> high(kChannels);
    std::vector<std::int64_t> want;
    for (std::size_t c = 0; c < low.size(); ++c) {
      // Around the values that decide, and anywhere within reach.
      const std::int64_t reach = std::min<std::int64_t>(255 * layer.sizes[c], 2147483647);
      const auto within = [&] {
        return static_cast<std::int32_t>(static_cast<std::int64_t>(random()) % (2 * reach + 1) - reach);
      };
      low[c] = within() >> static_cast<int>(random() % 8);
      high[c] = within() >> static_cast<int>(random() % 16);
      const std::int64_t whole = low[c] + (halves ? std::int64_t{high[c]} * 256 : 0) - layer.corrections[c];
      want.push_back(layer.requant.apply(whole, c));
    }
    std::int32_t* const parts[2] = {low.data(), high.data()};
    std::vector<std::uint16_t> out(kChannels);
    rows.apply(parts, 0, kChannels, out.data());
    for (std::size_t c = 0; c < want.size(); ++c) {
      const std::int64_t got = layer.wide ? out[c] : reinterpret_cast<const std::uint8_t*>(out.data())[c];
      ASSERT_EQ(got, layer.wide ? static_cast<std::uint16_t>(want[c]) : static_cast<std::uint8_t>(want[c]))
          << name_of(dtype) << " v" << version << " form " << static_cast<int>(form) << " channel " << c << " round "
          << round << " loops " << static_cast<int>(rows.constants().form);
    }
    if (rows.constants().form == RowConstants::Form::kEach) continue;
    // The other instruction sets give the same.
    for (const FixedLoops* loops : all_fixed_loops()) {
      std::vector<std::int32_t> wholes = any<std::int32_t>(random, kChannels);
      for (std::int32_t& value : wholes) value %= static_cast<std::int32_t>(layer.wide ? largest : 255 * largest);
      std::vector<std::uint16_t> first(kChannels);
      std::vector<std::uint16_t> second(kChannels);
      const FixedLoops& plain = *all_fixed_loops().front();
      if (layer.wide) {
        loops->requant_u16(rows.constants(), wholes.data(), 0, kChannels, first.data());
        plain.requant_u16(rows.constants(), wholes.data(), 0, kChannels, second.data());
      } else {
        loops->requant_u8(rows.constants(), wholes.data(), 0, kChannels, reinterpret_cast<std::uint8_t*>(first.data()));
        plain.requant_u8(rows.constants(), wholes.data(), 0, kChannels, reinterpret_cast<std::uint8_t*>(second.data()));
      }
      ASSERT_EQ(first, second) << loops->name << " " << name_of(dtype);
    }
  }
  // All loops were seen, and the slow one was the exception.
  EXPECT_GT(forms[RowConstants::Form::kWhole], 20);
  EXPECT_GT(forms[RowConstants::Form::kReal], 20);
  EXPECT_GT(forms[RowConstants::Form::kExact], 20);
}

}  // namespace
}  // namespace htpipe::kernels
