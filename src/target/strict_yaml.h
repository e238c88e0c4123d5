// YAML for files that people write: every node knows its line, and readers accept only what they know.
// Invariant: no anchors, aliases, tags or duplicate keys; depth and size are bounded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace htpipe {

struct YamlNode {
  enum class Kind : std::uint8_t { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  int line = 0;                                   ///< 1-based
  std::string text;                               ///< kScalar
  bool quoted = false;                            ///< kScalar in quotes: never a number or a flag
  std::vector<YamlNode> items;                    ///< kList, and the values of a kMap in the order of `keys`
  std::vector<std::pair<std::string, int>> keys;  ///< kMap: key and its line
};

/// Reads one YAML document. Errors: file-missing, file-unreadable, config-syntax with the line.
Result<YamlNode> read_yaml(const std::filesystem::path& path);
Result<YamlNode> parse_yaml(std::string_view text, const std::string& file);

/// What is wrong with one file; all of it is found before anything is reported.
class YamlFindings {
 public:
  explicit YamlFindings(std::filesystem::path file) : file_(std::move(file)) {}

  void add(Code code, int line, std::string message, std::string hint = {});
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] bool empty() const { return found_.empty(); }
  /// The first finding by line as the error, the others as its notes.
  [[nodiscard]] Status status() const;

 private:
  struct Finding {
    Code code;
    int line;
    std::string message;
    std::string hint;
  };
  std::filesystem::path file_;
  std::vector<Finding> found_;
};

enum class Need : std::uint8_t { kRequired, kOptional };

/// Reads the keys of one map. Each read marks its key as known; `finish` then reports unknown and missing keys.
/// A value that does not fit is reported and leaves `out` as it was.
class YamlMap {
 public:
  /// `where` is the way to the map for messages ("gates"), empty for the document.
  YamlMap(const YamlNode& node, std::string where, YamlFindings& findings);

  void text(std::string_view key, std::string& out, Need need = Need::kOptional);
  /// A text that is one of `words`.
  void choice(std::string_view key, std::string& out, const std::vector<std::string>& words,
              Need need = Need::kOptional);
  void flag(std::string_view key, bool& out, Need need = Need::kOptional);
  void integer(std::string_view key, std::int64_t& out, std::int64_t low, std::int64_t high,
               Need need = Need::kOptional);
  /// A finite number in [low, high].
  void real(std::string_view key, double& out, double low, double high, Need need = Need::kOptional);
  /// A file or folder; relative ones are resolved against the folder of the YAML file.
  void path(std::string_view key, std::filesystem::path& out, Need need = Need::kOptional);
  /// A list of texts with their lines.
  void texts(std::string_view key, std::vector<std::pair<std::string, int>>& out, Need need = Need::kOptional);
  /// The map under `key`; an empty one when it is absent. Call `finish` on it too.
  [[nodiscard]] YamlMap map(std::string_view key, Need need = Need::kOptional);

  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  /// Whether the key has a map, for keys that take a text or a map.
  [[nodiscard]] bool has_map(std::string_view key) const {
    const YamlNode* node = find(key);
    return node != nullptr && node->kind == YamlNode::Kind::kMap;
  }
  /// Its keys in order, for maps whose keys are the user's own words.
  [[nodiscard]] std::vector<std::string> keys() const;
  [[nodiscard]] int line_of(std::string_view key) const;
  [[nodiscard]] int line() const { return node_->line; }
  /// Reports a finding of the caller at `key` (or at the map when it has no such key).
  void complain(std::string_view key, Code code, std::string message, std::string hint = {});
  void finish();

 private:
  [[nodiscard]] const YamlNode* find(std::string_view key) const;
  const YamlNode* want(std::string_view key, Need need);
  const YamlNode* scalar(std::string_view key, Need need, std::string_view expected);
  [[nodiscard]] std::string named(std::string_view key) const;
  void wrong_type(const YamlNode& node, std::string_view key, std::string_view expected);

  const YamlNode* node_;
  std::string where_;
  YamlFindings* findings_;
  std::vector<std::string> known_;
  std::vector<std::string> missing_;
  bool absent_ = false;
};

}  // namespace htpipe
