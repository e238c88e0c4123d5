// What operators compute against what PyTorch and numpy compute (tests/data/ops/values.txt, make_values.py), in every
// data type, with empty axes, negative indices and negative strides; and what they refuse.
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "base/io.h"
#include "exec/program.h"
#include "ir/text.h"
#include "ops/element.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

/// A graph on one line, its inputs and what it should answer.
struct Case {
  std::string graph;
  std::vector<std::string> inputs;   ///< "f32[2] 1 2"
  std::vector<std::string> results;  ///< likewise
};

std::vector<Case> read_cases() {
  const auto text = read_text(HTPIPE_SOURCE_DIR "/tests/data/ops/values.txt");
  EXPECT_TRUE(text);
  std::vector<Case> cases;
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("graph ", 0) == 0) cases.push_back({line, {}, {}});
    if (line.rfind("in ", 0) == 0) cases.back().inputs.push_back(line.substr(3));
    if (line.rfind("out ", 0) == 0) cases.back().results.push_back(line.substr(4));
  }
  return cases;
}

void put(Tensor& tensor, std::int64_t i, const std::string& word) {
  std::byte* place = tensor.mutable_data<std::byte>().data() + static_cast<std::size_t>(i) * size_of(tensor.dtype());
  ops::Element element{};
  if (is_float(tensor.dtype())) {
    const auto made = ops::element_of(std::strtod(word.c_str(), nullptr), tensor.type());
    ASSERT_TRUE(made);
    element = *made;
  } else {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool truth = word == "True" || word == "False";
    ASSERT_TRUE(truth || (error == std::errc{} && end == word.data() + word.size())) << word;
    if (truth) value = word == "True" ? 1 : 0;
    std::memcpy(element.data(), &value, sizeof(value));
  }
  std::memcpy(place, element.data(), size_of(tensor.dtype()));
}

Tensor tensor_of(const std::string& text) {
  std::istringstream words(text);
  std::string type;
  words >> type;
  const std::size_t bracket = type.find('[');
  const auto dtype = parse_dtype(type.substr(0, bracket));
  EXPECT_TRUE(dtype) << text;
  Shape shape;
  std::istringstream dimensions(type.substr(bracket + 1, type.size() - bracket - 2));
  for (std::string part; std::getline(dimensions, part, ',');) shape.push_back(std::stoll(part));
  Tensor tensor({dtype.value_or(DType::kF32), shape, std::nullopt});
  std::int64_t i = 0;
  for (std::string word; words >> word && i < tensor.count(); ++i) put(tensor, i, word);
  EXPECT_EQ(i, tensor.count()) << text;
  return tensor;
}

std::string text_of(const Tensor& tensor) {
  std::ostringstream text;
  text << to_string(tensor.type());
  for (std::int64_t i = 0; i < tensor.count(); ++i) text << ' ' << tensor.real(i);
  return text.str();
}

/// Equal, but for the last bits of floats.
bool agree(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) return false;
  const double tolerance = !is_float(want.dtype()) ? 0 : want.dtype() == DType::kF16 ? 1e-3 : 1e-6;
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const double a = got.real(i);
    const double b = want.real(i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a != b && !(std::abs(a - b) <= tolerance * std::abs(b))) return false;
  }
  return true;
}

TEST(OperatorValues, AgreeWithPyTorch) {
  register_all_ops();
  const auto cases = read_cases();
  ASSERT_GE(cases.size(), 400U);
  for (const Case& each : cases) {
    const auto graph = parse_graph(each.graph);
    ASSERT_TRUE(graph) << graph.error().summary() << "\n" << each.graph;
    std::vector<Tensor> inputs;
    for (const std::string& input : each.inputs) inputs.push_back(tensor_of(input));
    const auto results = run_once(*graph, inputs);
    ASSERT_TRUE(results) << results.error().summary() << "\n" << each.graph;
    ASSERT_EQ(results->size(), each.results.size());
    for (std::size_t i = 0; i < results->size(); ++i) {
      const Tensor want = tensor_of(each.results[i]);
      EXPECT_TRUE(agree((*results)[i], want))
          << each.graph << "\n  " << text_of((*results)[i]) << "\n  " << text_of(want);
    }
  }
}

Tensor integers(const Shape& shape, std::vector<std::int64_t> values) {
  return Tensor::from<std::int64_t>({DType::kI64, shape, std::nullopt}, values);
}

