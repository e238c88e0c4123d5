#include "passes/pattern.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/text.h"

namespace htpipe::passes {
namespace {

Graph graph_of(const std::string& signature, const std::string& lines) {
  auto graph = parse_graph("graph @g(" + signature + ") -> (%y) {\n" + lines + "\n}");
  EXPECT_TRUE(graph.has_value()) << (graph ? "" : graph.error().summary());
  return std::move(*graph);
}

std::string binary(const std::string& result, const std::string& operation, const std::string& operands) {
  return "%" + result + " = ElementWiseBinary(" + operands + ") {operation=\"" + operation + "\"}\n";
}
std::string unary(const std::string& result, const std::string& operation, const std::string& operand) {
  return "%" + result + " = ElementWiseUnary(" + operand + ") {operation=\"" + operation + "\"}\n";
}
std::string scalar(const std::string& name, const std::string& value) {
  return "%" + name + " = const f32[] [" + value + "]\n";
}

/// The match that ends in the graph's output.
std::optional<Match> match(const std::string& pattern, const Graph& graph) {
  return Pattern(pattern).match(graph, *graph.outputs().front()->producer);
}

const std::string kX = "%x: f32[2,3]";
const std::string kXZ = "%x: f32[2,3], %z: f32[2,3]";

TEST(Pattern, BindsValuesNumbersAndNodes) {
  const Graph graph = graph_of(kX, scalar("c", "4") + binary("m", "multiply", "%x, %c") + unary("y", "exp", "%m"));
  const auto found = match("%m = multiply(%a, $s)\n%e = exp(%m)", graph);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->value("a")->name, "x");
  EXPECT_EQ(found->number("s"), 4);
  EXPECT_EQ(found->node("e")->name(), "y");
  EXPECT_EQ(found->parts.size(), 2U);
  EXPECT_EQ(found->last().name(), "y");
}

TEST(Pattern, DivisionIsMultiplication) {
  const std::string quarter = "%m = multiply(%a, 0.25)\n%e = exp(%m)";
  EXPECT_TRUE(
      match(quarter, graph_of(kX, scalar("c", "4") + binary("m", "divide", "%x, %c") + unary("y", "exp", "%m"))));
  EXPECT_FALSE(
      match(quarter, graph_of(kX, scalar("c", "2") + binary("m", "divide", "%x, %c") + unary("y", "exp", "%m"))));
  EXPECT_FALSE(
      match(quarter, graph_of(kX, scalar("c", "4") + binary("m", "divide", "%c, %x") + unary("y", "exp", "%m"))));
}

TEST(Pattern, ChainsOfScalarsAreOne) {
  const Graph graph =
      graph_of(kX, scalar("c", "4") + scalar("d", "3") + binary("m", "multiply", "%c, %x") + unary("n", "neg", "%m") +
                       binary("o", "divide", "%n, %d") + unary("y", "exp", "%o"));
  const auto found = match("%m = multiply(%a, $s)\n%e = exp(%m)", graph);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->number("s"), -4.0 / 3, 1e-7);
}

TEST(Pattern, DifferencesAreSums) {
  const std::string shifted = "%s = add(%a, 3)\n%e = exp(%s)";
  const std::string three = scalar("c", "-3");
  EXPECT_TRUE(match(shifted, graph_of(kX, three + binary("s", "subtract", "%x, %c") + unary("y", "exp", "%s"))));
  EXPECT_FALSE(match(shifted, graph_of(kX, three + binary("s", "subtract", "%c, %x") + unary("y", "exp", "%s"))));
  const std::string difference = "%s = subtract(%a, any %b)\n%m = exp(%a)\n%e = multiply(%m, %s)";
  EXPECT_TRUE(match(difference, graph_of(kXZ, unary("n", "neg", "%z") + binary("s", "add", "%n, %x") +
                                                  unary("m", "exp", "%x") + binary("y", "multiply", "%m, %s"))));
  EXPECT_FALSE(match(difference, graph_of(kXZ, unary("n", "neg", "%x") + binary("s", "add", "%n, %z") +
                                                   unary("m", "exp", "%x") + binary("y", "multiply", "%m, %s"))));
}

