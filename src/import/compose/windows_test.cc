// Compositions of convolutions and pooling against what PyTorch computes (tests/data/compose/torch_windows.txt), with
// constant and with computed weights, and against plain sums where PyTorch has no such form.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/io.h"
#include "exec/program.h"
#include "import/compose/conv.h"
#include "import/compose/pool.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

using compose::ConvSpec;
using compose::PoolKind;
using compose::PoolSpec;
using IntList = std::vector<std::int64_t>;

struct Case {
  std::string text;
  std::string op;
  std::map<std::string, IntList> arguments;
  Shape shape;
  std::vector<double> elements;

  [[nodiscard]] IntList get(const std::string& name) const {
    const auto at = arguments.find(name);
    return at == arguments.end() ? IntList{} : at->second;
  }
  [[nodiscard]] std::int64_t number(const std::string& name) const { return arguments.at(name).front(); }
};

IntList integers(const std::string& text) {
  IntList values;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) values.push_back(std::stoll(part));
  return values;
}

std::vector<Case> read_cases() {
  const auto text = read_text(HTPIPE_SOURCE_DIR "/tests/data/compose/torch_windows.txt");
  EXPECT_TRUE(text);
  std::vector<Case> cases;
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    Case each;
    each.text = line.substr(0, line.find(" : "));
    std::istringstream words(line);
    words >> each.op;
    std::string word;
    while (words >> word && word != "->") {
      const std::size_t equals = word.find('=');
      each.arguments[word.substr(0, equals)] = integers(word.substr(equals + 1));
    }
    words >> word;
    each.shape = integers(word);
    words >> word;
    for (double x = 0; words >> x;) each.elements.push_back(x);
    cases.push_back(std::move(each));
  }
  return cases;
}

/// The small integers of make.py.
Tensor numbers(const Shape& shape, std::int64_t factor, std::int64_t modulus) {
  Tensor tensor({DType::kF32, shape, std::nullopt});
  std::int64_t i = 0;
  for (float& x : tensor.mutable_data<float>()) x = static_cast<float>((i++ * factor + 3) % modulus - modulus / 2);
  return tensor;
}

/// A graph under construction and the tensors of its inputs.
struct Room {
  Graph graph{"compose"};
  std::vector<Tensor> inputs;

  Value* input(const std::string& name, Tensor tensor) {
    Value* value = graph.add_input(name, tensor.type());
    inputs.push_back(std::move(tensor));
    return value;
  }
  Builder builder() { return {graph, "y", {}, nullptr}; }
};

Result<Value*> build(const Case& each, Room& room, bool computed) {
  Builder builder = room.builder();
  Value* x = room.input("x", numbers(each.get("in"), 7, 11));
  if (each.op == "conv") {
    const ConvSpec spec = {each.get("stride"),
                           each.get("pad"),
                           each.get("pad"),
                           each.get("dilation"),
                           each.get("output_padding"),
                           each.number("group"),
                           each.number("transposed") != 0};
    const Tensor weight = numbers(each.get("weight"), 5, 7);
    Value* w = computed ? room.input("w", weight) : room.graph.add_constant("w", weight);
    Value* b = each.number("bias") != 0 ? room.graph.add_constant("b", numbers({each.shape[1]}, 3, 5)) : nullptr;
    return compose::conv(builder, x, w, b, spec);
  }
  if (each.op.rfind("adaptive_", 0) == 0) {
    return compose::adaptive_pool(builder, x, each.op == "adaptive_max" ? PoolKind::kMax : PoolKind::kAverage,
                                  each.get("out"));
  }
  PoolSpec spec;
  spec.kind = each.op == "max" ? PoolKind::kMax : PoolKind::kAverage;
  spec.kernel = each.get("kernel");
  spec.stride = each.get("stride");
  spec.pad_begin = spec.pad_end = each.get("pad");
  spec.dilation = each.get("dilation");
  spec.ceil_mode = each.number("ceil") != 0;
  if (each.op == "avg") {
    spec.count_include_pad = each.number("count") != 0;
    spec.divisor = each.number("divisor");
  }
  return compose::pool(builder, x, spec);
}