/// The result of a graph of one node; empty when it fails.
std::vector<double> run(const std::string& text, const std::vector<Tensor>& inputs) {
  register_all_ops();
  const auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().summary();
  if (!graph) return {};
  const auto results = run_once(*graph, inputs);
  EXPECT_TRUE(results) << results.error().summary();
  if (!results) return {};
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < results->front().count(); ++i) numbers.push_back(results->front().real(i));
  return numbers;
}

using Numbers = std::vector<double>;

TEST(OperatorValues, IndicesOutOfRangeReadZeroAndWriteNothing) {
  const Tensor x = integers({3}, {1, 2, 3});
  const Tensor index = integers({4}, {2, 3, -4, INT64_MIN});
  const Tensor updates = integers({4}, {10, 20, 30, 40});
  EXPECT_EQ(run("graph @g(%x: i64[3], %i: i64[4]) -> (%y) { %y = Gather(%x, %i) {axis=0} }", {x, index}),
            (Numbers{3, 0, 0, 0}));
  EXPECT_EQ(run("graph @g(%x: i64[3], %i: i64[4]) -> (%y) { %y = GatherElements(%x, %i) {axis=0} }", {x, index}),
            (Numbers{3, 0, 0, 0}));
  const Tensor column = integers({4, 1}, {2, 3, -4, INT64_MAX});
  EXPECT_EQ(run("graph @g(%x: i64[3], %i: i64[4,1]) -> (%y) { %y = GatherNd(%x, %i) }", {x, column}),
            (Numbers{3, 0, 0, 0}));
  EXPECT_EQ(run("graph @g(%x: i64[3], %i: i64[4], %u: i64[4]) -> (%y) { %y = ScatterElements(%x, %i, %u) {axis=0} }",
                {x, index, updates}),
            (Numbers{1, 2, 10}));
  EXPECT_EQ(run("graph @g(%x: i64[3], %i: i64[4,1], %u: i64[4]) -> (%y) { %y = ScatterNd(%x, %i, %u) }",
                {x, column, updates}),
            (Numbers{1, 2, 10}));
  EXPECT_EQ(
      run("graph @g(%x: i64[2,3], %n: i64[2]) -> (%y) { %y = ReverseSequence(%x, %n) {batch_axis=0, time_axis=1} }",
          {integers({2, 3}, {1, 2, 3, 4, 5, 6}), integers({2}, {99, -5})}),
      (Numbers{3, 2, 1, 4, 5, 6}));
}

TEST(OperatorValues, StoredIntegersMove) {
  register_all_ops();
  const std::string type = "u8<scale 0.5, zero 7>";
  const auto stored = [](const Shape& shape, std::vector<std::uint8_t> values) {
    return Tensor::from<std::uint8_t>({DType::kU8, shape, Encoding::per_tensor(0.5F, 7, 8)}, values);
  };
  const auto codes = [&](const std::string& text, const std::vector<Tensor>& inputs) {
    const auto graph = parse_graph(text);
    EXPECT_TRUE(graph) << graph.error().summary();
    const auto results = run_once(*graph, inputs, 75);
    EXPECT_TRUE(results) << results.error().summary();
    const auto data = results->front().data<std::uint8_t>();
    return std::vector<int>(data.begin(), data.end());
  };
  const std::vector<Tensor> x = {stored({3}, {10, 20, 30})};
  EXPECT_EQ(codes("graph @g(%x: " + type +
                      "[3]) -> (%y) { %y = Pad(%x) {pad_amount=[1,1], pad_constant_value=2f} : " + type + "[5] }",
                  x),
            (std::vector<int>{11, 10, 20, 30, 11}));
  EXPECT_EQ(
      codes("graph @g(%x: " + type + "[3], %i: i64[2]) -> (%y) { %y = Gather(%x, %i) {axis=0} : " + type + "[2] }",
            {x[0], integers({2}, {2, 9})}),
      (std::vector<int>{30, 7}));
  EXPECT_EQ(codes("graph @g(%x: " + type +
                      "[3]) -> (%y) { %y = StridedSlice(%x) {begin=[2], end=[-1], strides=[-2]} : " + type + "[2] }",
                  x),
            (std::vector<int>{30, 10}));
  const auto other = parse_graph("graph @g(%x: " + type +
                                 "[3]) -> (%y) { %y = Tile(%x) {multiples=[2]} : "
                                 "u8<scale 0.25, zero 7>[6] }");
  ASSERT_TRUE(other);
  const auto refused = Program::make(*other, 75);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoFixedRule);
}

