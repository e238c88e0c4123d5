// The products of every instruction set that this machine has against each other, bit by bit, and against plain sums.
#include "kernels/gemm_f32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm_f32_block.h"
#include "kernels/isa.h"

namespace htpipe::kernels {
namespace {

struct OneIsa {
  std::string name;
  Isa isa;
  MultiplyBlock f32;
};

/// Those beside "generic" that run here.
std::vector<OneIsa> other_isas() {
  std::vector<OneIsa> found = {{"avx2", Isa::kAvx2, avx2::multiply_block},
                               {"avx512", Isa::kAvx512, avx512::multiply_block}};
  std::erase_if(found, [](const OneIsa& one) { return !isa_runs(one.isa); });
  return found;
}

struct Sizes {
  std::int64_t m, k, n;
};

/// Around the borders of row groups (4, 6, 14), panels (16) and pairs of k, and a few large ones.
std::vector<Sizes> sizes() {
  std::vector<Sizes> all;
  for (const std::int64_t m : {1, 3, 4, 5, 8, 9, 13, 14, 17}) {
    for (const std::int64_t k : {1, 2, 3, 9, 16, 27, 64}) {
      for (const std::int64_t n : {1, 7, 15, 16, 17, 31, 32, 33, 64, 81}) all.push_back({m, k, n});
    }
  }
  all.push_back({28, 1152, 64});
  all.push_back({125, 257, 70});
  all.push_back({2, 4097, 10});
  return all;
}

std::size_t count(std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); }

/// Magnitudes differ widely, so that another order of additions would show.
std::vector<float> wide_values(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(size);
  for (float& x : values) {
    x = std::ldexp(static_cast<float>(random() % 2001) - 1000.0F, static_cast<int>(random() % 30) - 20);
  }
  return values;
}

float chain(const float* a, const float* column, std::int64_t k, std::int64_t n, float bias, float low, float high) {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < k; ++i) sum = std::fma(a[i], column[i * n], sum);
  return std::min(std::max(sum + bias, low), high);
}

TEST(Gemm, F32IsTheSameBitsOnEveryInstructionSet) {
  for (const Sizes& s : sizes()) {
    const std::vector<float> a = wide_values(count(s.m, s.k), 1);
    const std::vector<float> weights = wide_values(count(s.k, s.n), 2);
    const std::vector<float> bias = wide_values(count(1, s.n), 3);
    const PackedF32 packed = pack_f32(weights.data(), s.k, s.n);
    const Epilogue epilogue = {bias.data(), -0.5F, 1000.0F};
    std::vector<float> want;
    for (std::int64_t row = 0; row < s.m; ++row) {
      for (std::int64_t column = 0; column < s.n; ++column) {
        want.push_back(chain(a.data() + row * s.k, weights.data() + column, s.k, s.n,
                             bias[static_cast<std::size_t>(column)], epilogue.low, epilogue.high));
      }
    }
    std::vector<OneIsa> isas = other_isas();
    isas.push_back({"generic", Isa::kGeneric, generic::multiply_block});
    for (const OneIsa& isa : isas) {
      // A row of c is longer than the product; what lies behind it stays.
      std::vector<float> got(count(s.m, s.n + 3), -2.0F);
      std::vector<float> block(static_cast<std::size_t>(kBlockFloats));
      for (std::int64_t row = 0; row < s.m; row += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, s.m - row);
        for (std::int64_t step = 0; step < s.k; step += kBlockDepth) {
          const std::int64_t steps = std::min(kBlockDepth, s.k - step);
          RowsF32{a.data(), s.k}(row, rows, step, steps, block.data());
          isa.f32({block.data(), rows, steps, packed.data.data() + step * kPanel, s.k * kPanel, s.n,
                   got.data() + row * (s.n + 3), s.n + 3, step == 0, step + steps == s.k ? &epilogue : nullptr});
        }
      }
      for (std::int64_t row = 0; row < s.m; ++row) {
        const float* line = got.data() + row * (s.n + 3);
        ASSERT_EQ(std::memcmp(line, want.data() + row * s.n, static_cast<std::size_t>(s.n) * sizeof(float)), 0)
            << isa.name << " " << s.m << "x" << s.k << "x" << s.n << " row " << row;
        ASSERT_EQ(line[s.n], -2.0F) << isa.name << " " << s.m << "x" << s.k << "x" << s.n;
      }
    }
  }
}

TEST(Gemm, F32PartsAreTheWhole) {
  const std::int64_t m = 130;
  const std::int64_t k = 300;
  const std::int64_t n = 75;
  const std::vector<float> a = wide_values(count(m, k), 4);
  const std::vector<float> weights = wide_values(count(k, n), 5);
  const PackedF32 packed = pack_f32(weights.data(), k, n);
  std::vector<float> want(count(m, n));
  gemm_f32(a.data(), packed, want.data(), m);
  std::vector<float> got(count(m, n), -1.0F);
  std::vector<float> block(static_cast<std::size_t>(kBlockFloats));
  for (std::int64_t panel = 0; panel < 5; panel += 2) {
    gemm_f32(RowsF32{a.data(), k}, packed, panel, std::min<std::int64_t>(panel + 2, 5), got.data(), n, m, {},
             block.data());
  }
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
}

TEST(Gemm, ClampPassesNanOn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> weights(20, 1.0F);
  const PackedF32 packed = pack_f32(weights.data(), 1, 20);
  std::vector<float> block(static_cast<std::size_t>(kBlockFloats));
  std::vector<float> got(20);
  gemm_f32(RowsF32{&nan, 1}, packed, 0, 2, got.data(), 20, 1, {nullptr, 0.0F, 6.0F}, block.data());
  for (const float x : got) EXPECT_TRUE(std::isnan(x));
}

TEST(Gemm, ChosenInstructionSetIsAKnownOne) {
  const std::string name = isa_name();
  EXPECT_TRUE(name == "generic" || name == "avx2" || name == "avx512") << name;
}

}  // namespace
}  // namespace htpipe::kernels
