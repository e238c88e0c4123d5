#include "target/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/io.h"
#include "target/spelling.h"

namespace htpipe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kTargets = fs::path(HTPIPE_SOURCE_DIR) / "targets";

std::string found(std::string_view spelling) {
  const auto targets = load_targets(kTargets);
  if (!targets) return targets.error().summary();
  const auto target = find_target(spelling, *targets);
  return target ? target->id : std::string(word(target.error().code));
}

/// The data file of one target, with one line changed.
class TargetFile : public testing::Test {
 protected:
  Error read_error(const std::string& from, const std::string& to) {
    auto text = read_text(kTargets / "snapdragon-8-gen-3.yaml");
    EXPECT_TRUE(text);
    const std::size_t at = text->find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text->replace(at, from.size(), to);
    EXPECT_TRUE(write_file_atomic(path_, *text));
    const auto target = read_target(path_);
    EXPECT_FALSE(target);
    return target ? Error(Code::kBug, "no error") : target.error();
  }

  TemporaryFolder folder_ = *TemporaryFolder::create();
  fs::path path_ = folder_.path() / "t.yaml";
};

TEST(Targets, TheThreeChipsAreThere) {
  const auto targets = load_targets(kTargets);
  ASSERT_TRUE(targets) << targets.error().summary();
  ASSERT_EQ(targets->size(), 3U);
  // Sorted by id. Numbers as Qualcomm publishes them for its chips.
  EXPECT_EQ((*targets)[0].soc, "SM7550");
  EXPECT_EQ((*targets)[0].soc_model, 64U);
  EXPECT_EQ((*targets)[0].htp_version, 73);
  EXPECT_FALSE((*targets)[0].supports_fp16);
  EXPECT_EQ((*targets)[1].soc, "SM8650");
  EXPECT_EQ((*targets)[1].soc_model, 57U);
  EXPECT_EQ((*targets)[1].arch(), "v75");
  EXPECT_TRUE((*targets)[1].supports_fp16);
  EXPECT_EQ((*targets)[2].soc, "SM8350");
  EXPECT_EQ((*targets)[2].soc_model, 30U);
  EXPECT_EQ((*targets)[2].htp_version, 68);
  EXPECT_FALSE((*targets)[2].supports_int16_weights);
}

TEST(Targets, EverySpellingIsUnderstood) {
  for (const char* spelling :
       {"snapdragon-8-gen-3", "SM8650", "sm8650", "57", "v75", "V75", "htpv75", "Snapdragon 8 Gen 3",
        "qualcomm-snapdragon-8gen3", "SNAPDRAGON_8_GEN_3", "8gen3", "Samsung Galaxy S24+"}) {
    EXPECT_EQ(found(spelling), "snapdragon-8-gen-3") << spelling;
  }
  EXPECT_EQ(found("888"), "snapdragon-888");
  EXPECT_EQ(found("qualcomm-snapdragon-888"), "snapdragon-888");
  EXPECT_EQ(found("7 gen 3"), "snapdragon-7-gen-3");
  for (const char* spelling : {"", " ", "v", "v7", "SM8750", "snapdragon", "Samsung Galaxy", "575"}) {
    EXPECT_EQ(found(spelling), "unknown-target") << spelling;
  }
}

TEST(Targets, AnUnknownOneSuggestsTheNearest) {
  const auto targets = load_targets(kTargets);
  ASSERT_TRUE(targets);
  const auto target = find_target("snapdragn-8-gen-3", *targets);
  ASSERT_FALSE(target);
  EXPECT_THAT(target.error().next_step(), HasSubstr("\"snapdragon-8-gen-3\""));
  EXPECT_THAT(target.error().message, HasSubstr("snapdragon-888"));
}

TEST(Targets, AnArchitectureOfTwoChipsIsAmbiguous) {
  auto targets = load_targets(kTargets);
  ASSERT_TRUE(targets);
  Target twin = (*targets)[1];
  twin.id = "twin";
  twin.name = "Twin";
  twin.soc = "SM0001";
  twin.soc_model = 9999;
  twin.aliases.clear();
  targets->push_back(twin);
  const auto target = find_target("v75", *targets);
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().code, Code::kUnknownTarget);
  EXPECT_THAT(target.error().message, testing::AllOf(HasSubstr("twin"), HasSubstr("snapdragon-8-gen-3")));
}

TEST(Targets, TheFolderCanBeNamedByTheEnvironment) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  const char* before = std::getenv("HTPIPE_DATA_DIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("HTPIPE_DATA_DIR", folder->path().c_str(), 1);
  const auto missing = load_targets();
  EXPECT_TRUE(make_folder(folder->path() / "targets"));
  const auto empty = load_targets();
  EXPECT_TRUE(copy_file_atomic(kTargets / "snapdragon-888.yaml", folder->path() / "targets" / "a.yaml"));
  const auto one = load_targets();
  if (before == nullptr) {
    ::unsetenv("HTPIPE_DATA_DIR");
  } else {
    ::setenv("HTPIPE_DATA_DIR", kept.c_str(), 1);
  }
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kFileMissing);
  EXPECT_FALSE(empty);
  ASSERT_TRUE(one) << one.error().summary();
  EXPECT_EQ(one->size(), 1U);
}

TEST(Targets, TwoFilesCannotClaimOneChip) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  for (const char* name : {"a.yaml", "b.yaml"}) {
    ASSERT_TRUE(copy_file_atomic(kTargets / "snapdragon-888.yaml", folder->path() / name));
  }
  const auto targets = load_targets(folder->path());
  ASSERT_FALSE(targets);
  EXPECT_THAT(targets.error().summary(), testing::AllOf(HasSubstr("a.yaml"), HasSubstr("b.yaml")));
}

TEST_F(TargetFile, AMistypedKeyIsFoundWithItsLine) {
  const Error error = read_error("vtcm_mb", "vtcm");
  EXPECT_EQ(error.code, Code::kConfigUnknownKey);
  EXPECT_EQ(error.place.line, 11);
  EXPECT_EQ(error.place.file, path_.string());
}

TEST_F(TargetFile, WrongValuesAreFound) {
  EXPECT_EQ(read_error("htp_version: 75", "htp_version: v75").place.line, 6);
  EXPECT_EQ(read_error("supports_fp16: true", "supports_fp16: yes").code, Code::kConfigType);
  EXPECT_EQ(read_error("soc_model: 57", "soc_model: -57").code, Code::kConfigType);
  EXPECT_EQ(read_error("vtcm_mb: 8\n", "").code, Code::kConfigMissingKey);
  EXPECT_EQ(read_error("id: snapdragon-8-gen-3", "id: ../../etc").code, Code::kConfigType);
}

TEST(Spelling, DistanceCountsSwapsAsOne) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
  EXPECT_EQ(edit_distance("abc", "ABC"), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("abcd", "abdc"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2);
}

TEST(Spelling, OnlyNearWordsAreSuggested) {
  EXPECT_EQ(nearest("doctro", {"run", "doctor"}), "doctor");
  EXPECT_EQ(nearest("zebra", {"run", "doctor"}), "");
  EXPECT_EQ(nearest("vtcm", {"soc", "vtcm_mb"}), "vtcm_mb");
  EXPECT_EQ(nearest("snapdragon-8", {"snapdragon-8-gen-3"}), "snapdragon-8-gen-3");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest(std::string(100000, 'a'), {"run"}), "");
}

}  // namespace
}  // namespace htpipe
