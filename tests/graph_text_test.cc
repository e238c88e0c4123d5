// The text form on all graphs of tests/golden: printing and reading agree, and no damaged text does harm.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "golden_case.h"
#include "ir/text.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

std::vector<std::string> golden_inputs() {
  std::vector<std::string> texts;
  for (const auto& path : golden::files()) {
    const auto golden = golden::read(path);
    EXPECT_TRUE(golden) << golden.error().summary();
    if (golden) texts.push_back(golden->input);
  }
  return texts;
}

class GraphText : public testing::Test {
 protected:
  static void SetUpTestSuite() { register_all_ops(); }

  /// Reads a damaged text. What it gives must be a sound graph or an error with a place in the text.
  static bool parse_damaged(const std::string& text) {
    const auto graph = parse_graph(text);
    if (graph) {
      EXPECT_TRUE(verify(*graph)) << text;
      const std::string printed = print(*graph);
      const auto again = parse_graph(printed, golden::blobs_of(*graph));
      EXPECT_TRUE(again) << again.error().summary() << "\n" << printed;
      EXPECT_EQ(again ? print(*again) : "", printed);
      return true;
    }
    const Error& error = graph.error();
    EXPECT_NE(error.code, Code::kBug) << text;
    if (error.code == Code::kGraphSyntax) {
      const auto lines = 1 + std::count(text.begin(), text.end(), '\n');
      EXPECT_GE(error.place.line, 1) << text;
      EXPECT_LE(error.place.line, lines) << text;
    } else {
      EXPECT_FALSE(error.place.node.empty()) << error.summary() << "\n" << text;
    }
    return false;
  }
};

TEST_F(GraphText, PrintedGoldensReadBack) {
  const auto texts = golden_inputs();
  ASSERT_GT(texts.size(), 50U);
  for (const std::string& text : texts) {
    const auto graph = parse_graph(text);
    ASSERT_TRUE(graph) << graph.error().summary() << "\n" << text;
    const std::string printed = print(*graph);
    const auto again = parse_graph(printed, golden::blobs_of(*graph));
    ASSERT_TRUE(again) << again.error().summary() << "\n" << printed;
    EXPECT_EQ(print(*again), printed);
    EXPECT_EQ(digest(*again), digest(*graph)) << "constants differ\n" << printed;
    EXPECT_EQ(print(graph->clone()), printed);
  }
}

TEST_F(GraphText, EveryTruncationIsAnError) {
  for (const std::string& text : golden_inputs()) {
    const std::size_t end = text.rfind('}');
    for (std::size_t size = 0; size <= end; ++size) {
      EXPECT_FALSE(parse_damaged(text.substr(0, size))) << "accepted " << size << " bytes of\n" << text;
    }
  }
}

TEST_F(GraphText, RandomDamageNeverDoesHarm) {
  constexpr std::string_view kBytes = "0123456789-.,:%@#\"\\[](){}<>_=+efinxyw \n\t\x80\xff";
  std::mt19937 generator(7);
  const auto below = [&generator](std::size_t limit) { return static_cast<std::size_t>(generator()) % limit; };
  int accepted = 0;
  int refused = 0;
  for (const std::string& original : golden_inputs()) {
    for (int trial = 0; trial < 150; ++trial) {
      std::string text = original;
      for (std::size_t edits = 1 + below(3); edits > 0 && !text.empty(); --edits) {
        const std::size_t at = below(text.size());
        switch (below(4)) {
          case 0:
            text[at] = kBytes[below(kBytes.size())];
            break;
          case 1:
            text.insert(at, 1, kBytes[below(kBytes.size())]);
            break;
          case 2:
            text.erase(at, 1 + below(8));
            break;
          default:
            text.insert(at, text.substr(below(text.size()), 1 + below(24)));
            break;
        }
      }
      ++(parse_damaged(text) ? accepted : refused);
    }
  }
  // Both kinds must occur, or the damage is of the wrong size.
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace htpipe