TEST(Pattern, SquaresAndRoots) {
  const std::string pattern = "%p = power(%a, 2)\n%e = exp(%p)";
  EXPECT_TRUE(match(pattern, graph_of(kX, binary("p", "multiply", "%x, %x") + unary("y", "exp", "%p"))));
  EXPECT_TRUE(
      match(pattern, graph_of(kX, scalar("c", "2") + binary("p", "power", "%x, %c") + unary("y", "exp", "%p"))));
  EXPECT_FALSE(match(pattern, graph_of(kXZ, binary("p", "multiply", "%x, %z") + unary("y", "exp", "%p"))));
  const std::string inverse = "%r = rsqrt(%b)\n%q = multiply(%a, %r)\n%e = exp(%q)";
  EXPECT_TRUE(match(
      inverse, graph_of(kXZ, unary("r", "sqrt", "%z") + binary("q", "divide", "%x, %r") + unary("y", "exp", "%q"))));
  EXPECT_TRUE(match(inverse, graph_of(kXZ, unary("r", "sqrt", "%z") + unary("i", "reciprocal", "%r") +
                                               binary("q", "multiply", "%i, %x") + unary("y", "exp", "%q"))));
  EXPECT_TRUE(match(inverse, graph_of(kXZ, scalar("c", "-0.5") + binary("r", "power", "%z, %c") +
                                               binary("q", "multiply", "%r, %x") + unary("y", "exp", "%q"))));
  // The root of a square is no power of one.
  EXPECT_FALSE(match("%e = exp(%a)", graph_of(kX, binary("p", "multiply", "%x, %x") + unary("r", "sqrt", "%p") +
                                                      unary("y", "exp", "%r")))
                   ->value("a")
                   ->name == "x");
}

TEST(Pattern, ScalarsOfASumMayStandOutside) {
  const std::string pattern = "%e = exp(%a)\n%s = add(%e, 1)\n%p = multiply(%a, %s)\n%y = multiply(%p, 0.5)";
  EXPECT_TRUE(
      match(pattern, graph_of(kX, scalar("h", "0.5") + unary("e", "exp", "%x") + binary("f", "multiply", "%e, %h") +
                                      binary("s", "add", "%h, %f") + binary("y", "multiply", "%s, %x"))));
  EXPECT_TRUE(
      match(pattern, graph_of(kX, scalar("h", "0.5") + binary("g", "multiply", "%x, %h") + unary("e", "exp", "%x") +
                                      binary("f", "multiply", "%e, %g") + binary("y", "add", "%f, %g"))));
  EXPECT_FALSE(match(pattern, graph_of(kX, scalar("h", "0.5") + scalar("t", "0.25") + unary("e", "exp", "%x") +
                                               binary("f", "multiply", "%e, %h") + binary("s", "add", "%t, %f") +
                                               binary("y", "multiply", "%s, %x"))));
}

TEST(Pattern, AFreeValueMayBeASum) {
  const Graph graph = graph_of(
      kXZ, scalar("c", "3") + binary("s", "add", "%x, %z") + binary("t", "add", "%s, %c") + unary("y", "exp", "%t"));
  const auto found = match("%t = add(%a, 3)\n%e = exp(%t)", graph);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->value("a")->name, "s");
}

TEST(Pattern, AFreeValueMayBeAProduct) {
  const Graph graph = graph_of(kXZ, scalar("c", "3") + binary("p", "multiply", "%x, %z") +
                                        binary("t", "multiply", "%p, %c") + unary("y", "exp", "%t"));
  const auto found = match("%t = multiply(%a, 3)\n%e = exp(%t)", graph);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->value("a")->name, "p");
}

TEST(Pattern, PartsThatServeOthersAreRefused) {
  const std::string lines = unary("e", "exp", "%x") + unary("t", "sin", "%e") + binary("y", "add", "%t, %e");
  EXPECT_FALSE(Pattern("%e = exp(%a)\n%t = sin(%e)").match(graph_of(kX, lines), *graph_of(kX, lines).nodes().front()));
  const Graph graph = graph_of(kX, lines);
  Node& sine = *std::next(graph.nodes().begin())->get();
  EXPECT_FALSE(Pattern("%e = exp(%a)\n%t = sin(%e)").match(graph, sine));
  EXPECT_TRUE(Pattern("%e = shared exp(%a)\n%t = sin(%e)").match(graph, sine));
  EXPECT_TRUE(match("%e = exp(%a)\n%t = sin(%e)\n%s = add(%t, %e)", graph));
}

TEST(Pattern, AValueUsedTwiceIsOne) {
  const std::string pattern =
      "%m = ReduceMean(%x) {keep_dims=true}\n%d = subtract(%x, %m)\n%q = power(%d, 2)\n"
      "%v = ReduceMean(%q)\n%r = rsqrt(%v)\n%y = multiply(%d, %r)";
  const std::string head = "%m = ReduceMean(%x) {axes=[1], keep_dims=true}\n" + binary("d", "subtract", "%x, %m") +
                           binary("q", "multiply", "%d, %d");
  const std::string tail = unary("r", "sqrt", "%v") + binary("y", "divide", "%d, %r");
  EXPECT_TRUE(match(pattern, graph_of(kX, head + "%v = ReduceMean(%q) {axes=[1], keep_dims=true}\n" + tail)));
  EXPECT_TRUE(match(pattern, graph_of(kX, head + "%s = ReduceSum(%q) {axes=[1], keep_dims=true}\n" + scalar("n", "3") +
                                              binary("v", "divide", "%s, %n") + tail)));
  EXPECT_FALSE(match(pattern, graph_of(kX, head + "%s = ReduceSum(%q) {axes=[1], keep_dims=true}\n" + scalar("n", "2") +
                                               binary("v", "divide", "%s, %n") + tail)));
}

