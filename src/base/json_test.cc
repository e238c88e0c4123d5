// JSON texts that people and other programs read.
#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/io.h"

namespace htpipe {
namespace {

TEST(JsonTest, KeepsTheOrderOfKeysAndEndsWithALineFeed) {
  Json json;
  json["zebra"] = 1;
  json["ant"] = {2, 3};
  EXPECT_EQ(to_text(json), "{\n  \"zebra\": 1,\n  \"ant\": [\n    2,\n    3\n  ]\n}\n");
}

TEST(JsonTest, NumbersSurviveARoundTripBitForBit) {
  const std::vector<double> values = {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.125, 0.02F};
  for (const double value : values) {
    const auto parsed = parse_json(to_text(Json(value)));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->get<double>(), value);
    EXPECT_EQ(std::signbit(parsed->get<double>()), std::signbit(value));
  }
  for (const std::int64_t value :
       {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(parse_json(to_text(Json(value)))->get<std::int64_t>(), value);
  }
}

TEST(JsonTest, WhatIsNoNumberIsNull) {
  EXPECT_EQ(to_text(Json(std::nan(""))), "null\n");
  EXPECT_EQ(to_text(Json(std::numeric_limits<double>::infinity())), "null\n");
}

TEST(JsonTest, BytesThatAreNoUtf8AreReplaced) { EXPECT_EQ(to_text(Json("a\xFFz")), "\"a\xEF\xBF\xBDz\"\n"); }

TEST(JsonTest, RefusesWhatIsNoJson) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":1,}", "nul", "[1] 2", "\"open", "\"\xFF\"", "{'a':1}", "NaN", "01"}) {
    const auto parsed = parse_json(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kJsonInvalid);
  }
}

TEST(JsonTest, NamesTheByteOfTheFault) {
  const auto parsed = parse_json("[1, x]");
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("column 5"), std::string::npos) << parsed.error().message;
}

TEST(JsonTest, DeepNestingEndsInAnErrorNotInACrash) {
  const auto parsed = parse_json(std::string(1000000, '['));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, Code::kJsonInvalid);
}

TEST(JsonTest, FilesNameThemselvesInErrors) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  const auto path = folder->path() / "a.json";
  std::ofstream(path) << "{\"a\": [1, 2}";
  const auto broken = read_json(path);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::kJsonInvalid);
  EXPECT_EQ(broken.error().place.file, path.string());

  const Json json = {{"a", {1, 2}}};
  ASSERT_TRUE(write_json(path, json));
  EXPECT_EQ(read_json(path).value(), json);
  EXPECT_EQ(read_json(folder->path() / "b.json").error().code, Code::kFileMissing);
}

TEST(JsonTest, AbsurdNestingIsRefused) {
  EXPECT_EQ(parse_json(std::string(100000, '[')).error().code, Code::kJsonInvalid);
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  EXPECT_EQ(parse_json(deep).error().code, Code::kJsonInvalid);
  EXPECT_TRUE(parse_json(std::string(100, '[') + std::string(100, ']')));
  EXPECT_TRUE(parse_json("\"" + std::string(1000, '[') + "\""));
}

}  // namespace
}  // namespace htpipe
