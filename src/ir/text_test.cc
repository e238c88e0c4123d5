// The text form: canonical printing, and errors with their line.
#include "ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/hash.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

using testing::HasSubstr;

class Text : public testing::Test {
 protected:
  static void SetUpTestSuite() { register_all_ops(); }

  static std::string reprint(const std::string& text) {
    const auto graph = parse_graph(text);
    return graph ? print(*graph) : graph.error().summary();
  }
  static Error error_of(const std::string& text) {
    const auto graph = parse_graph(text);
    EXPECT_FALSE(graph) << "accepted:\n" << text;
    return graph ? Error(Code::kBug, "accepted") : graph.error();
  }
};

TEST_F(Text, CanonicalForm) {
  // Spaces, comments, the order of attributes and of constants, defaults and trailing absent operands do not matter.
  EXPECT_EQ(reprint(R"(# a comment
    graph @tiny ( %x :f32[1,1,3,3] )->(%y){ # another
      %late = const f32[1] [ 2.50 ]
      %w = const f32[1,1,2,2] splat 0.5
      %c = Conv2d(%x,%w,_) {stride=[1,1], group=1, activation="relu",
                            pad_amount=[1,0,0,0]} @ "features.0" line "net.py:7"
      %y = ElementWiseBinary(%c, %late) {operation="multiply"} : f32[1,1,3,2]
    })"),
            R"(graph @tiny(%x: f32[1,1,3,3]) -> (%y) {
  %w = const f32[1,1,2,2] [0.5,0.5,0.5,0.5]
  %c = Conv2d(%x, %w) {activation="relu", pad_amount=[1,0,0,0]} : f32[1,1,3,2] @ "features.0" line "net.py:7"
  %late = const f32[1] [2.5]
  %y = ElementWiseBinary(%c, %late) {operation="multiply"} : f32[1,1,3,2]
}
)");
}

TEST_F(Text, EncodingsAreTypes) {
  const std::string text =
      R"(graph @q(%x: u8<scale 0.02, zero 128>[1,2]) -> (%y, %k) {
  %y = Reshape(%x) {shape=[2,1]} : u8<scale 0.02, zero 128>[2,1]
  %k = const i8<axis 0, scales [0.5,0.25], zeros [0,1], bits 4>[2,1] [-8,7]
}
)";
  EXPECT_EQ(reprint(text), text);
}

TEST_F(Text, ExtremeNumbersKeepTheirValue) {
  const std::string text =
      R"(graph @n(%x: f32[1]) -> (%f, %i, %d, %b, %u) {
  %f = const f32[6] [inf,-inf,nan,-0,1e-45,3.4028235e+38]
  %i = const i64[2] [9223372036854775807,-9223372036854775808]
  %d = const f64[2] [0.1,1e+300]
  %b = const bool[2] [0,1]
  %u = const u32[1] [4294967295]
}
)";
  EXPECT_EQ(reprint(text), text);
}

TEST_F(Text, OddNamesAndLayersAreQuoted) {
  Graph graph("g");
  Value* x = graph.add_input("data/0:in", {DType::kF32, {2}, {}});
  const auto node = graph.add_node("ElementWiseNeuron", "a \"b\"\n\\", {{"operation", std::string("tanh")}}, {x},
                                   {"module[\"k\"]", "C:\\net.py:1"});
  ASSERT_TRUE(node);
  graph.set_outputs({(*node)->result()});
  const std::string text = print(graph);
  EXPECT_THAT(text, HasSubstr("%\"data/0:in\": f32[2]"));
  const auto again = parse_graph(text);
  ASSERT_TRUE(again) << again.error().summary() << "\n" << text;
  EXPECT_EQ(print(*again), text);
  EXPECT_EQ(again->nodes().front()->name(), "a \"b\"\n\\");
  EXPECT_EQ(again->nodes().front()->source.layer, "module[\"k\"]");
  EXPECT_EQ(again->nodes().front()->source.line, "C:\\net.py:1");
}

TEST_F(Text, LargeConstantsAreTakenByDigest) {
  const auto graph = parse_graph(R"(graph @g(%x: f32[20]) -> (%y) {
    %k = const f32[20] random 1
    %y = ElementWiseBinary(%x, %k) {operation="add"}
  })");
  ASSERT_TRUE(graph);
  const std::string text = print(*graph);
  const Tensor& constant = graph->find_value("k")->constant;
  EXPECT_THAT(text, HasSubstr("%k = const f32[20] sha " + sha256_hex(constant.bytes()).substr(0, 16)));
  EXPECT_EQ(error_of(text).code, Code::kGraphSyntax);
  // A source of bytes that answers with the wrong size is refused.
  const auto wrong =
      parse_graph(text, [](std::string_view, const TensorType&) { return Tensor({DType::kF32, {19}, {}}); });
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kGraphSyntax);
}

struct Fault {
  std::string text;
  Code code;
  int line;
  std::string says;
};

