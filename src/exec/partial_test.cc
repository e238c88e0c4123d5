// Execution from a cut, and simulated quantisation: the same bits as a whole run, and no more nodes than needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "exec/program.h"
#include "import/pt2/import.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/driver.h"
#include "quant/quantize.h"

namespace htpipe {
namespace {

Graph parse(const std::string& text) {
  register_all_ops();
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().summary();
  return std::move(*graph);
}

Tensor random_floats(const TensorType& type, std::uint32_t seed) {
  Tensor tensor(type);
  for (float& x : tensor.mutable_data<float>()) {
    seed = seed * 1664525 + 1013904223;
    x = static_cast<float>(seed >> 8) / 8388608.0F - 1;
  }
  return tensor;
}

Graph network() {
  register_all_ops();
  auto graph = import_pt2(HTPIPE_SOURCE_DIR "/examples/fashion_resnet/fashion_resnet.pt2");
  EXPECT_TRUE(graph) << graph.error().summary();
  EXPECT_TRUE(run_passes(*graph));
  return std::move(*graph);
}

/// All values of one run, and the nodes that ran.
struct Values {
  std::map<std::string, Tensor> values;
  std::vector<Tensor> outputs;
};

Values values_of(const Program& program, const std::vector<Tensor>& inputs, int lanes = 1) {
  Program::Workspace workspace(program, lanes);
  Values result;
  auto outputs = program.run(workspace, inputs, [&](const Value& value, const Tensor& tensor) {
    EXPECT_EQ(result.values.count(value.name), 0U) << value.name;
    result.values[value.name] = Tensor::from<std::byte>(tensor.type(), tensor.bytes());
  });
  EXPECT_TRUE(outputs) << outputs.error().summary();
  result.outputs = std::move(*outputs);
  return result;
}

void expect_equal(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const std::string& where) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(got[i].bytes(), want[i].bytes())) << where;
  }
}

TEST(PartialExecution, FromEveryValueGivesTheSameBits) {
  const Graph graph = network();
  const auto program = Program::make(graph, 0);
  ASSERT_TRUE(program);
  const Values whole = values_of(*program, {random_floats(graph.inputs()[0]->type, 7)});
  for (const auto& node : graph.nodes()) {
    const Value* changed = node->result();
    const std::vector<const Value*> given = program->cut_behind(std::vector<const Value*>{changed});
    EXPECT_EQ(given.front(), changed);
    const auto rest = program->starting_at(given);
    ASSERT_TRUE(rest) << rest.error().summary();
    std::vector<Tensor> inputs;
    for (const Value* value : given) inputs.push_back(whole.values.at(value->name));
    const Values part = values_of(*rest, inputs);
    expect_equal(part.outputs, whole.outputs, changed->name);
    // Only what depends on the change runs.
    std::set<const Value*> behind = {changed};
    for (const Node* step : rest->nodes()) {
      EXPECT_TRUE(std::any_of(step->operands.begin(), step->operands.end(),
                              [&](const Value* operand) { return behind.count(operand) != 0; }))
          << step->name() << " behind " << changed->name;
      behind.insert(step->results.begin(), step->results.end());
    }
    EXPECT_EQ(part.values.size(), given.size() + rest->nodes().size());
  }
}

const char* const kBranches = R"(graph @g(%x: f32[1,6], %z: f32[1,6]) -> (%sum, %side) {
  %a = ElementWiseNeuron(%x) {operation="relu"}
  %r = Reshape(%a) {shape=[6,1]}
  %s = Reshape(%r) {shape=[1,6]}
  %l, %h = Split(%s) {axis=1, split_index=[3]}
  %c = Concat(%h, %l) {axis=1}
  %sum = ElementWiseBinary(%c, %a) {operation="add"}
  %side = ElementWiseBinary(%z, %z) {operation="multiply"}
})";

TEST(PartialExecution, AGivenValueIsUsedAndNothingBeforeItRuns) {
  const Graph graph = parse(kBranches);
  const auto program = Program::make(graph, 0);
  ASSERT_TRUE(program) << program.error().summary();
  const Values whole =
      values_of(*program, {random_floats(graph.inputs()[0]->type, 1), random_floats(graph.inputs()[1]->type, 2)});
  // A shape of %a gets other numbers than %a: neither may disturb the other.
  const Value* r = graph.find_value("r");
  const std::vector<const Value*> given = program->cut_behind(std::vector<const Value*>{r});
  std::set<std::string> names;
  for (const Value* value : given) names.insert(value->name);
  EXPECT_EQ(names, (std::set<std::string>{"r", "a", "side"}));
  const auto rest = program->starting_at(given);
  ASSERT_TRUE(rest) << rest.error().summary();
  std::vector<Tensor> inputs;
  for (const Value* value : given) {
    inputs.push_back(value == r ? random_floats(r->type, 9) : whole.values.at(value->name));
  }
  const Values part = values_of(*rest, inputs);
  const std::vector<float> a = to_floats(whole.values.at("a"));
  const std::vector<float> moved = to_floats(inputs.front());
  const std::vector<float> sum = to_floats(part.outputs[0]);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(sum[i], moved[(i + 3) % 6] + a[i]);
  expect_equal({part.outputs[1]}, {whole.outputs[1]}, "side");
}

