// The table of errors, and how errors travel and read.
#include "base/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/check.h"

namespace htpipe {
namespace {

using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST(ErrorTableTest, EachRowIsComplete) {
  std::set<std::string_view> words;
  for (const CodeInfo& row : all_codes()) {
    EXPECT_THAT(std::string(row.word), MatchesRegex("[a-z][a-z0-9]*(-[a-z0-9]+)*"));
    EXPECT_TRUE(words.insert(row.word).second) << row.word << " stands twice";
    EXPECT_THAT(row.exit_code, AnyOf(1, 2, 3, 4, 70, 130)) << row.word;
    for (const std::string_view sentence : {row.sentence, row.cause, row.next}) {
      EXPECT_THAT(std::string(sentence), EndsWith(".")) << row.word;
    }
    EXPECT_EQ(&info(row.code), &row);
    EXPECT_EQ(find_code(row.word), &row);
    EXPECT_EQ(word(row.code), row.word);
  }
  EXPECT_EQ(find_code("no-such-word"), nullptr);
}

TEST(ErrorTableTest, FamiliesHaveTheirExitCodes) {
  for (const CodeInfo& row : all_codes()) {
    const auto starts = [&row](std::string_view prefix) { return row.word.substr(0, prefix.size()) == prefix; };
    if (starts("gate-")) {
      EXPECT_EQ(row.exit_code, 3) << row.word;
    }
    if (starts("vendor-")) {
      EXPECT_EQ(row.exit_code, 4) << row.word;
    }
    if (starts("config-")) {
      EXPECT_EQ(row.exit_code, 2) << row.word;
    }
  }
  EXPECT_EQ(info(Code::kBug).exit_code, 70);
}

TEST(ErrorTest, SummaryTellsCodePlaceAndNotes) {
  const Error error = Error(Code::kShapeMismatch, "3 is not 4")
                          .in_file("net.htir", 12)
                          .at_node("conv1")
                          .in_pass("fuse")
                          .for_target("sm8650")
                          .with_note("inner")
                          .with_note("outer");
  EXPECT_EQ(error.summary(),
            "shape-mismatch: net.htir:12: 3 is not 4 (node conv1, pass fuse, target sm8650); inner; outer");
  EXPECT_EQ(Error(Code::kUsage, "no file").summary(), "usage: no file");
}

TEST(ErrorTest, TheNextStepIsTheHintOrTheTables) {
  EXPECT_EQ(Error(Code::kUsage, "x").next_step(), info(Code::kUsage).next);
  EXPECT_EQ(Error(Code::kUsage, "x").with_hint("Do this.").next_step(), "Do this.");
}

Result<std::unique_ptr<int>> half(int number) {
  if (number % 2 != 0) return fail(Code::kUsage, "odd");
  return std::make_unique<int>(number / 2);
}
Status must_be_small(int number) {
  if (number > 10) return fail(Code::kDataShape, "large");
  return {};
}
Result<int> quarter(int number) {
  HTPIPE_TRY(const auto first, half(number));
  HTPIPE_TRY(auto second, half(*first));
  HTPIPE_CHECK_OK(must_be_small(*second));
  return *second;
}

TEST(ResultTest, TryBindsAValueOrReturnsTheError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(7).error().message, "odd");
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(quarter(400).error().code, Code::kDataShape);
}

TEST(CheckTest, AFailedCheckNamesItsPlaceAndCondition) {
  EXPECT_NO_THROW(HTPIPE_CHECK(1 + 1 == 2, "arithmetic"));
  try {
    HTPIPE_CHECK(1 + 1 == 3, "arithmetic");
    FAIL() << "no exception";
  } catch (const BugError& error) {
    EXPECT_THAT(error.what(), HasSubstr("result_test.cc:"));
    EXPECT_THAT(error.what(), HasSubstr("1 + 1 == 3"));
    EXPECT_THAT(error.what(), HasSubstr("arithmetic"));
  }
}

}  // namespace
}  // namespace htpipe