TEST(OperatorValues, WrongFormsAreRefused) {
  register_all_ops();
  for (const char* node : {
           "%y = StridedSlice(%x) {begin=[0], end=[1], strides=[1]}",
           "%y = StridedSlice(%x) {begin=[0,0], end=[1,4], strides=[1,1]}",
           "%y = StridedSlice(%x) {begin=[0,0], end=[1,1], strides=[1,0]}",
           "%y = StridedSlice(%x) {begin=[2,0], end=[0,1], strides=[-1,1]}",
           "%y = StridedSlice(%x) {begin=[-1,0], end=[0,1], strides=[1,1]}",
           "%y = StridedSlice(%x) {begin=[1,0], end=[-2,1], strides=[-1,1]}",
           "%y = Split(%x) {axis=2, split_index=[1]}",
           "%y, %z = Split(%x) {axis=1, split_index=[4]}",
           "%y, %z, %w = Split(%x) {axis=1, split_index=[2,1]}",
           "%y = Pad(%x) {pad_amount=[1,1]}",
           "%y = Pad(%x) {pad_amount=[1,1,-1,0]}",
           "%y = Pad(%x) {pad_amount=[0,0,0,0], scheme=\"mirror\"}",
           "%y = Pad(%x) {pad_amount=[4611686018427387904,0,0,0]}",
           "%y = Tile(%x) {multiples=[2]}",
           "%y = Tile(%x) {multiples=[2,-1]}",
           "%y = Tile(%x) {multiples=[4611686018427387904,4611686018427387904]}",
           "%y = Gather(%x, %i) {axis=2}",
           "%y = Gather(%x, %x) {axis=0}",
           "%y = GatherElements(%x, %i) {axis=0}",
           "%y = GatherNd(%x, %i) {batch_dims=1}",
           "%y = ScatterElements(%x, %i, %x) {axis=0}",
           "%y = ScatterNd(%x, %i, %x)",
           "%y = DepthToSpace(%x) {block_size=[2,2]}",
           "%y = DepthToSpace(%c) {block_size=[3,3]}",
           "%y = SpaceToDepth(%c) {block_size=[0,1]}",
           "%y = SpaceToDepth(%c) {block_size=[9223372036854775807,1]}",
           "%y = OneHot(%x) {depth=3, axis=0}",
           "%y = OneHot(%i) {depth=-1, axis=0}",
           "%y = OneHot(%i) {depth=3, axis=2}",
           "%y = OneHot(%i) {depth=3, axis=0, to=\"f31\"}",
           "%y = CumulativeSum(%x) {axis=2}",
           "%y, %z = TopK(%x) {k=4, axis=1}",
           "%y, %z = TopK(%x) {k=-1, axis=1}",
           "%y = Argmax(%x) {axis=-1}",
           "%y = ReduceSum(%x) {axes=[0,0]}",
           "%y = ReduceSum(%x) {axes=[-1]}",
           "%y = ReverseSequence(%x, %i) {batch_axis=0, time_axis=0}",
           "%y = ReverseSequence(%x, %i) {batch_axis=1, time_axis=0}",
       }) {
    const std::string text =
        std::string("graph @g(%x: f32[2,3], %i: i64[2], %c: f32[1,4,4,4]) -> (%y) { ") + node + " }";
    EXPECT_FALSE(parse_graph(text)) << node;
  }
  // An index in a constant is checked when the graph is built.
  EXPECT_FALSE(parse_graph("graph @g(%x: f32[2]) -> (%y) { %i = const i64[1] [2] %y = Gather(%x, %i) {axis=0} }"));
  EXPECT_FALSE(parse_graph("graph @g(%x: f32[2]) -> (%y) { %i = const i64[1,1] [-3] %y = GatherNd(%x, %i) }"));
  EXPECT_FALSE(parse_graph("graph @g(%x: f32[2,2]) -> (%y) { %n = const i64[2] [3,0] %y = ReverseSequence(%x, %n) }"));
  EXPECT_FALSE(parse_graph("graph @g(%x: i64[0]) -> (%y) { %y = ReduceMax(%x) {axes=[0]} }"));
  EXPECT_FALSE(parse_graph("graph @g(%x: f32[0]) -> (%y) { %y = Argmax(%x) {axis=0} }"));
}

}  // namespace
}  // namespace htpipe