TEST(PartialExecution, OneOfSeveralResultsMayBeGiven) {
  const Graph graph = parse(kBranches);
  const auto program = Program::make(graph, 0);
  ASSERT_TRUE(program);
  std::vector<const Value*> given;
  for (const char* name : {"x", "z", "h"}) given.push_back(graph.find_value(name));
  const auto rest = program->starting_at(given);
  ASSERT_TRUE(rest) << rest.error().summary();
  const Tensor x = random_floats(given[0]->type, 3);
  const Tensor h = random_floats(given[2]->type, 5);
  const Values part = values_of(*rest, {x, random_floats(given[1]->type, 4), h});
  const std::vector<float> sum = to_floats(part.outputs[0]);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sum[i], h.data<float>()[i] + std::max(x.data<float>()[i], 0.0F));
    EXPECT_EQ(sum[i + 3], std::max(x.data<float>()[i], 0.0F) + std::max(x.data<float>()[i + 3], 0.0F));
  }
}

TEST(PartialExecution, WhatIsNeededAndNotThereIsNamed) {
  const Graph graph = parse(kBranches);
  const auto program = Program::make(graph, 0);
  ASSERT_TRUE(program);
  const auto code = [&](const std::vector<std::string>& names) {
    std::vector<const Value*> given;
    for (const std::string& name : names) given.push_back(graph.find_value(name));
    const auto rest = program->starting_at(given);
    return rest ? "none" : std::string(word(rest.error().code)) + " " + rest.error().place.node;
  };
  EXPECT_EQ(code({"sum", "side"}), "none");
  EXPECT_EQ(code({"sum"}), "usage z");
  EXPECT_EQ(code({"c", "side"}), "usage x");
  EXPECT_EQ(code({"c", "a", "side"}), "none");
}

TEST(Trace, OnlyTheValuesThatAreAskedFor) {
  const Graph graph = parse(kBranches);
  const auto program = Program::make(graph, 0);
  ASSERT_TRUE(program);
  Program::Workspace workspace(*program);
  std::vector<std::string> seen;
  const std::vector<const Value*> wanted = {graph.find_value("c"), graph.find_value("z")};
  ASSERT_TRUE(program->run(
      workspace,
      std::vector<Tensor>{random_floats(graph.inputs()[0]->type, 1), random_floats(graph.inputs()[1]->type, 2)},
      only(wanted, [&](const Value& value, const Tensor&) { seen.push_back(value.name); })));
  EXPECT_EQ(seen, (std::vector<std::string>{"z", "c"}));
}

// ---- simulated quantisation -----------------------------------------------------------------------------------------

float rounded(float x, float scale, std::int32_t zero, float low, float high) {
  const float steps =
      std::nearbyint(std::min(std::max(x / scale, low - static_cast<float>(zero)), high - static_cast<float>(zero)));
  return steps * scale;
}

TEST(Simulation, RoundsLikePlainLoopsForEveryLayoutAndThreadCount) {
  const auto check = [](const Shape& shape, int axis, DType dtype, int bits, float low, float high) {
    const TensorType type{DType::kF32, shape, std::nullopt};
    StoredAs stored{dtype, {}};
    stored.encoding.axis = axis;
    stored.encoding.bits = bits;
    const std::int64_t channels = axis < 0 ? 1 : shape[static_cast<std::size_t>(axis)];
    for (std::int64_t c = 0; c < channels; ++c) {
      stored.encoding.scales.push_back(0.011F + 0.003F * static_cast<float>(c % 7));
      stored.encoding.zero_points.push_back(low < 0 ? 0 : 3 + static_cast<std::int32_t>(axis < 0 ? 0 : c % 5));
    }
    const auto simulation = Simulation::make(type, stored);
    ASSERT_TRUE(simulation) << simulation.error().summary();
    Tensor data = random_floats(type, 17);
    for (float& x : data.mutable_data<float>()) x *= 3;
    const TensorType encoded{dtype, shape, stored.encoding};
    std::vector<float> want;
    for (std::int64_t i = 0; i < data.count(); ++i) {
      const std::size_t c = scale_index(encoded, i);
      want.push_back(rounded(data.data<float>()[static_cast<std::size_t>(i)], stored.encoding.scales[c],
                             stored.encoding.zero_points[c], low, high));
    }
    for (const int lanes : {1, 2, 5}) {
      Tensor copy = Tensor::from<float>(type, data.data<float>());
      simulation->apply(copy.mutable_data<float>().data(), lanes);
      EXPECT_TRUE(std::ranges::equal(copy.data<float>(), want)) << to_string(shape) << " axis " << axis;
    }
    // The same as storing and reading back, but for quotients on the border that float32 rounds and float64 does not.
    const std::vector<float> back = to_floats(quant::store_as(data, encoded));
    std::int64_t different = 0;
    for (std::size_t i = 0; i < want.size(); ++i) different += want[i] == back[i] ? 0 : 1;
    EXPECT_LE(static_cast<double>(different), 1e-4 * static_cast<double>(want.size()));
  };
  check({1, 3, 50, 37}, -1, DType::kU8, 8, 0, 255);
  check({2, 200, 300}, -1, DType::kU16, 16, 0, 65535);
  check({1, 50, 37, 5}, 3, DType::kU8, 8, 0, 255);
  check({64, 30, 48}, 2, DType::kI8, 8, -127, 127);
  check({8, 3, 3, 70}, 0, DType::kI8, 4, -7, 7);
  check({4, 6, 5}, 1, DType::kI8, 8, -127, 127);
  check({7}, 0, DType::kI8, 8, -127, 127);
  check({100}, -1, DType::kI16, 16, -32768, 32767);
}

