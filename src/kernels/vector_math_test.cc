// The vector functions of every instruction set that this machine has: the same bits, and close to double precision.
#include "kernels/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "kernels/window_f32.h"

namespace htpipe::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct OneIsa {
  std::string name;
  const VectorMath& math;
  RunWindowLine window;
};

/// Those beside "generic" that run here.
std::vector<OneIsa> other_isas() {
  std::vector<OneIsa> found;
  if (isa_runs(Isa::kAvx2)) found.push_back({"avx2", avx2::kVectorMath, avx2::run_window_line});
  if (isa_runs(Isa::kAvx512)) found.push_back({"avx512", avx512::kVectorMath, avx512::run_window_line});
  return found;
}

/// The same bits, or NaN in both.
void expect_same(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
        << what << " [" << i << "]: " << got[i] << ", generic " << want[i];
  }
}

/// Numbers of all sizes, dense where functions bend, and the special ones.
std::vector<float> arguments() {
  std::vector<float> values = {0.0F,   -0.0F,  1e-40F,   -1e-40F, kInfinity, -kInfinity, kNan,  88.7F,  88.73F,
                               -87.3F, -88.0F, -103.97F, -104.5F, 1e30F,     -1e30F,     14.5F, -14.5F, -15.0F};
  for (int i = -12000; i <= 12000; ++i) values.push_back(static_cast<float>(i) * 0.00917F);
  for (int i = -4000; i <= 4000; ++i) values.push_back(static_cast<float>(i) * 0.00053F);
  std::mt19937 random(1);
  for (int i = 0; i < 4000; ++i) {
    values.push_back(std::ldexp(static_cast<float>(random() % 4001) - 2000.0F, static_cast<int>(random() % 40) - 40));
  }
  return values;
}

struct Function {
  std::string name;
  Unary32 function;
  double (*truth)(double);
  double floor;  ///< errors count against the larger of the result's size and this
  double bound = 2.5;
};

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {"exp", Unary32::kExp, [](double x) { return std::exp(x); }, 0x1p-126},
      {"erf", Unary32::kErf, [](double x) { return std::erf(x); }, 0x1p-126},
      {"tanh", Unary32::kTanh, [](double x) { return std::tanh(x); }, 0x1p-126},
      {"sigmoid", Unary32::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 0x1p-126},
      {"gelu", Unary32::kGelu, [](double x) { return 0.5 * x * std::erfc(-x * 0.70710678118654752440); }, 0x1p-7, 5},
      {"gelu_tanh", Unary32::kGeluTanh,
       [](double x) {
         const double y = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
         return x / (1 + std::exp(-2 * y));
       },
       0x1p-7, 8},
      {"hard_swish", Unary32::kHardSwish, [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }, 0x1p-126}};
  return all;
}

TEST(VectorMath, FunctionsAreCloseToDoublePrecision) {
  const std::vector<float> in = arguments();
  for (const Function& function : functions()) {
    std::vector<float> out(in.size());
    generic::kVectorMath.map(function.function, in.data(), out.data(), static_cast<std::int64_t>(in.size()));
    double worst = 0;
    float at = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double truth = function.truth(static_cast<double>(in[i]));
      if (std::isnan(in[i])) {
        EXPECT_TRUE(std::isnan(out[i])) << function.name;
        continue;
      }
      if (std::fabs(truth) > static_cast<double>(std::numeric_limits<float>::max()) || std::isnan(truth)) {
        const auto want = static_cast<float>(truth);
        EXPECT_TRUE(out[i] == want || (std::isnan(out[i]) && std::isnan(want))) << function.name << "(" << in[i] << ")";
        continue;
      }
      const double size = std::max(std::fabs(truth), function.floor);
      const double step = std::ldexp(1.0, std::ilogb(size) - 23);
      const double error = std::fabs(static_cast<double>(out[i]) - truth) / step;
      if (error > worst) {
        worst = error;
        at = in[i];
      }
    }
    EXPECT_LE(worst, function.bound) << function.name << "(" << at << ")";
    RecordProperty(function.name, std::to_string(worst));
  }
}

