// Log and progress lines: what a person sees on stderr.
#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "base/parallel.h"
#include "base/progress.h"

namespace htpipe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// What `body` writes to stderr.
template <typename Body>
std::vector<std::string> stderr_of(const Body& body) {
  testing::internal::CaptureStderr();
  body();
  return lines_of(testing::internal::GetCapturedStderr());
}

TEST(LogTest, ShowsLinesOfTheThresholdAndAbove) {
  log::set_level(log::Level::kInfo);
  const auto lines = stderr_of([] {
    log::debug("room", "hidden {}", 1);
    log::info("room", "shown {}", 2);
    log::warn("room", "shown {}", 3);
  });
  log::set_level(log::Level::kWarn);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], HasSubstr("room: shown 2"));
  EXPECT_THAT(lines[1], HasSubstr("room: shown 3"));
  EXPECT_FALSE(log::enabled(log::Level::kInfo));
  EXPECT_TRUE(log::enabled(log::Level::kError));
}

TEST(LogTest, BracesInAMessageAreText) {
  const auto lines = stderr_of([] { log::warn("room", "{}", "{}{0}{bad"); });
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("{}{0}{bad"));
}

class ProgressTest : public testing::Test {
 protected:
  void TearDown() override { set_progress_mode(ProgressMode::kNone); }
};

TEST_F(ProgressTest, IsSilentByDefault) {
  EXPECT_THAT(stderr_of([] {
                Progress progress("work", 10);
                progress.step(10);
              }),
              IsEmpty());
}

TEST_F(ProgressTest, ShortWorkLeavesNoLinesInALogFile) {
  set_progress_mode(ProgressMode::kText);
  EXPECT_THAT(stderr_of([] {
                Progress progress("work", 1000);
                parallel_for(1000, [&](std::int64_t, int) { progress.step(); });
              }),
              IsEmpty());
}

TEST_F(ProgressTest, LongWorkWritesALinePerTenPerCent) {
  set_progress_mode(ProgressMode::kText);
  const auto lines = stderr_of([] {
    Progress progress("work", 1000);
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    parallel_for(1000, [&](std::int64_t, int) { progress.step(); });
  });
  ASSERT_THAT(lines, Not(IsEmpty()));
  EXPECT_LE(lines.size(), 11U);
  EXPECT_EQ(lines.back(), "work 100%");
}

TEST_F(ProgressTest, JsonLinesAreJson) {
  set_progress_mode(ProgressMode::kJsonLines);
  const auto lines = stderr_of([] {
    Progress progress("work", 20);
    for (int i = 0; i < 20; ++i) progress.step();
  });
  ASSERT_THAT(lines, Not(IsEmpty()));
  std::int64_t before = -1;
  for (const std::string& line : lines) {
    const auto json = parse_json(line);
    ASSERT_TRUE(json) << line;
    EXPECT_EQ(json->at("event"), "progress");
    EXPECT_EQ(json->at("what"), "work");
    EXPECT_EQ(json->at("total"), 20);
    EXPECT_GT(json->at("done").get<std::int64_t>(), before);
    before = json->at("done").get<std::int64_t>();
  }
  EXPECT_EQ(before, 20);
}

TEST_F(ProgressTest, WorkWithoutStepsIsNoError) {
  set_progress_mode(ProgressMode::kText);
  stderr_of([] { const Progress progress("nothing", 0); });
}

}  // namespace
}  // namespace htpipe
