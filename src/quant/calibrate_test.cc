// Calibration against one histogram per value made sample by sample, and its independence of the number of threads.
#include "quant/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <random>

#include "base/hash.h"
#include "exec/program.h"
#include "ir/text.h"
#include "ops/registry.h"

namespace htpipe::quant {
namespace {

const char* const kNet = R"(graph @net(%x: f32[1,6,6,3]) -> (%y) {
  %w = const f32[3,3,3,4] random 1
  %c = Conv2d(%x, %w, _) {data_layout="nhwc", activation="relu"}
  %y = ElementWiseBinary(%c, %c) {operation="multiply"}
})";

Graph net() {
  register_all_ops();
  auto graph = parse_graph(kNet);
  EXPECT_TRUE(graph) << graph.error().summary();
  return std::move(*graph);
}

std::vector<Tensor> sample(std::int64_t index) {
  std::mt19937 random(static_cast<unsigned>(index));
  Tensor tensor({DType::kF32, {1, 6, 6, 3}, std::nullopt});
  const float scale = std::ldexp(1.0F, static_cast<int>(index % 7) - 3);
  for (float& x : tensor.mutable_data<float>())
    x = scale * static_cast<float>(static_cast<double>(random()) / 2147483648.0 - 1.0);
  return {tensor};
}

SampleSource source(std::int64_t count) {
  return {count, [](std::int64_t index) { return Result<std::vector<Tensor>>(sample(index)); }};
}

std::string text_of(const Statistics& statistics) {
  std::string text;
  for (const auto& [name, histogram] : statistics) {
    text += name + " " + std::to_string(histogram.total()) + " " + std::to_string(histogram.first_bin());
    for (const std::int64_t count : histogram.counts()) text += " " + std::to_string(count);
    text += "\n";
  }
  return text;
}

TEST(Calibrate, EqualsHistogramsMadeOneByOne) {
  const Graph graph = net();
  for (const std::int64_t count : {1, 15, 16, 17, 50}) {
    Statistics want;
    for (std::int64_t i = count; i-- > 0;) {  // in another order
      ASSERT_TRUE(run_once(graph, sample(i), 0, [&](const Value& value, const Tensor& tensor) {
        want[value.name].add(tensor.data<float>());
      }));
    }
    const auto got = calibrate(graph, source(count));
    ASSERT_TRUE(got) << got.error().summary();
    EXPECT_EQ(text_of(*got), text_of(want)) << count;
  }
}

/// Not a test of its own: what the next test starts with another number of threads.
TEST(CalibrateChild, DISABLED_PrintsDigest) {
  const auto statistics = calibrate(net(), source(70));
  ASSERT_TRUE(statistics);
  std::printf("digest %s\n", sha256_hex(as_bytes(text_of(*statistics))).c_str());
}

TEST(Calibrate, ResultDoesNotDependOnTheNumberOfThreads) {
  const auto statistics = calibrate(net(), source(70));
  ASSERT_TRUE(statistics);
  const std::string want = "digest " + sha256_hex(as_bytes(text_of(*statistics)));
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const char* threads : {"1", "3", "8"}) {
    const std::string command =
        std::string("env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX -u GTEST_OUTPUT HTPIPE_THREADS=") + threads + " '" +
        self + "' --gtest_also_run_disabled_tests --gtest_filter=CalibrateChild.* 2>/dev/null";
    std::FILE* pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string output;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
    EXPECT_EQ(::pclose(pipe), 0);
    EXPECT_NE(output.find(want), std::string::npos) << threads << " threads:\n" << output;
  }
}

TEST(Calibrate, ValuesThatAreNoNumbersAreNamed) {
  const Graph graph = net();
  const auto code_and_place = [&graph](float value) {
    const SampleSource broken{20, [value](std::int64_t index) -> Result<std::vector<Tensor>> {
                                if (index != 18) return sample(index);
                                Tensor tensor({DType::kF32, {1, 6, 6, 3}, std::nullopt});
                                for (float& x : tensor.mutable_data<float>()) x = value;
                                return std::vector<Tensor>{tensor};
                              }};
    const auto statistics = calibrate(graph, broken);
    if (statistics) return std::string("none");
    EXPECT_NE(statistics.error().message.find("sample 18"), std::string::npos) << statistics.error().message;
    return std::string(word(statistics.error().code)) + " " + statistics.error().place.node;
  };
  EXPECT_EQ(code_and_place(std::numeric_limits<float>::quiet_NaN()), "data-not-finite x");
  EXPECT_EQ(code_and_place(std::numeric_limits<float>::infinity()), "data-not-finite x");
  EXPECT_EQ(code_and_place(1e30F), "data-not-finite y");  // finite, but its square is not
}

TEST(Calibrate, MaskedScoresAreLeftOut) {
  register_all_ops();
  const auto graph = parse_graph(
      "graph @g(%x: f32[1,3]) -> (%p) {\n  %m = const f32[1,3] [0,-3.4028235e+38,1]\n"
      "  %a = ElementWiseBinary(%x, %m) {operation=\"add\"} : f32[1,3]\n"
      "  %s = ElementWiseBinary(%a, %m) {operation=\"add\"} : f32[1,3]\n"
      "  %p = Softmax(%s) {axis=1} : f32[1,3]\n}\n");
  ASSERT_TRUE(graph) << graph.error().summary();
  const SampleSource source{1, [](std::int64_t) -> Result<std::vector<Tensor>> {
                              Tensor tensor({DType::kF32, {1, 3}, std::nullopt});
                              const auto x = tensor.mutable_data<float>();
                              x[0] = -4;
                              x[1] = -5;
                              x[2] = 5;
                              return std::vector<Tensor>{tensor};
                            }};
  const auto statistics = calibrate(*graph, source);
  ASSERT_TRUE(statistics) << statistics.error().summary();
  EXPECT_EQ(statistics->at("s").min(), -4);
  EXPECT_EQ(statistics->at("s").max(), 7);
  EXPECT_TRUE(statistics->at("s").reaches_below());
}

TEST(Calibrate, ErrorsOfTheSourceComeThrough) {
  const SampleSource broken{
      3, [](std::int64_t) -> Result<std::vector<Tensor>> { return fail(Code::kFileTruncated, "gone"); }};
  const auto statistics = calibrate(net(), broken);
  ASSERT_FALSE(statistics);
  EXPECT_EQ(statistics.error().code, Code::kFileTruncated);
}

}  // namespace
}  // namespace htpipe::quant
