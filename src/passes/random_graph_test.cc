// Random networks through the default passes: after each pass that changed something, the graph still computes the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "exec/program.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace htpipe {
namespace {

constexpr double kTolerance = 2e-5;  // of the largest output

using IntList = std::vector<std::int64_t>;

/// Grows a graph node by node; every choice comes from the seed.
class RandomNetwork {
 public:
  explicit RandomNetwork(unsigned seed) : generator_(seed), graph_("random") {
    const std::int64_t channels = pick({1, 2, 3, 4});
    values_.push_back(
        graph_.add_input("x", {DType::kF32, {pick({1, 2}), channels, pick({4, 5}), pick({1, 3, 4})}, {}}));
    for (int i = 0; i < 14; ++i) grow();
    finish();
  }

  Graph take() { return std::move(graph_); }

  std::vector<Tensor> inputs() {
    std::vector<Tensor> tensors;
    for (const Value* input : graph_.inputs()) tensors.push_back(tensor(input->type.shape, 2));
    return tensors;
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(generator_()) % limit; }
  std::int64_t pick(const std::vector<std::int64_t>& from) { return from[below(from.size())]; }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }

  Tensor tensor(const Shape& shape, double reach) {
    Tensor result({DType::kF32, shape, {}});
    for (float& x : result.mutable_data<float>()) {
      x = static_cast<float>((static_cast<double>(generator_()) / 2147483648.0 - 1.0) * reach);
    }
    return result;
  }
  Value* constant(const Shape& shape, double reach) { return graph_.add_constant("k", tensor(shape, reach)); }

  /// Mostly one of the newest values, so that the graph gets deep.
  Value* any_value() {
    return values_[values_.size() - 1 - below(std::min<std::size_t>(values_.size(), chance(3) ? 6 : 2))];
  }

  void add(const char* op, Attributes attributes, std::vector<Value*> operands) {
    const auto node = graph_.add_node(op, "v", std::move(attributes), std::move(operands),
                                      {"layer" + std::to_string(values_.size()), ""});
    // A window that does not fit and the like: the rule refuses, and the network grows elsewhere.
    if (node && (*node)->result()->type.count() <= 4096) {
      values_.push_back((*node)->result());
    } else if (node) {
      graph_.erase(*node);
    }
  }

  void grow() {
    Value* x = any_value();
    const Shape shape = x->type.shape;
    if (shape.size() == 4 && chance(2)) {
      spatial(x, shape);
      return;
    }
    switch (below(8)) {
      case 0:
      case 1:
        add("ElementWiseNeuron", {{"operation", std::string(chance(2) ? "relu" : "relu_min_max")}}, {x});
        break;
      case 2:
        add("ElementWiseNeuron", {{"operation", std::string("tanh")}}, {x});
        break;
      case 3:
        add("ElementWiseBinary", {{"operation", operation()}}, {x, partner(x)});
        break;
      case 4:
        add("ElementWiseBinary", {{"operation", operation()}}, {x, broadcast_constant(shape)});
        break;
      case 5:
        add("Concat", {{"axis", static_cast<std::int64_t>(below(shape.size()))}}, {x, partner(x)});
        break;
      case 6:
        permuted(x, shape);
        break;
      default:
        reshaped(x, shape);
        break;
    }
  }

  void spatial(Value* x, const Shape& shape) {
    const std::int64_t channels = shape[1];
    const IntList stride = {pick({1, 1, 2}), pick({1, 1, 2})};
    const IntList pad = {pick({0, 1}), pick({0, 1}), pick({0, 1}), pick({0, 1})};
    const IntList window = {pick({1, 2, 3}), pick({1, 2, 3})};
    switch (below(5)) {
      case 0:
      case 1: {
        const std::int64_t group = channels % 2 == 0 && chance(3) ? 2 : 1;
        const std::int64_t out = group * pick({1, 2, 3});
        Value* bias = chance(2) ? constant({out}, 1) : nullptr;
        add("Conv2d", {{"stride", stride}, {"pad_amount", pad}, {"group", group}},
            {x, constant({out, channels / group, window[0], window[1]}, 1), bias});
        break;
      }
      case 2: {
        const std::int64_t out = channels * pick({1, 2});
        Value* bias = chance(2) ? constant({out}, 1) : nullptr;
        add("DepthWiseConv2d", {{"stride", stride}, {"pad_amount", pad}},
            {x, constant({out, 1, window[0], window[1]}, 1), bias});
        break;
      }
      case 3:
        add("Batchnorm", {}, {x, constant({channels}, 2), constant({channels}, 1)});
        break;
      default: {
        const IntList inner_pad = {0, std::min(pad[1], window[0] - 1), 0, std::min(pad[3], window[1] - 1)};
        add(chance(2) ? "PoolMax2d" : "PoolAvg2d",
            {{"filter_size", window}, {"stride", stride}, {"pad_amount", inner_pad}}, {x});
        break;
      }
    }
  }

