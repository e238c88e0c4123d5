#include "target/strict_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace htpipe {
namespace {

using testing::HasSubstr;

Error syntax_error(std::string_view text) {
  const auto node = parse_yaml(text, "f.yaml");
  EXPECT_FALSE(node) << text;
  return node ? Error(Code::kBug, "no error") : node.error();
}

TEST(StrictYaml, NodesKnowTheirLines) {
  const auto node = parse_yaml("# head\na: 1\nb:\n  - x\n  - 'y'\nc: {d: e}\nf:\n", "f.yaml");
  ASSERT_TRUE(node) << node.error().summary();
  ASSERT_EQ(node->keys.size(), 4U);
  EXPECT_EQ(node->keys[1], (std::pair<std::string, int>("b", 3)));
  EXPECT_EQ(node->items[1].items[1].line, 5);
  EXPECT_EQ(node->items[1].items[1].text, "y");
  EXPECT_TRUE(node->items[1].items[1].quoted);
  EXPECT_EQ(node->items[2].keys[0].first, "d");
  EXPECT_EQ(node->items[3].kind, YamlNode::Kind::kNull);
}

TEST(StrictYaml, WhatPeopleDoNotWriteIsRefused) {
  EXPECT_EQ(syntax_error("a: 1\na: 2\n").place.line, 2);
  EXPECT_EQ(syntax_error("a: &x 1\nb: *x\n").place.line, 1);
  EXPECT_EQ(syntax_error("a: !!python/object:os.system x\n").code, Code::kConfigSyntax);
  EXPECT_EQ(syntax_error("[a]: 1\n").code, Code::kConfigSyntax);
  EXPECT_EQ(syntax_error("a: 1\n---\nb: 2\n").code, Code::kConfigSyntax);
  EXPECT_EQ(syntax_error("").code, Code::kConfigSyntax);
  EXPECT_EQ(syntax_error("a: [1, 2\nb: 3\n").code, Code::kConfigSyntax);
  EXPECT_EQ(syntax_error(std::string(2U << 20U, ' ')).code, Code::kConfigSyntax);
}

TEST(StrictYaml, DeepNestingIsAnErrorAndNoCrash) {
  EXPECT_THAT(syntax_error(std::string(100000, '[')).code, Code::kConfigSyntax);
  std::string maps;
  for (int i = 0; i < 5000; ++i) maps += "{a: ";
  EXPECT_THAT(syntax_error(maps).code, Code::kConfigSyntax);
}

TEST(StrictYaml, DamagedTextNeverCrashes) {
  const std::string text =
      "model: {id: a, source: b.pt2}\ntargets: [x, 'y', \"z\\n\"]\ndata:\n  - |\n    block\n  - >-\n    x\n";
  for (std::size_t at = 0; at < text.size(); ++at) {
    (void)parse_yaml(text.substr(0, at), "f.yaml");
    for (const char letter : {'\0', '{', '[', '"', '*', '&', '\t', '\xff', ':'}) {
      std::string damaged = text;
      damaged[at] = letter;
      (void)parse_yaml(damaged, "f.yaml");
    }
  }
}

class YamlMapTest : public testing::Test {
 protected:
  YamlMap open(std::string_view text) {
    auto parsed = parse_yaml(text, "f.yaml");
    EXPECT_TRUE(parsed) << parsed.error().summary();
    node_ = std::move(*parsed);
    return {node_, "", findings_};
  }
  Error error() {
    const Status status = findings_.status();
    EXPECT_FALSE(status);
    return status ? Error(Code::kBug, "no error") : status.error();
  }
  YamlNode node_;
  YamlFindings findings_{"folder/f.yaml"};
};

TEST_F(YamlMapTest, ReadsEveryType) {
  YamlMap map = open("t: word\ni: -3\nr: 1.5e-2\nf: true\np: sub/x.pt2\nabs: /x/../y\nl: [a, b]\nm: {k: 1}\n");
  std::string text;
  std::int64_t integer = 0;
  std::int64_t inner = 0;
  double real = 0;
  bool flag = false;
  std::filesystem::path relative;
  std::filesystem::path absolute;
  std::vector<std::pair<std::string, int>> list;
  map.text("t", text);
  map.integer("i", integer, -5, 5);
  map.real("r", real, 0, 1);
  map.flag("f", flag);
  map.path("p", relative);
  map.path("abs", absolute);
  map.texts("l", list);
  YamlMap sub = map.map("m");
  sub.integer("k", inner, 0, 9);
  sub.finish();
  map.finish();
  EXPECT_TRUE(findings_.status()) << findings_.status().error().summary();
  EXPECT_EQ(text, "word");
  EXPECT_EQ(integer, -3);
  EXPECT_EQ(real, 0.015);
  EXPECT_TRUE(flag);
  EXPECT_EQ(relative, "folder/sub/x.pt2");
  EXPECT_EQ(absolute, "/y");
  EXPECT_EQ(list.size(), 2U);
  EXPECT_EQ(inner, 1);
}

TEST_F(YamlMapTest, WrongValuesLeaveTheDefault) {
  YamlMap map = open("a: 1.5\nb: '3'\nc: 11\nd: nan\ne: [1]\nf: yes\ng: 0x10\nh: 1 2\n");
  std::int64_t integer = 7;
  double real = 7;
  bool flag = true;
  map.integer("a", integer, 0, 10);
  map.integer("b", integer, 0, 10);
  map.integer("c", integer, 0, 10);
  map.real("d", real, 0, 10);
  map.integer("e", integer, 0, 10);
  map.flag("f", flag);
  map.integer("g", integer, 0, 100);
  map.real("h", real, 0, 10);
  map.finish();
  EXPECT_EQ(integer, 7);
  EXPECT_EQ(real, 7);
  EXPECT_TRUE(flag);
  const Error first = error();
  EXPECT_EQ(first.code, Code::kConfigType);
  EXPECT_EQ(first.place.line, 1);
  EXPECT_EQ(first.notes.size(), 7U);
  EXPECT_THAT(first.notes[0], HasSubstr("line 2"));
}

TEST_F(YamlMapTest, AMistypedRequiredKeyIsReportedOnce) {
  YamlMap map = open("x: 1\nsuorce: a\n");
  std::string text;
  std::int64_t number = 0;
  map.text("source", text, Need::kRequired);
  map.integer("x", number, 0, 9);
  map.finish();
  const Error first = error();
  EXPECT_EQ(first.code, Code::kConfigUnknownKey);
  EXPECT_EQ(first.place.line, 2);
  EXPECT_THAT(first.message, HasSubstr("source, x"));
  EXPECT_THAT(first.next_step(), HasSubstr("\"source\""));
  EXPECT_TRUE(first.notes.empty());
}

TEST_F(YamlMapTest, AMissingSectionIsReportedOnce) {
  YamlMap map = open("x: 1\n");
  std::string text;
  std::int64_t number = 0;
  map.integer("x", number, 0, 9);
  YamlMap sub = map.map("model", Need::kRequired);
  sub.text("id", text, Need::kRequired);
  sub.text("source", text, Need::kRequired);
  sub.finish();
  map.finish();
  const Error first = error();
  EXPECT_EQ(first.code, Code::kConfigMissingKey);
  EXPECT_THAT(first.message, HasSubstr("model is missing"));
  EXPECT_TRUE(first.notes.empty());
}

}  // namespace
}  // namespace htpipe