TEST_F(Text, ErrorsNameLineAndReason) {
  const std::string head = "graph @g(%x: f32[2,2]) -> (%y) {\n";
  const std::vector<Fault> faults = {
      {"", Code::kGraphSyntax, 1, "expected 'graph'"},
      {"graph @g(%x: f31[2]) -> (%x) {}", Code::kGraphSyntax, 1, "f31"},
      {"graph @g(%x: f32[2], %x: f32[2]) -> (%x) {}", Code::kGraphSyntax, 1, "%x is defined twice"},
      {"graph @g(%x: f32[-1]) -> (%x) {}", Code::kGraphSyntax, 1, "absurd"},
      {"graph @g(%x: f32[0,4611686018427387904,4]) -> (%x) {}", Code::kGraphSyntax, 1, "absurd"},
      {"graph @g(%x: f32[99999999999999999999]) -> (%x) {}", Code::kGraphSyntax, 1, "no integer"},
      {head + "}", Code::kGraphSyntax, 2, "%y is not defined"},
      {head + "\n  %y = Nonsense(%x)\n}", Code::kUnsupportedOp, 3, "Nonsense"},
      {head + "  %y = Reshape(%z) {shape=[4]}\n}", Code::kGraphSyntax, 2, "%z is not defined"},
      {head + "  %y = Reshape(%x) {shape=[5]}\n}", Code::kShapeMismatch, 2, "[5]"},
      {head + "  %y = Reshape(%x) {form=[4]}\n}", Code::kUnsupportedForm, 2, "shape"},
      {head + "  %y = Reshape(%x, %x) {shape=[4]}\n}", Code::kUnsupportedForm, 2, "1 operands"},
      {head + "  %y = Reshape(_) {shape=[4]}\n}", Code::kUnsupportedForm, 2, "input"},
      {head + "  %y = Concat() {axis=0}\n}", Code::kUnsupportedForm, 2, "inputs"},
      {head + "  %y, %z = Reshape(%x) {shape=[4]}\n}", Code::kGraphSyntax, 2, "1 results"},
      {head + "  %y, %y = Reshape(%x) {shape=[4]}\n}", Code::kGraphSyntax, 2, "%y is defined twice"},
      {head + "  %x = Reshape(%x) {shape=[4]}\n}", Code::kGraphSyntax, 2, "%x is defined twice"},
      {head + "  %y = const f32[2] [1]\n}", Code::kGraphSyntax, 2, "too few"},
      {head + "  %y = const f32[2] [1,2,3]\n}", Code::kGraphSyntax, 2, "too many"},
      {head + "  %y = const f32[1] [1e39]\n}", Code::kGraphSyntax, 2, "out of range"},
      {head + "  %y = const u8[1] [-1]\n}", Code::kGraphSyntax, 2, "out of range for u8"},
      {head + "  %y = const i8[1] [128]\n}", Code::kGraphSyntax, 2, "out of range for i8"},
      {head + "  %y = const bool[1] [2]\n}", Code::kGraphSyntax, 2, "out of range"},
      {head + "  %y = const i32[1] [1.5]\n}", Code::kGraphSyntax, 2, "no integer"},
      {head + "  %y = const f32[4000000000] [1]\n}", Code::kGraphSyntax, 2, "too few"},
      {head + "  %y = const f32[4000000000] splat 1\n}", Code::kGraphSyntax, 2, "too large"},
      {head + "  %y = Reshape(%x) {shape=[4]} @ \"layer\n}", Code::kGraphSyntax, 3, "does not end"},
      {head + "  %y = Reshape(%x) {shape=[1,2f]}\n}", Code::kGraphSyntax, 2, "mixes"},
      {head + "  %y = Reshape(%x) {shape=[4]}\n} more", Code::kGraphSyntax, 3, "text after the graph"},
  };
  for (const Fault& fault : faults) {
    const Error error = error_of(fault.text);
    EXPECT_EQ(word(error.code), word(fault.code)) << fault.text;
    EXPECT_EQ(error.place.line, fault.line) << fault.text << "\n" << error.summary();
    EXPECT_THAT(error.summary(), HasSubstr(fault.says)) << fault.text;
  }
}

TEST_F(Text, RulesAreCheckedAtTheNode) {
  const std::string head = "graph @g(%x: f32[2,2]) -> (%y) {\n  ";
  const std::vector<Fault> faults = {
      {head + "%y = Reshape(%x) {shape=[4]} : f32[2,2]\n}", Code::kGraphInvalid, 0, "f32[4]"},
      {head + "%y = Reshape(%x) {shape=[4]} : f32<scale 0.5, zero 0>[4]\n}", Code::kGraphInvalid, 0, "no integer"},
      {head + "%y = const i8<scale -1, zero 0>[1] [1]\n}", Code::kGraphInvalid, 0, "positive"},
      {head + "%y = const i8<scale nan, zero 0>[1] [1]\n}", Code::kGraphInvalid, 0, "positive"},
      {head + "%y = const i8<axis 0, scales [1,2], zeros [0,0]>[1] [1]\n}", Code::kGraphInvalid, 0, "number of scales"},
      {head + "%y = const i8<axis 3, scales [1], zeros [0]>[1] [1]\n}", Code::kGraphInvalid, 0, "axis"},
      {head + "%y = const i8<scale 1, zero 0, bits 9>[1] [1]\n}", Code::kGraphInvalid, 0, "bits"},
  };
  for (const Fault& fault : faults) {
    const Error error = error_of(fault.text);
    EXPECT_EQ(word(error.code), word(fault.code)) << fault.text;
    EXPECT_EQ(error.place.node, "y") << fault.text;
    EXPECT_THAT(error.message, HasSubstr(fault.says)) << fault.text;
  }
}

TEST_F(Text, ResultsTooLargeToCountAreRefused) {
  // 2^31 images times 2^31 output channels: each operand can be stored, the result cannot be counted in bytes.
  const Error error = error_of(R"(graph @g(%x: f32[2147483648,1,1,1], %w: f32[2147483648,1,1,1]) -> (%y) {
    %y = Conv2d(%x, %w)
  })");
  EXPECT_EQ(error.code, Code::kShapeMismatch);
  EXPECT_THAT(error.message, HasSubstr("absurdly large"));
}

}  // namespace
}  // namespace htpipe
