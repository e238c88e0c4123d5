// The products of every instruction set that this machine has against each other, bit by bit, and against plain sums.
#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm_impl.h"

namespace htpipe::kernels {
namespace {

struct Isa {
  std::string name;
  GemmF32 f32;
  GemmI16 i16;
};

/// Those beside "generic" that run here.
std::vector<Isa> other_isas() {
  std::vector<Isa> found;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) found.push_back({"avx2", gemm_f32_avx2, gemm_i16_avx2});
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    found.push_back({"avx512", gemm_f32_avx512, gemm_i16_avx512});
  }
  return found;
}

struct Sizes {
  std::int64_t m, k, n;
};

/// Around the borders of row groups (4, 8), column blocks (16) and pairs of k, and a few large ones.
std::vector<Sizes> sizes() {
  std::vector<Sizes> all;
  for (const std::int64_t m : {1, 3, 4, 5, 8, 9, 17}) {
    for (const std::int64_t k : {1, 2, 3, 9, 16, 27, 64}) {
      for (const std::int64_t n : {1, 7, 15, 16, 17, 31, 32, 33}) all.push_back({m, k, n});
    }
  }
  all.push_back({28, 1152, 64});
  all.push_back({2, 4097, 10});
  return all;
}

std::size_t count(std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); }

TEST(Gemm, F32IsTheSameBitsOnEveryInstructionSet) {
  std::mt19937 random(1);
  for (const Sizes& s : sizes()) {
    std::vector<float> a(count(s.m, s.k));
    std::vector<float> weights(count(s.k, s.n));
    // Magnitudes differ widely, so that another order of additions would show.
    const auto value = [&random] {
      return std::ldexp(static_cast<float>(random() % 2001) - 1000.0F, static_cast<int>(random() % 30) - 20);
    };
    for (float& x : a) x = value();
    for (float& x : weights) x = value();
    const PackedF32 packed = pack_f32(weights.data(), s.k, s.n);
    std::vector<float> want(count(s.m, s.n), -1.0F);
    gemm_f32_generic(a.data(), packed, want.data(), s.m);
    for (std::int64_t row = 0; row < s.m; ++row) {
      for (std::int64_t column = 0; column < s.n; ++column) {
        float sum = 0.0F;
        for (std::int64_t i = 0; i < s.k; ++i)
          sum += a[count(row, s.k) + static_cast<std::size_t>(i)] * weights[static_cast<std::size_t>(i * s.n + column)];
        ASSERT_EQ(want[static_cast<std::size_t>(row * s.n + column)], sum) << s.m << "x" << s.k << "x" << s.n;
      }
    }
    for (const Isa& isa : other_isas()) {
      std::vector<float> got(want.size(), -2.0F);
      isa.f32(a.data(), packed, got.data(), s.m);
      ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
          << isa.name << " " << s.m << "x" << s.k << "x" << s.n;
    }
  }
}

TEST(Gemm, I16IsExactOnEveryInstructionSet) {
  std::mt19937 random(2);
  for (const Sizes& s : sizes()) {
    const std::int64_t stride = row_stride_i16(s.k);
    std::vector<std::int16_t> a(count(s.m, stride), 0);
    std::vector<std::int8_t> weights(count(s.k, s.n));
    for (std::int64_t row = 0; row < s.m; ++row) {
      for (std::int64_t i = 0; i < s.k; ++i)
        a[static_cast<std::size_t>(row * stride + i)] =
            static_cast<std::int16_t>(static_cast<int>(random() % 511) - 255);
    }
    for (std::int8_t& w : weights) w = static_cast<std::int8_t>(static_cast<int>(random() % 256) - 128);
    const PackedI16 packed = pack_i16(weights.data(), s.k, s.n);
    std::vector<std::int32_t> want(count(s.m, s.n));
    for (std::int64_t row = 0; row < s.m; ++row) {
      for (std::int64_t column = 0; column < s.n; ++column) {
        std::int64_t sum = 0;
        for (std::int64_t i = 0; i < s.k; ++i) {
          sum += std::int64_t{a[static_cast<std::size_t>(row * stride + i)]} *
                 weights[static_cast<std::size_t>(i * s.n + column)];
        }
        want[static_cast<std::size_t>(row * s.n + column)] = static_cast<std::int32_t>(sum);
      }
    }
    std::vector<Isa> isas = other_isas();
    isas.push_back({"generic", gemm_f32_generic, gemm_i16_generic});
    for (const Isa& isa : isas) {
      std::vector<std::int32_t> got(want.size(), -7);
      isa.i16(a.data(), packed, got.data(), s.m);
      ASSERT_EQ(got, want) << isa.name << " " << s.m << "x" << s.k << "x" << s.n;
    }
  }
}

TEST(Gemm, I16KeepsTheLargestSum) {
  // 32768 products of the largest operands: the documented limit of the 32-bit sums.
  const std::int64_t k = 32768;
  const std::vector<std::int16_t> a(static_cast<std::size_t>(k), 255);
  const std::vector<std::int8_t> weights(static_cast<std::size_t>(k), -128);
  const PackedI16 packed = pack_i16(weights.data(), k, 1);
  std::int32_t sum = 0;
  gemm_i16(a.data(), packed, &sum, 1);
  EXPECT_EQ(sum, -255 * 128 * 32768);
}

TEST(Gemm, ChosenInstructionSetIsAKnownOne) {
  const std::string name = isa_name();
  EXPECT_TRUE(name == "generic" || name == "avx2" || name == "avx512") << name;
}

}  // namespace
}  // namespace htpipe::kernels
