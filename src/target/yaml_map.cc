// The typed reader of one YAML map.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "target/spelling.h"
#include "target/strict_yaml.h"

namespace htpipe {
namespace {

const YamlNode& no_map() {
  static const YamlNode empty = [] {
    YamlNode node;
    node.kind = YamlNode::Kind::kMap;
    return node;
  }();
  return empty;
}

/// What stands in the file, for messages.
std::string shown(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kScalar:
      break;
  }
  return fmt::format("{:?}", node.text.substr(0, 80));
}

template <typename T>
bool parse_all(const std::string& text, T& out) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (begin != end && *begin == '+') ++begin;
  const auto [stop, error] = std::from_chars(begin, end, out);
  return error == std::errc() && stop == end;
}

}  // namespace

YamlMap::YamlMap(const YamlNode& node, std::string where, YamlFindings& findings)
    : node_(&node), where_(std::move(where)), findings_(&findings) {
  if (node.kind == YamlNode::Kind::kMap) return;
  // `gates:` with nothing behind it is an empty map.
  if (node.kind != YamlNode::Kind::kNull || where_.empty()) {
    findings.add(Code::kConfigType, std::max(node.line, 1),
                 fmt::format("{} must be a map of keys, not {}", where_.empty() ? "the file" : where_, shown(node)));
    absent_ = true;
  }
  node_ = &no_map();
}

const YamlNode* YamlMap::find(std::string_view key) const {
  for (std::size_t i = 0; i < node_->keys.size(); ++i) {
    if (node_->keys[i].first == key) return &node_->items[i];
  }
  return nullptr;
}

std::vector<std::string> YamlMap::keys() const {
  std::vector<std::string> names;
  for (const auto& [name, line] : node_->keys) names.push_back(name);
  return names;
}

int YamlMap::line_of(std::string_view key) const {
  for (const auto& [name, line] : node_->keys) {
    if (name == key) return line;
  }
  return node_->line;
}

std::string YamlMap::named(std::string_view key) const {
  return where_.empty() ? std::string(key) : fmt::format("{}.{}", where_, key);
}

const YamlNode* YamlMap::want(std::string_view key, Need need) {
  known_.emplace_back(key);
  const YamlNode* node = find(key);
  if (node == nullptr && need == Need::kRequired) missing_.emplace_back(key);
  return node;
}

void YamlMap::wrong_type(const YamlNode& node, std::string_view key, std::string_view expected) {
  findings_->add(Code::kConfigType, node.line, fmt::format("{} must be {}, not {}", named(key), expected, shown(node)));
}

const YamlNode* YamlMap::scalar(std::string_view key, Need need, std::string_view expected) {
  const YamlNode* node = want(key, need);
  if (node == nullptr || node->kind == YamlNode::Kind::kScalar) return node;
  wrong_type(*node, key, expected);
  return nullptr;
}

void YamlMap::text(std::string_view key, std::string& out, Need need) {
  const YamlNode* node = scalar(key, need, "a text");
  if (node == nullptr) return;
  if (node->text.empty()) return wrong_type(*node, key, "a text");
  out = node->text;
}

void YamlMap::choice(std::string_view key, std::string& out, const std::vector<std::string>& words, Need need) {
  const std::string expected = fmt::format("one of {}", fmt::join(words, ", "));
  const YamlNode* node = scalar(key, need, expected);
  if (node == nullptr) return;
  if (std::find(words.begin(), words.end(), node->text) == words.end()) {
    findings_->add(Code::kConfigType, node->line,
                   fmt::format("{} must be {}, not {}", named(key), expected, shown(*node)),
                   did_you_mean(node->text, words));
    return;
  }
  out = node->text;
}

void YamlMap::flag(std::string_view key, bool& out, Need need) {
  const YamlNode* node = scalar(key, need, "true or false");
  if (node == nullptr) return;
  if (node->quoted || (node->text != "true" && node->text != "false")) return wrong_type(*node, key, "true or false");
  out = node->text == "true";
}

void YamlMap::integer(std::string_view key, std::int64_t& out, std::int64_t low, std::int64_t high, Need need) {
  const std::string expected = fmt::format("a whole number from {} to {}", low, high);
  const YamlNode* node = scalar(key, need, expected);
  if (node == nullptr) return;
  std::int64_t value = 0;
  if (node->quoted || !parse_all(node->text, value) || value < low || value > high) {
    return wrong_type(*node, key, expected);
  }
  out = value;
}

void YamlMap::real(std::string_view key, double& out, double low, double high, Need need) {
  const std::string expected = fmt::format("a number from {} to {}", low, high);
  const YamlNode* node = scalar(key, need, expected);
  if (node == nullptr) return;
  double value = 0;
  if (node->quoted || !parse_all(node->text, value) || !std::isfinite(value) || value < low || value > high) {
    return wrong_type(*node, key, expected);
  }
  out = value;
}

void YamlMap::path(std::string_view key, std::filesystem::path& out, Need need) {
  std::string given;
  text(key, given, need);
  if (given.empty()) return;
  const std::filesystem::path path(given);
  out = (path.is_absolute() ? path : findings_->file().parent_path() / path).lexically_normal();
}

void YamlMap::texts(std::string_view key, std::vector<std::pair<std::string, int>>& out, Need need) {
  const YamlNode* node = want(key, need);
  if (node == nullptr) return;
  if (node->kind != YamlNode::Kind::kList) return wrong_type(*node, key, "a list of texts");
  std::vector<std::pair<std::string, int>> values;
  for (const YamlNode& item : node->items) {
    if (item.kind != YamlNode::Kind::kScalar || item.text.empty()) return wrong_type(item, key, "a list of texts");
    values.emplace_back(item.text, item.line);
  }
  out = std::move(values);
}

YamlMap YamlMap::map(std::string_view key, Need need) {
  const YamlNode* node = want(key, need);
  YamlMap result(node == nullptr ? no_map() : *node, named(key), *findings_);
  // A section that is missing is reported once, not once for each of its keys.
  if (node == nullptr) result.absent_ = true;
  return result;
}

void YamlMap::complain(std::string_view key, Code code, std::string message, std::string hint) {
  findings_->add(code, line_of(key), fmt::format("{}: {}", named(key), message), std::move(hint));
}

void YamlMap::finish() {
  if (absent_) return;
  std::vector<std::string> unread;
  for (const std::string& key : known_) {
    if (!has(key)) unread.push_back(key);
  }
  const std::string place = where_.empty() ? std::string() : fmt::format(" in {}", where_);
  for (const auto& [key, line] : node_->keys) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string meant = nearest(key, unread);
    findings_->add(
        Code::kConfigUnknownKey, line,
        fmt::format("no key \"{}\"{}; the keys there are {}", key.substr(0, 80), place, fmt::join(known_, ", ")),
        meant.empty() ? std::string() : fmt::format("Did you mean \"{}\"?", meant));
    // The mistyped key is the cause; that the right one is missing follows from it.
    missing_.erase(std::remove(missing_.begin(), missing_.end(), meant), missing_.end());
  }
  for (const std::string& key : missing_) {
    findings_->add(Code::kConfigMissingKey, std::max(node_->line, 1), fmt::format("{} is missing", named(key)));
  }
}

}  // namespace htpipe