TEST(VectorMath, FunctionsAreTheSameBitsOnEveryInstructionSet) {
  const std::vector<float> in = arguments();
  for (const Function& function : functions()) {
    for (const std::int64_t count :
         {std::int64_t{1}, std::int64_t{15}, std::int64_t{33}, static_cast<std::int64_t>(in.size())}) {
      std::vector<float> want(static_cast<std::size_t>(count));
      generic::kVectorMath.map(function.function, in.data(), want.data(), count);
      for (const OneIsa& isa : other_isas()) {
        std::vector<float> got(want.size());
        isa.math.map(function.function, in.data(), got.data(), count);
        expect_same(got, want, function.name + " " + isa.name);
      }
    }
  }
}

std::vector<float> random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = static_cast<float>(random() % 20001) * 0.0007F - 7.0F;
  return values;
}

TEST(VectorMath, SoftmaxIsTheSameBitsAndSumsUpToOne) {
  for (const std::int64_t count : {1, 2, 15, 16, 17, 197, 1024, 1025, 6625}) {
    std::vector<float> in = random_values(3 * count, static_cast<std::uint32_t>(count));
    std::fill(in.begin(), in.begin() + count, -kInfinity);  // a row of nothing
    in[static_cast<std::size_t>(count)] = 50.0F;
    if (count > 1) in[static_cast<std::size_t>(2 * count)] = -kInfinity;
    for (const float beta : {1.0F, -0.5F}) {
      std::vector<float> want(in.size());
      generic::kVectorMath.softmax({in.data(), want.data(), 3, count, beta});
      if (beta > 0) {
        EXPECT_TRUE(std::isnan(want[0]));
      }
      double largest = -INFINITY;
      double sum = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        largest = std::max(largest, static_cast<double>(beta * in[static_cast<std::size_t>(count + i)]));
      }
      for (std::int64_t i = 0; i < count; ++i) {
        sum += std::exp(static_cast<double>(beta * in[static_cast<std::size_t>(count + i)]) - largest);
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(count + i);
        const double truth = std::exp(static_cast<double>(beta * in[at]) - largest) / sum;
        // A float difference to the largest has its own rounding error, which is the result's relative one.
        const double distance = std::fabs(static_cast<double>(beta * in[at])) + std::fabs(largest);
        ASSERT_NEAR(static_cast<double>(want[at]), truth, (5e-7 + 6e-8 * distance) * truth + 1e-37) << count;
      }
      for (const OneIsa& isa : other_isas()) {
        std::vector<float> got(in.size());
        isa.math.softmax({in.data(), got.data(), 3, count, beta});
        expect_same(got, want, "softmax " + isa.name);
      }
    }
  }
}

TEST(VectorMath, NormIsTheSameBitsAndCloseToDoublePrecision) {
  for (const std::int64_t count : {1, 5, 16, 192, 1030, 5000}) {
    const std::vector<float> in = random_values(2 * count, 7);
    const std::vector<float> gamma = random_values(count, 8);
    const std::vector<float> beta = random_values(count, 9);
    for (int form = 0; form < 6; ++form) {
      const bool centred = form % 2 == 0;
      NormRows job = {
          in.data(), nullptr, 2, count, form / 2 > 0 ? gamma.data() : nullptr, form / 2 > 1 ? beta.data() : nullptr,
          1e-5,      centred};
      std::vector<float> want(in.size());
      job.out = want.data();
      generic::kVectorMath.norm(job);
      double mean = 0;
      double squares = 0;
      for (std::int64_t i = 0; i < count && centred; ++i) mean += static_cast<double>(in[static_cast<std::size_t>(i)]);
      mean /= static_cast<double>(count);
      for (std::int64_t i = 0; i < count; ++i) {
        const double distance = static_cast<double>(in[static_cast<std::size_t>(i)]) - mean;
        squares += distance * distance;
      }
      const double scale = 1 / std::sqrt(squares / static_cast<double>(count) + 1e-5);
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        double truth = (static_cast<double>(in[i]) - mean) * scale;
        if (job.gamma != nullptr) truth *= static_cast<double>(gamma[i]);
        if (job.beta != nullptr) truth += static_cast<double>(beta[i]);
        ASSERT_NEAR(static_cast<double>(want[i]), truth, 3e-6 * std::max(1.0, std::fabs(truth))) << count;
      }
      for (const OneIsa& isa : other_isas()) {
        std::vector<float> got(in.size());
        job.out = got.data();
        isa.math.norm(job);
        expect_same(got, want, "norm " + isa.name);
      }
    }
  }
}