std::vector<float> run(Room& room, Value* result) {
  room.graph.set_outputs({result});
  const Status valid = verify(room.graph);
  EXPECT_TRUE(valid) << valid.error().summary();
  const auto outputs = run_once(room.graph, room.inputs);
  EXPECT_TRUE(outputs) << outputs.error().summary();
  return outputs ? to_floats(outputs->front()) : std::vector<float>{};
}

void check(const Case& each, bool computed) {
  SCOPED_TRACE(each.text + (computed ? " (computed weights)" : ""));
  Room room;
  const auto result = build(each, room, computed);
  ASSERT_TRUE(result) << result.error().summary();
  ASSERT_EQ((*result)->type.shape, each.shape);
  EXPECT_EQ((*result)->name, "y");
  const std::vector<float> got = run(room, *result);
  ASSERT_EQ(got.size(), each.elements.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), each.elements[i], 2e-6 * std::fabs(each.elements[i]) + 2e-6) << i;
  }
}

TEST(Compose, WindowsAgreeWithPyTorch) {
  register_all_ops();
  const auto cases = read_cases();
  ASSERT_GE(cases.size(), 400U);
  for (const Case& each : cases) {
    check(each, false);
    if (each.op == "conv") check(each, true);
  }
}

std::vector<float> pooled(const PoolSpec& spec, const Shape& shape, Shape* result_shape = nullptr) {
  register_all_ops();
  Room room;
  Builder builder = room.builder();
  const auto result = compose::pool(builder, room.input("x", numbers(shape, 7, 11)), spec);
  EXPECT_TRUE(result) << result.error().summary();
  if (!result) return {};
  if (result_shape != nullptr) *result_shape = (*result)->type.shape;
  return run(room, *result);
}

// x = -2 5 1 -3 4: what onnxruntime 1.32 gives for AveragePool with pads 0 and 1 and ceil_mode.
TEST(Compose, MeanCountsPaddingButNotWhatLiesBehindIt) {
  PoolSpec spec;
  spec.kind = PoolKind::kAverage;
  spec.kernel = {3};
  spec.stride = {2};
  spec.pad_end = {1};
  spec.ceil_mode = true;
  EXPECT_EQ(pooled(spec, {1, 1, 5}), (std::vector<float>{4.0F / 3, 2.0F / 3, 4}));
  spec.count_include_pad = true;
  EXPECT_EQ(pooled(spec, {1, 1, 5}), (std::vector<float>{4.0F / 3, 2.0F / 3, 2}));
}

TEST(Compose, LastWindowIsDroppedOrKept) {
  PoolSpec spec;
  spec.kernel = {2};
  spec.stride = {3};
  spec.pad_begin = spec.pad_end = {1};
  spec.ceil_mode = true;
  EXPECT_EQ(pooled(spec, {1, 1, 5}), (std::vector<float>{-2, 1}));
  spec.keeps_last_window = true;
  EXPECT_EQ(pooled(spec, {1, 1, 5}), (std::vector<float>{-2, 1, -INFINITY}));
}