TEST(Simulation, RefusesWhatItCannotRound) {
  const TensorType floats{DType::kF32, {2, 3}, std::nullopt};
  const auto ok = [](const TensorType& type, const StoredAs& stored) {
    return Simulation::make(type, stored).has_value();
  };
  const Encoding plain = Encoding::per_tensor(0.1F, 0, 8);
  EXPECT_TRUE(ok(floats, {DType::kU8, plain}));
  EXPECT_FALSE(ok({DType::kF16, {2, 3}, std::nullopt}, {DType::kU8, plain}));
  EXPECT_FALSE(ok(floats, {DType::kI32, Encoding::per_tensor(0.1F, 0, 32)}));
  EXPECT_FALSE(ok(floats, {DType::kU8, Encoding::per_tensor(0.1F, 0, 9)}));
  EXPECT_FALSE(ok(floats, {DType::kU8, Encoding::per_tensor(0.0F, 0, 8)}));
  EXPECT_FALSE(ok(floats, {DType::kU8, {{0.1F, 0.1F}, {0, 0}, 1, 8}}));
  EXPECT_FALSE(ok(floats, {DType::kU8, {{0.1F}, {0}, 2, 8}}));
}

/// Every value of the network, weights too, rounded: as a run of single nodes on rounded values gives it.
TEST(Simulation, OfAWholeNetwork) {
  const Graph graph = network();
  ProgramOptions options;
  for (const auto& value : graph.values()) {
    StoredAs stored{DType::kU8, Encoding::per_tensor(0.02F, 128, 8)};
    if (value->is_constant()) {
      stored = {DType::kI8, {}};
      stored.encoding.axis = static_cast<int>(value->type.shape.size()) - 1;
      const auto channels = static_cast<std::size_t>(value->type.shape.back());
      stored.encoding.scales.assign(channels, 0.004F);
      stored.encoding.zero_points.assign(channels, 0);
    }
    options.simulated[value->name] = stored;
  }
  const auto plain = Program::make(graph, 0);
  const auto program = Program::make(graph, options);
  ASSERT_TRUE(program) << program.error().summary();
  const std::vector<Tensor> inputs = {random_floats(graph.inputs()[0]->type, 4)};
  const Values one = values_of(*program, inputs);
  const Values two = values_of(*program, inputs, 3);
  const Values without = values_of(*plain, inputs);
  for (const auto& [name, tensor] : one.values) {
    EXPECT_TRUE(std::ranges::equal(tensor.bytes(), two.values.at(name).bytes())) << name;
    for (const float x : tensor.data<float>()) {
      const float steps = x / 0.02F;
      EXPECT_NEAR(steps, std::nearbyint(steps), 1e-4) << name;
      EXPECT_LE(std::fabs(x), 0.02F * 128.01F);
    }
  }
  EXPECT_FALSE(std::ranges::equal(one.outputs[0].bytes(), without.outputs[0].bytes()));
  // From a cut the rounding goes on.
  const Value* cut = graph.find_value("max_pool2d");
  const auto rest = program->starting_at(std::vector<const Value*>{cut});
  ASSERT_TRUE(rest) << rest.error().summary();
  expect_equal(values_of(*rest, {one.values.at("max_pool2d")}).outputs, one.outputs, "behind the pool");
  // Constants are rounded for this program only.
  const Values again = values_of(*plain, inputs);
  expect_equal(again.outputs, without.outputs, "the plain program");
  options.simulated["nothing"] = {DType::kU8, Encoding::per_tensor(1, 0, 8)};
  const auto unknown = Program::make(graph, options);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kUsage);
}

}  // namespace
}  // namespace htpipe
