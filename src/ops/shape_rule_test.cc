// The operators' shape rules against the shapes that PyTorch computes (tests/data/ops/torch_shapes.txt), in both
// layouts.
#include <gtest/gtest.h>

#include <charconv>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/io.h"
#include "ir/graph.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

using IntList = std::vector<std::int64_t>;

struct Case {
  std::string text;
  std::string op;
  std::map<std::string, IntList> arguments;
  std::string result;  ///< "1,2,3" or "error"
};

IntList integers(const std::string& text) {
  IntList values;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    EXPECT_TRUE(error == std::errc{} && end == part.data() + part.size()) << text;
    values.push_back(value);
  }
  return values;
}

std::vector<Case> read_cases() {
  const auto text = read_text(HTPIPE_SOURCE_DIR "/tests/data/ops/torch_shapes.txt");
  EXPECT_TRUE(text);
  std::vector<Case> cases;
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    Case each{line, {}, {}, {}};
    std::istringstream words(line);
    words >> each.op;
    for (std::string word; words >> word && word != "->";) {
      const std::size_t equals = word.find('=');
      each.arguments[word.substr(0, equals)] = integers(word.substr(equals + 1));
    }
    words >> each.result;
    cases.push_back(std::move(each));
  }
  return cases;
}

/// A graph of one node, whose result is told as "1,2,3", or "error".
class OneNode {
 public:
  explicit OneNode(bool nhwc) : nhwc_(nhwc) {}

  Value* input(const Shape& shape, bool spatial) {
    return graph_.add_input("x", {DType::kF32, spatial && nhwc_ ? permute(shape, {0, 2, 3, 1}) : shape, {}});
  }
  Value* weight(const Shape& shape) {
    return graph_.add_input("w", {DType::kF32, nhwc_ ? permute(shape, {2, 3, 1, 0}) : shape, {}});
  }
  std::string run(const char* op, Attributes attributes, std::vector<Value*> operands, bool spatial) {
    if (spatial && nhwc_) attributes.set("data_layout", std::string("nhwc"));
    const auto node = graph_.add_node(op, "y", std::move(attributes), std::move(operands));
    if (!node) return "error";
    Shape shape = (*node)->result()->type.shape;
    if (spatial && nhwc_) shape = permute(shape, {0, 3, 1, 2});
    std::string text = to_string(shape);
    return text.substr(1, text.size() - 2);
  }

 private:
  bool nhwc_;
  Graph graph_{"one"};
};

IntList both_sides(const IntList& pad) { return {pad[0], pad[0], pad[1], pad[1]}; }

std::string shape_of(const Case& each, bool nhwc) {
  OneNode node(nhwc);
  const auto get = [&each](const char* name) { return each.arguments.at(name); };
  if (each.op == "conv") {
    const Attributes attributes = {{"stride", get("stride")},
                                   {"pad_amount", both_sides(get("pad"))},
                                   {"dilation", get("dilation")},
                                   {"group", get("group")[0]}};
    Value* x = node.input(get("in"), true);
    return node.run("Conv2d", attributes, {x, node.weight(get("weight"))}, true);
  }
  if (each.op == "max" || each.op == "avg") {
    const Attributes attributes = {{"stride", get("stride")},
                                   {"pad_amount", both_sides(get("pad"))},
                                   {"filter_size", get("window")},
                                   {"rounding_mode", std::string(get("ceil")[0] != 0 ? "ceil" : "floor")}};
    return node.run(each.op == "max" ? "PoolMax2d" : "PoolAvg2d", attributes, {node.input(get("in"), true)}, true);
  }
  if (each.op == "binary") {
    Value* a = node.input(get("a"), false);
    return node.run("ElementWiseBinary", {{"operation", std::string("add")}}, {a, node.input(get("b"), false)}, false);
  }
  if (each.op == "linear") {
    Value* x = node.input(get("in"), false);
    return node.run("FullyConnected", {{"keep_dims", true}}, {x, node.input(get("weight"), false)}, false);
  }
  if (each.op == "concat") {
    Value* a = node.input(get("a"), false);
    return node.run("Concat", {{"axis", get("axis")[0]}}, {a, node.input(get("b"), false)}, false);
  }
  if (each.op == "transpose")
    return node.run("Transpose", {{"perm", get("perm")}}, {node.input(get("in"), false)}, false);
  if (each.op == "reshape")
    return node.run("Reshape", {{"shape", get("shape")}}, {node.input(get("in"), false)}, false);
  return "no such operator";
}

TEST(ShapeRule, AgreesWithPyTorch) {
  register_all_ops();
  const auto cases = read_cases();
  ASSERT_GE(cases.size(), 500U);
  for (const Case& each : cases) EXPECT_EQ(shape_of(each, false), each.result) << each.text;
}

TEST(ShapeRule, ChannelLastAgreesWithPyTorch) {
  register_all_ops();
  for (const Case& each : read_cases()) {
    if (each.op != "conv" && each.op != "max" && each.op != "avg") continue;
    EXPECT_EQ(shape_of(each, true), each.result) << each.text;
  }
}

}  // namespace
}  // namespace htpipe