TEST(VectorMath, BinaryIsTheSameBitsOnEveryInstructionSet) {
  std::vector<float> a = random_values(70, 1);
  std::vector<float> b = random_values(70, 2);
  a[3] = b[9] = kNan;
  a[4] = 0.0F;
  b[4] = -0.0F;
  a[5] = kInfinity;
  for (const Binary32 operation : {Binary32::kAdd, Binary32::kSubtract, Binary32::kMultiply, Binary32::kDivide,
                                   Binary32::kMaximum, Binary32::kMinimum}) {
    for (int form = 0; form < 8; ++form) {
      for (const std::int64_t count : {0, 1, 16, 70}) {
        BinaryRun run = {operation,
                         a.data(),
                         b.data(),
                         form % 2 == 1,
                         form / 2 % 2 == 1,
                         nullptr,
                         count,
                         form < 4 ? -kInfinity : 0.0F,
                         form < 4 ? kInfinity : 6.0F};
        std::vector<float> want(a.size(), -3.0F);
        run.out = want.data();
        generic::kVectorMath.binary(run);
        if (count == 70 && form == 0) {
          EXPECT_TRUE(std::isnan(want[3]));
          EXPECT_TRUE(std::isnan(want[9]));
        }
        for (const OneIsa& isa : other_isas()) {
          std::vector<float> got(a.size(), -3.0F);
          run.out = got.data();
          isa.math.binary(run);
          expect_same(got, want, "binary " + isa.name);
        }
      }
    }
  }
}

TEST(WindowF32, LinesAreTheSameBitsOnEveryInstructionSet) {
  for (const std::int64_t channels : {1, 3, 16, 20, 35}) {
    for (const std::int64_t stride : {1, 2}) {
      for (const std::int64_t dilation : {1, 2}) {
        Window w;
        w.in_h = 6;
        w.in_w = 27;
        w.channels = channels;
        w.kernel_h = 3;
        w.kernel_w = 5;
        w.stride_h = w.stride_w = stride;
        w.dilation_w = dilation;
        w.pad_top = w.pad_left = 2;
        w.out_h = (w.in_h + 4 - 3) / stride + 1;
        w.out_w = (w.in_w + 4 - 4 * dilation - 1) / stride + 1;
        const std::vector<float> image = random_values(w.in_pixels() * channels, 3);
        const std::vector<float> taps = random_values(w.cells() * channels, 4);
        const std::vector<float> bias = random_values(channels, 5);
        for (const WindowSum sum : {WindowSum::kProducts, WindowSum::kSum, WindowSum::kMaximum}) {
          for (std::int64_t line = 0; line < w.out_h; ++line) {
            WindowLine job = {&w, sum, image.data(), taps.data(), line, nullptr, {bias.data(), -20.0F, 30.0F}};
            std::vector<float> want(static_cast<std::size_t>(w.out_w * channels));
            job.out = want.data();
            generic::run_window_line(job);
            for (const OneIsa& isa : other_isas()) {
              std::vector<float> got(want.size());
              job.out = got.data();
              isa.window(job);
              expect_same(got, want, "window " + isa.name);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace htpipe::kernels
