#include "ir/attributes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace htpipe {
namespace {

bool before(const std::pair<std::string, Attribute>& item, std::string_view name) { return item.first < name; }

template <typename T>
const T& get(const Attributes& attributes, std::string_view name) {
  const Attribute* attribute = attributes.find(name);
  HTPIPE_CHECK(attribute != nullptr, fmt::format("no attribute {}", name));
  const T* value = std::get_if<T>(attribute);
  HTPIPE_CHECK(value != nullptr, fmt::format("attribute {} has another type", name));
  return *value;
}

std::string float_text(float value) {
  const std::string text = fmt::format("{}", value);
  return text + "f";
}

}  // namespace

Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> items) {
  for (const auto& [name, value] : items) set(name, value);
}

void Attributes::set(std::string_view name, Attribute value) {
  const auto at = std::lower_bound(items_.begin(), items_.end(), name, before);
  if (at != items_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    items_.emplace(at, std::string(name), std::move(value));
  }
}

const Attribute* Attributes::find(std::string_view name) const {
  const auto at = std::lower_bound(items_.begin(), items_.end(), name, before);
  return at != items_.end() && at->first == name ? &at->second : nullptr;
}

bool Attributes::flag(std::string_view name) const { return get<bool>(*this, name); }
std::int64_t Attributes::integer(std::string_view name) const { return get<std::int64_t>(*this, name); }
float Attributes::real(std::string_view name) const { return get<float>(*this, name); }
const std::string& Attributes::text(std::string_view name) const { return get<std::string>(*this, name); }
const std::vector<std::int64_t>& Attributes::integers(std::string_view name) const {
  return get<std::vector<std::int64_t>>(*this, name);
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '\n') result += '\\';
    result += c == '\n' ? 'n' : c;
  }
  return result + "\"";
}

std::string to_string(const Attribute& attribute) {
  struct Printer {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(float value) const { return float_text(value); }
    std::string operator()(const std::string& value) const { return quote(value); }
    std::string operator()(const std::vector<std::int64_t>& values) const {
      return fmt::format("[{}]", fmt::join(values, ","));
    }
    std::string operator()(const std::vector<float>& values) const {
      std::vector<std::string> parts;
      for (const float value : values) parts.push_back(float_text(value));
      return fmt::format("[{}]", fmt::join(parts, ","));
    }
  };
  return std::visit(Printer{}, attribute);
}

}  // namespace htpipe
