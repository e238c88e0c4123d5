// How schema files walk a parsed JSON text: values that know their path, and a reader that keeps the first error and
// gives empty values after it, so that the code reads like torch's schema.
// Only the .cc files of the schema include this (simdjson is a heavy header).
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "import/pt2/schema.h"

namespace htpipe::pt2 {

namespace dom = simdjson::dom;

/// A JSON value and the way to it. A spot lives shorter than the spot it came from.
struct Spot {
  dom::element value;
  const Spot* parent = nullptr;
  std::string_view key = {};
  std::size_t index = 0;

  [[nodiscard]] std::string path() const {
    if (parent == nullptr) return "$";
    return key.data() == nullptr ? fmt::format("{}[{}]", parent->path(), index)
                                 : fmt::format("{}.{}", parent->path(), key.substr(0, 200));
  }
};

class SchemaReader {
 public:
  SymbolValues symbols;           ///< symbols whose number is known
  std::set<std::string> missing;  ///< symbols that were met without one
  /// Numbers by name (sym_int_values and its kin) of the graph that is being read.
  std::map<std::string, Argument, std::less<>> numbers;

  [[nodiscard]] bool ok() const { return !error_; }
  [[nodiscard]] Error take_error() { return std::move(*error_); }

  void fail_at(const Spot& spot, std::string_view message, Code code = Code::kJsonShape, std::string hint = {}) {
    if (error_) return;
    error_ = Error(code, fmt::format("{}: {}", spot.path(), message)).with_hint(std::move(hint));
  }

  /// The member `key` of an object; after an error the object itself, which nobody looks at.
  Spot field(const Spot& object, std::string_view key) {
    dom::element value;
    if (!ok()) return object;
    if (!object.value.is_object()) {
      fail_at(object, "is no object");
    } else if (object.value.at_key(key).get(value) != simdjson::SUCCESS) {
      fail_at(object, fmt::format("lacks '{}'", key));
    } else {
      return {value, &object, key};
    }
    return object;
  }
  /// The member `key` unless it is missing or null.
  std::optional<Spot> optional_field(const Spot& object, std::string_view key) {
    dom::element value;
    if (!ok() || object.value.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
    return Spot{value, &object, key};
  }

  template <typename Body>
  void for_each(const Spot& list, const Body& body) {
    dom::array array;
    if (!ok()) return;
    if (list.value.get(array) != simdjson::SUCCESS) return fail_at(list, "is no list");
    std::size_t index = 0;
    for (const dom::element value : array) {
      body(Spot{value, &list, {}, index++});
      if (!ok()) return;
    }
  }
  template <typename Body>
  void for_each_member(const Spot& spot, const Body& body) {
    dom::object object;
    if (!ok()) return;
    if (spot.value.get(object) != simdjson::SUCCESS) return fail_at(spot, "is no object");
    for (const dom::key_value_pair member : object) {
      body(Spot{member.value, &spot, member.key});
      if (!ok()) return;
    }
  }
  /// The one member of a union such as {"as_int": 3}.
  template <typename Body>
  void on_union(const Spot& spot, const Body& body) {
    std::size_t members = 0;
    for_each_member(spot, [&](const Spot& member) {
      if (++members == 1) body(member.key, member);
    });
    if (members != 1) fail_at(spot, fmt::format("has {} members where one is expected", members));
  }

  std::int64_t integer(const Spot& spot) { return get<std::int64_t>(spot, "is no integer"); }
  bool boolean(const Spot& spot) { return get<bool>(spot, "is neither true nor false"); }
  std::string text(const Spot& spot) { return std::string(get<std::string_view>(spot, "is no text")); }
  std::string text(const Spot& object, std::string_view key) { return text(field(object, key)); }
  /// A number, or one of the words that torch writes for numbers that JSON lacks.
  double number(const Spot& spot) {
    std::string_view word;
    if (ok() && spot.value.get(word) == simdjson::SUCCESS) {
      if (word == "Infinity") return std::numeric_limits<double>::infinity();
      if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
      if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
    }
    return get<double>(spot, "is no number");
  }

 private:
  template <typename T>
  T get(const Spot& spot, std::string_view complaint) {
    T value{};
    if (ok() && spot.value.get(value) != simdjson::SUCCESS) fail_at(spot, complaint);
    return value;
  }

  std::optional<Error> error_;
};

template <typename T, typename Read>
std::vector<T> list_of(SchemaReader& in, const Spot& spot, const Read& read) {
  std::vector<T> values;
  in.for_each(spot, [&](const Spot& item) { values.push_back(read(item)); });
  return values;
}

/// SymInt: {"as_int": 3} or {"as_expr": {"expr_str": "Symbol('s77', …)"}}; empty when its value is not known.
std::optional<std::int64_t> symbolic_integer(SchemaReader& in, const Spot& spot);
/// The sizes of user inputs that are expressions, and the numbers that `dimensions` gives to their symbols.
void bind_symbols(SchemaReader& in, const Spot& root, const Dimensions& dimensions);
/// The error for symbols without a number, unless all of them have one.
void check_symbols(SchemaReader& in, const Spot& root);
/// The nodes, values and results of a graph.
void read_body(SchemaReader& in, const Spot& graph, Body& body);
/// An Argument or ConstantValue union.
Argument read_argument(SchemaReader& in, const Spot& spot);
std::vector<Argument> read_arguments(SchemaReader& in, const Spot& spot);
/// A TensorMeta whose shape is not absurd; see its `problem`.
TensorMeta read_tensor_meta(SchemaReader& in, const Spot& spot);

}  // namespace htpipe::pt2