  std::string operation() {
    const char* const names[] = {"add", "subtract", "multiply", "maximum"};
    return names[below(4)];
  }

  /// Another value of the same shape, or the value itself.
  Value* partner(Value* x) {
    std::vector<Value*> fitting;
    for (Value* value : values_) {
      if (value->type.shape == x->type.shape) fitting.push_back(value);
    }
    return fitting[below(fitting.size())];
  }

  Value* broadcast_constant(const Shape& shape) {
    Shape small(shape.begin() + static_cast<std::ptrdiff_t>(below(shape.size() + 1)), shape.end());
    for (std::int64_t& dimension : small) {
      if (chance(3)) dimension = 1;
    }
    return constant(small, 1.5);
  }

  void permuted(Value* x, const Shape& shape) {
    IntList perm(shape.size());
    for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<std::int64_t>(i);
    if (perm.size() == 4 && chance(2)) {
      perm = chance(2) ? IntList{0, 2, 3, 1} : IntList{0, 3, 1, 2};
    } else {
      std::shuffle(perm.begin(), perm.end(), generator_);
    }
    add("Transpose", {{"perm", perm}}, {x});
  }

  void reshaped(Value* x, const Shape& shape) {
    if (shape.size() == 2) {
      Value* bias = chance(2) ? constant({3}, 1) : nullptr;
      add("FullyConnected", {}, {x, constant({3, shape[1]}, 1), bias});
      if (chance(2))
        add("Batchnorm", {},
            {values_.back(), constant({values_.back()->type.shape.back()}, 1),
             constant({values_.back()->type.shape.back()}, 1)});
      return;
    }
    const std::int64_t count = element_count(shape);
    const IntList forms[] = {{shape[0], -1}, {1, shape[0], -1, 1}, {1, count, 1, 1}, shape};
    add("Reshape", {{"shape", forms[below(4)]}}, {x});
  }

  /// What nobody uses becomes an output (the first three of it), now and then an inner value too.
  void finish() {
    std::vector<Value*> outputs;
    for (auto at = values_.rbegin(); at != values_.rend(); ++at) {
      const bool wanted = (*at)->users.empty() || chance(12);
      if (wanted && (*at)->producer != nullptr && outputs.size() < 3) outputs.push_back(*at);
    }
    graph_.set_outputs(std::move(outputs));
  }

  std::mt19937 generator_;
  Graph graph_;
  std::vector<Value*> values_;
};

Status same_results(const std::vector<Tensor>& wanted, const Graph& graph, const std::vector<Tensor>& inputs) {
  HTPIPE_TRY(const std::vector<Tensor> found, run_once(graph, inputs));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto a = to_floats(wanted[i]);
    const auto b = to_floats(found[i]);
    if (a.size() != b.size()) return fail(Code::kPassChangedResult, "another number of elements");
    double largest = 1e-3;
    double worst = 0;
    for (std::size_t j = 0; j < a.size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(a[j])));
      worst = std::max(worst, std::abs(static_cast<double>(a[j]) - static_cast<double>(b[j])));
    }
    if (!(worst <= kTolerance * largest)) {
      return fail(Error(Code::kPassChangedResult, std::to_string(worst) + " of " + std::to_string(largest))
                      .at_node(graph.outputs()[i]->name));
    }
  }
  return {};
}

TEST(RandomGraph, PassesKeepTheResults) {
  register_all_ops();
  int rewrites = 0;
  int transposes_before = 0;
  int transposes_after = 0;
  const auto count_transposes = [](const Graph& graph) {
    return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                          [](const auto& node) { return node->is("Transpose"); }));
  };
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    RandomNetwork network(seed);
    const std::vector<Tensor> inputs = network.inputs();
    Graph graph = network.take();
    if (graph.outputs().empty()) continue;
    const std::string text = print(graph);
    const auto wanted = run_once(graph, inputs);
    ASSERT_TRUE(wanted) << wanted.error().summary() << "\n" << text;
    transposes_before += count_transposes(graph);

    PassOptions options;
    options.check = [&](const Graph& now, std::string_view) { return same_results(*wanted, now, inputs); };
    const auto records = run_passes(graph, options);
    ASSERT_TRUE(records) << "seed " << seed << ": " << records.error().summary() << "\n" << text << print(graph);
    for (const PassRecord& record : *records) rewrites += record.rewrites;
    transposes_after += count_transposes(graph);

    const std::string once = print(graph);
    const auto again = run_passes(graph, options);
    ASSERT_TRUE(again) << again.error().summary();
    EXPECT_EQ(print(graph), once) << "seed " << seed << " does not settle\n" << text;
  }
  EXPECT_GT(rewrites, 1500) << "the networks exercise nothing";
  RecordProperty("rewrites", rewrites);
  RecordProperty("transposes_before", transposes_before);
  RecordProperty("transposes_after", transposes_after);
}

}  // namespace
}  // namespace htpipe