TEST(Compose, NormsAreSumsOfPowers) {
  PoolSpec spec;
  spec.kind = PoolKind::kLp;
  spec.kernel = {2};
  spec.stride = {2};
  spec.pad_begin = spec.pad_end = {1};
  spec.ceil_mode = true;
  for (const std::int64_t p : {1, 2, 3}) {
    spec.p = p;
    const std::vector<float> got = pooled(spec, {1, 1, 5});
    const auto norm = [p](double a, double b) {
      const auto power = static_cast<double>(p);
      return std::pow(std::pow(a, power) + std::pow(b, power), 1 / power);
    };
    const double want[] = {norm(0, 2), norm(5, 1), norm(3, 4)};
    ASSERT_EQ(got.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(static_cast<double>(got[i]), want[i], 1e-5) << "p " << p;
  }
}

TEST(Compose, GlobalPoolsKeepTheAxes) {
  register_all_ops();
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{2, 3, 4, 5}, Shape{2, 3, 4, 5, 2}}) {
    for (const PoolKind kind : {PoolKind::kMax, PoolKind::kAverage, PoolKind::kLp}) {
      Room room;
      Builder builder = room.builder();
      const Tensor x = numbers(shape, 7, 11);
      const auto result = compose::global_pool(builder, room.input("x", x), kind);
      ASSERT_TRUE(result) << result.error().summary();
      Shape wanted(shape.size(), 1);
      wanted[0] = 2;
      wanted[1] = 3;
      EXPECT_EQ((*result)->type.shape, wanted);
      const std::vector<float> got = run(room, *result);
      const std::size_t area = static_cast<std::size_t>(x.count()) / 6;
      for (std::size_t c = 0; c < got.size(); ++c) {
        double best = -INFINITY;
        double sum = 0;
        double squares = 0;
        for (std::size_t i = 0; i < area; ++i) {
          const double value = x.real(static_cast<std::int64_t>(c * area + i));
          best = std::max(best, value);
          sum += value;
          squares += value * value;
        }
        const double want = kind == PoolKind::kMax       ? best
                            : kind == PoolKind::kAverage ? sum / static_cast<double>(area)
                                                         : std::sqrt(squares);
        EXPECT_NEAR(static_cast<double>(got[c]), want, 1e-5);
      }
    }
  }
}

/// One row and one channel: y[i] = sum of w[k] x[..], with everything outside 0.
std::vector<float> convolved(const ConvSpec& spec, Shape* shape) {
  register_all_ops();
  Room room;
  Builder builder = room.builder();
  Value* x = room.input("x", numbers({1, 1, 5}, 7, 11));              // -2 5 1 -3 4
  Value* w = room.graph.add_constant("w", numbers({1, 1, 2}, 5, 7));  // 0 -2
  Value* b = room.graph.add_constant("b", numbers({1}, 3, 5));        // 1
  const auto result = compose::conv(builder, x, w, b, spec);
  EXPECT_TRUE(result) << result.error().summary();
  if (!result) return {};
  *shape = (*result)->type.shape;
  return run(room, *result);
}

TEST(Compose, NegativePaddingCrops) {
  ConvSpec spec;
  spec.pad_begin = {-1};
  spec.pad_end = {1};
  Shape shape;
  EXPECT_EQ(convolved(spec, &shape), (std::vector<float>{-1, 7, -7, 1}));
  EXPECT_EQ(shape, (Shape{1, 1, 4}));
  spec.transposed = true;
  spec.pad_end = {-2};
  EXPECT_EQ(convolved(spec, &shape), (std::vector<float>{1, 1, 5, -9, -1, 7, -7, 1, 1}));
}

TEST(Compose, RefusesWhatCannotBe) {
  register_all_ops();
  Room room;
  Builder builder = room.builder();
  Value* x = room.input("x", numbers({1, 2, 5, 5}, 7, 11));
  Value* w = room.graph.add_constant("w", numbers({2, 2, 3, 3}, 5, 7));
  ConvSpec spec;
  spec.stride = {1, 2, 3};
  EXPECT_FALSE(compose::conv(builder, x, w, nullptr, spec));
  spec.stride = {0};
  EXPECT_FALSE(compose::conv(builder, x, w, nullptr, spec));
  spec.stride = {1};
  spec.group = 3;
  EXPECT_FALSE(compose::conv(builder, x, w, nullptr, spec));
  PoolSpec pool;
  EXPECT_FALSE(compose::pool(builder, x, pool));
  pool.kernel = {9, 9};
  EXPECT_FALSE(compose::pool(builder, x, pool));
  pool.kernel = {2, 2};
  pool.pad_begin = {-6, 0};
  EXPECT_FALSE(compose::pool(builder, x, pool));
  EXPECT_FALSE(compose::adaptive_pool(builder, x, PoolKind::kAverage, {0, 1}));
  EXPECT_FALSE(compose::adaptive_pool(builder, x, PoolKind::kAverage, {1 << 30, 1}));
}

}  // namespace
}  // namespace htpipe
