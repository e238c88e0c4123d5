// Attributes of a node: typed, sorted by name, complete (defaults filled in from the operator's schema).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace htpipe {

using Attribute = std::variant<bool, std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>>;

/// A small sorted map from name to attribute. Getters expect the name and type of the schema: anything else is a bug.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> items);

  void set(std::string_view name, Attribute value);
  [[nodiscard]] const Attribute* find(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] float real(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] const std::vector<std::int64_t>& integers(std::string_view name) const;

  [[nodiscard]] const std::vector<std::pair<std::string, Attribute>>& items() const { return items_; }
  bool operator==(const Attributes&) const = default;

 private:
  std::vector<std::pair<std::string, Attribute>> items_;
};

/// The text form of one attribute: true, 3, 0.5f, "relu", [1,1], [0.5f,1f].
[[nodiscard]] std::string to_string(const Attribute& attribute);
/// `text` between quotation marks; quotation marks, backslashes and line ends within are escaped.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace htpipe