TEST(Pattern, ClampsInAllSpellings) {
  const std::string pattern =
      "%s = add(%a, 3)\n%c = relu_min_max(%s) {min_value=0f, max_value=6f}\n"
      "%p = multiply(%a, %c)\n%y = multiply(%p, 0.16666667)";
  const std::string sixth = scalar("k", "6");
  const std::string three = scalar("t", "3");
  EXPECT_TRUE(
      match(pattern,
            graph_of(kX, sixth + three + "%c = ElementWiseBinary(%x, %t) {activation=\"relu6\", operation=\"add\"}\n" +
                             binary("d", "divide", "%c, %k") + binary("y", "multiply", "%x, %d"))));
  EXPECT_TRUE(match(pattern, graph_of(kX, sixth + three + scalar("z", "0") + binary("a", "add", "%t, %x") +
                                              binary("b", "maximum", "%a, %z") + binary("c", "minimum", "%b, %k") +
                                              binary("p", "multiply", "%x, %c") + binary("y", "divide", "%p, %k"))));
  EXPECT_TRUE(match(pattern, graph_of(kX, sixth + scalar("h", "0.5") + binary("d", "divide", "%x, %k") +
                                              binary("a", "add", "%d, %h") +
                                              "%c = ElementWiseNeuron(%a) {operation=\"relu_min_max\", min_value=0f, "
                                              "max_value=1f}\n" +
                                              binary("y", "multiply", "%x, %c"))));
  EXPECT_FALSE(match(pattern, graph_of(kX, sixth + three + binary("a", "add", "%t, %x") +
                                               "%c = ElementWiseNeuron(%a) {operation=\"relu\"}\n" +
                                               binary("p", "multiply", "%x, %c") + binary("y", "divide", "%p, %k"))));
}

TEST(Pattern, OptionalNodesAndAttributes) {
  const std::string pattern = "%t = optional Transpose(%x) {perm=[1,0]}\n%y = exp(%t)";
  EXPECT_TRUE(match(pattern, graph_of(kX, unary("y", "exp", "%x"))));
  EXPECT_TRUE(match(pattern, graph_of(kX, "%t = Transpose(%x) {perm=[1,0]}\n" + unary("y", "exp", "%t")))->node("t"));
  const auto other = match("%t = Transpose(%x) {perm=[0,1]}\n%y = exp(%t)",
                           graph_of(kX, "%t = Transpose(%x) {perm=[1,0]}\n" + unary("y", "exp", "%t")));
  EXPECT_FALSE(other);
}

TEST(Pattern, ResultsOfASplitAreToldApart) {
  const std::string split = "%p, %q = Split(%x) {axis=0, split_index=[1]}\n";
  const std::string pattern = "%a, %b = Split(%x)\n%e = exp(%a)\n%y = subtract(%e, %b)";
  EXPECT_TRUE(match(pattern, graph_of(kX, split + unary("e", "exp", "%p") + binary("y", "subtract", "%e, %q"))));
  EXPECT_FALSE(match(pattern, graph_of(kX, split + unary("e", "exp", "%q") + binary("y", "subtract", "%e, %p"))));
}

TEST(Pattern, ConstantsAreNoValues) {
  const std::string lines = "%w = const f32[3] [1,2,3]\n" + binary("y", "multiply", "%x, %w");
  const Graph graph = graph_of(kX, lines);
  const auto found = match("%y = multiply(%a, const %g)", graph);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->value("g")->name, "w");
  EXPECT_FALSE(match("%y = multiply(%a, %b)", graph));
}

TEST(Pattern, LongChainsEnd) {
  std::string lines = binary("a0", "add", "%x, %z");
  for (int i = 1; i < 2000; ++i) lines += binary("a" + std::to_string(i), "add", "%a" + std::to_string(i - 1) + ", %z");
  const Graph graph = graph_of(kXZ, lines + unary("y", "exp", "%a1999"));
  EXPECT_FALSE(match("%s = add(%a, 1)\n%y = exp(%s)", graph));
}

TEST(Pattern, MistakesAreNamed) {
  const auto message = [](const std::string& text) {
    const auto pattern = Pattern::parse(text);
    return pattern ? std::string() : pattern.error().summary();
  };
  EXPECT_NE(message("%y = nothing(%x)").find("no operator \"nothing\""), std::string::npos);
  EXPECT_NE(message("%y = exp(%x").find("graph-syntax"), std::string::npos);
  EXPECT_NE(message("\n%y = exp(%x)\n%y = exp(%x)").find("pattern:3"), std::string::npos);
  EXPECT_NE(message("%y = exp(%x, %x)").find("1 operands"), std::string::npos);
  EXPECT_NE(message("%y = ReduceMean(%x) {axes=1}").find("axes"), std::string::npos);
  EXPECT_NE(message("").find("without lines"), std::string::npos);
}

}  // namespace
}  // namespace htpipe::passes
