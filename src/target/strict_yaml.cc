// Builds the tree from the events of yaml-cpp, so that aliases, duplicate keys and depth are seen as they come.
#include "target/strict_yaml.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "base/io.h"

namespace htpipe {
namespace {

constexpr std::size_t kLargestFile = 1U << 20U;
constexpr std::size_t kDeepest = 32;

/// Leaves the parser from inside an event; never leaves this file.
struct Refused {
  int line;
  std::string message;
};

int line_of(const YAML::Mark& mark) { return mark.line + 1; }

class TreeBuilder : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    YamlNode node;
    node.line = line_of(mark);
    add(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    throw Refused{line_of(mark), "aliases (*name) are not accepted"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    if (tag != "?" && tag != "!") throw Refused{line_of(mark), fmt::format("tags ({}) are not accepted", tag)};
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.line = line_of(mark);
    node.text = value;
    node.quoted = tag == "!";
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

  [[nodiscard]] YamlNode take() { return std::move(root_); }

 private:
  static void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) throw Refused{line_of(mark), "anchors (&name) are not accepted"};
  }
  void open(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    refuse_anchor(mark, anchor);
    if (open_.size() >= kDeepest) throw Refused{line_of(mark), fmt::format("more than {} levels", kDeepest)};
    YamlNode node;
    node.kind = kind;
    node.line = line_of(mark);
    open_.push_back(std::move(node));
  }
  void close() {
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }
  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    YamlNode& parent = open_.back();
    // In a map keys and values come in turn.
    if (parent.kind == YamlNode::Kind::kMap && parent.keys.size() == parent.items.size()) {
      if (node.kind != YamlNode::Kind::kScalar) throw Refused{node.line, "a key must be a plain text"};
      for (const auto& [key, line] : parent.keys) {
        if (key == node.text) {
          throw Refused{node.line, fmt::format("key \"{}\" stands twice (first on line {})", key, line)};
        }
      }
      parent.keys.emplace_back(std::move(node.text), node.line);
      return;
    }
    parent.items.push_back(std::move(node));
  }

  std::vector<YamlNode> open_;
  YamlNode root_;
};

}  // namespace

Result<YamlNode> read_yaml(const std::filesystem::path& path) {
  HTPIPE_TRY(const std::string text, read_text(path));
  return parse_yaml(text, path.string());
}

Result<YamlNode> parse_yaml(std::string_view text, const std::string& file) {
  if (text.size() > kLargestFile) {
    return fail(
        Error(Code::kConfigSyntax, fmt::format("{} bytes are no file that a person wrote", text.size())).in_file(file));
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder;
    if (!parser.HandleNextDocument(builder)) {
      return fail(Error(Code::kConfigSyntax, "the file is empty").in_file(file, 1));
    }
    TreeBuilder rest;
    if (parser.HandleNextDocument(rest)) {
      return fail(Error(Code::kConfigSyntax, "a second document (---) begins").in_file(file));
    }
    return builder.take();
  } catch (const Refused& refused) {
    return fail(Error(Code::kConfigSyntax, refused.message).in_file(file, refused.line));
  } catch (const YAML::Exception& error) {
    return fail(Error(Code::kConfigSyntax, error.msg).in_file(file, line_of(error.mark)));
  }
}

void YamlFindings::add(Code code, int line, std::string message, std::string hint) {
  found_.push_back({code, line, std::move(message), std::move(hint)});
}

Status YamlFindings::status() const {
  if (found_.empty()) return {};
  std::vector<Finding> sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Finding& a, const Finding& b) { return a.line < b.line; });
  const Finding& first = sorted.front();
  Error error = Error(first.code, first.message).in_file(file_.string(), first.line).with_hint(first.hint);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    error.notes.push_back(fmt::format("line {}: {}: {}", sorted[i].line, word(sorted[i].code), sorted[i].message));
  }
  return fail(std::move(error));
}

}  // namespace htpipe
