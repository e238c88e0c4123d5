// Reading of the text form; see text.h.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <random>
#include <utility>

#include "ir/text.h"
#include "ir/text_number.h"
#include "tensor/checked_size.h"

namespace htpipe {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 34;
/// A constant that is written as a rule: a few bytes of text must not fill the memory.
constexpr std::int64_t kMaxGenerated = std::int64_t{1} << 24;

/// A syntax error on its way out of the recursive descent; never leaves this file.
struct SyntaxError {
  Error error;
};

class Parser {
 public:
  Parser(std::string_view text, const BlobSource& blobs) : text_(text), blobs_(blobs) {}

  Result<Graph> run() {
    try {
      Graph graph = parse();
      HTPIPE_CHECK_OK(verify(graph));
      return graph;
    } catch (SyntaxError& failure) {
      return fail(std::move(failure.error));
    }
  }

 private:
  [[noreturn]] void stop(const std::string& message) const { stop_at(line_, message); }
  [[noreturn]] static void stop_at(int line, const std::string& message) {
    throw SyntaxError{Error(Code::kGraphSyntax, message).in_file("graph text", line)};
  }

  void skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        if (c == '\n') ++line_;
        ++at_;
      } else {
        return;
      }
    }
  }
  [[nodiscard]] bool peek(std::string_view token) {
    skip();
    return text_.substr(at_, token.size()) == token;
  }
  bool accept(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) stop(fmt::format("expected '{}'", token));
  }
  std::string word() {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_' ||
                                  text_[at_] == '.' || text_[at_] == '-')) {
      ++at_;
    }
    if (at_ == begin) stop("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string value_name() {
    expect("%");
    if (!peek("\"")) return word();
    std::string name = quoted();
    if (name.empty()) stop("a name is empty");
    return name;
  }
  std::string quoted() {
    expect("\"");
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\n') ++line_;
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        if (c == 'n') c = '\n';
      }
      result += c;
    }
    if (at_ == text_.size()) stop("a string does not end");
    ++at_;
    return result;
  }
  /// The characters of a number.
  std::string number_text() {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '.' ||
                                  text_[at_] == '-' || text_[at_] == '+')) {
      ++at_;
    }
    if (at_ == begin) stop("expected a number");
    return std::string(text_.substr(begin, at_ - begin));
  }
  /// The value of a result, or its error at the present line.
  template <typename T>
  T take(Result<T> result) const {
    if (!result) stop(result.error().message);
    return std::move(*result);
  }
  void check(const Status& status) const {
    if (!status) stop(status.error().message);
  }
  std::int64_t integer() { return take(text::parse_integer(number_text())); }
  template <typename T>
  T small_integer() {
    const std::int64_t value = integer();
    if (value < std::numeric_limits<T>::lowest() || value > std::numeric_limits<T>::max()) {
      stop(fmt::format("{} is out of range", value));
    }
    return static_cast<T>(value);
  }
  float real() { return take(text::parse_float(number_text())); }

  template <typename Item>
  void list(std::string_view open, std::string_view close, Item item) {
    expect(open);
    if (accept(close)) return;
    do {
      item();
    } while (accept(","));
    expect(close);
  }

  Encoding encoding(DType dtype) {
    Encoding result;
    result.bits = static_cast<int>(8 * size_of(dtype));
    expect("<");
    if (accept("axis")) {
      result.axis = small_integer<int>();
      expect(",");
      if (accept("block")) {
        result.block = integer();
        if (result.block < 1) stop("a block has at least one element");
        expect(",");
      }
      expect("scales");
      list("[", "]", [&] { result.scales.push_back(real()); });
      expect(",");
      expect("zeros");
      list("[", "]", [&] { result.zero_points.push_back(small_integer<std::int32_t>()); });
    } else {
      expect("scale");
      result.scales.push_back(real());
      expect(",");
      expect("zero");
      result.zero_points.push_back(small_integer<std::int32_t>());
    }
    if (accept(",")) {
      expect("bits");
      result.bits = small_integer<int>();
    }
    expect(">");
    return result;
  }

  TensorType type() {
    TensorType result;
    const std::string name = word();
    const auto dtype = parse_dtype(name);
    if (!dtype) stop(fmt::format("no data type '{}'", name));
    result.dtype = *dtype;
    if (peek("<")) result.encoding = encoding(*dtype);
    list("[", "]", [&] { result.shape.push_back(integer()); });
    const auto size = checked_size_bytes(result.shape, result.dtype);
    if (!size || *size > kMaxBytes) stop(fmt::format("the shape {} is absurd", to_string(result.shape)));
    return result;
  }

  Tensor constant() {
    const TensorType constant_type = type();
    if (accept("sha")) {
      const std::string sha = word();
      const Tensor tensor = blobs_ ? blobs_(sha, constant_type) : Tensor();
      if (tensor.empty()) stop(fmt::format("the bytes of constant {} are not known", sha));
      if (tensor.bytes().size() != constant_type.size_bytes()) stop(fmt::format("constant {} has another size", sha));
      return tensor.with_type(constant_type);
    }
    const std::int64_t count = constant_type.count();
    const bool splat = accept("splat");
    if (splat || accept("random")) {
      if (count > kMaxGenerated) stop("a constant is too large to be written as a rule");
      const std::string number = number_text();
      std::mt19937 generator(splat ? 0U : static_cast<std::uint32_t>(take(text::parse_integer(number))));
      Tensor tensor(constant_type);
      for (std::int64_t i = 0; i < count; ++i) {
        check(splat ? text::store_element(tensor, i, number)
                    : text::store_random(tensor, i, static_cast<std::uint32_t>(generator())));
      }
      return tensor;
    }
    // Each element takes a character at least: no memory for what cannot come.
    if (static_cast<std::uint64_t>(count) > text_.size() - at_) stop("a constant has too few elements");
    Tensor tensor(constant_type);
    std::int64_t index = 0;
    list("[", "]", [&] {
      const std::string number = number_text();
      if (index >= count) stop("a constant has too many elements");
      check(text::store_element(tensor, index++, number));
    });
    if (index != count) stop("a constant has too few elements");
    return tensor;
  }

  Attribute attribute() {
    if (accept("true")) return true;
    if (accept("false")) return false;
    if (peek("\"")) return quoted();
    if (!peek("[")) return scalar(number_text());
    std::vector<std::int64_t> integers;
    std::vector<float> reals;
    list("[", "]", [&] {
      const Attribute item = scalar(number_text());
      if (const auto* value = std::get_if<std::int64_t>(&item)) integers.push_back(*value);
      if (const auto* value = std::get_if<float>(&item)) reals.push_back(*value);
    });
    if (reals.empty()) return integers;
    if (!integers.empty()) stop("a list mixes integers and floats");
    return reals;
  }
  Attribute scalar(std::string number) const {
    if (number.size() > 1 && number.back() == 'f' && number != "inf" && number != "-inf") {
      number.pop_back();
      return take(text::parse_float(number));
    }
    return take(text::parse_integer(number));
  }

  Value* known(const std::string& name) const {
    Value* value = graph_->find_value(name);
    if (value == nullptr) stop(fmt::format("%{} is not defined", name));
    return value;
  }

  void node(const std::vector<std::string>& names) {
    const std::string op = word();
    const int line = line_;  // the end of a node is known only on the next line
    std::vector<Value*> operands;
    list("(", ")", [&] { operands.push_back(accept("_") ? nullptr : known(value_name())); });
    Attributes attributes;
    if (peek("{")) {
      list("{", "}", [&] {
        const std::string name = word();
        expect("=");
        attributes.set(name, attribute());
      });
    }
    std::vector<TensorType> types;
    if (accept(":")) {
      do {
        types.push_back(type());
      } while (accept(","));
    }
    Source source;
    if (accept("@")) source.layer = quoted();
    if (accept("line \"")) {
      at_ -= 1;
      source.line = quoted();
    }
    auto added = graph_->add_node(op, names.front(), std::move(attributes), std::move(operands), std::move(source));
    if (!added) throw SyntaxError{std::move(added.error()).in_file("graph text", line)};
    const auto& results = (*added)->results;
    if (results.size() != names.size() || (!types.empty() && types.size() != names.size())) {
      stop_at(line, fmt::format("{} has {} results", op, results.size()));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (results[i]->name != names[i]) graph_->rename(results[i], names[i]);
      if (!types.empty()) results[i]->type = types[i];
    }
  }

  Graph parse() {
    expect("graph");
    expect("@");
    Graph graph(word());
    graph_ = &graph;
    list("(", ")", [&] {
      const std::string name = value_name();
      if (graph.find_value(name) != nullptr) stop(fmt::format("%{} is defined twice", name));
      expect(":");
      graph.add_input(name, type());
    });
    expect("->");
    std::vector<std::string> outputs;
    list("(", ")", [&] { outputs.push_back(value_name()); });
    expect("{");
    while (!accept("}")) {
      std::vector<std::string> names;
      do {
        names.push_back(value_name());
        if (graph.find_value(names.back()) != nullptr || std::count(names.begin(), names.end(), names.back()) > 1) {
          stop(fmt::format("%{} is defined twice", names.back()));
        }
      } while (accept(","));
      expect("=");
      if (accept("const")) {
        graph.add_constant(names.front(), constant());
      } else {
        node(names);
      }
    }
    skip();
    if (at_ != text_.size()) stop("text after the graph");
    std::vector<Value*> values;
    for (const std::string& name : outputs) values.push_back(known(name));
    graph.set_outputs(std::move(values));
    return graph;
  }

  std::string_view text_;
  const BlobSource& blobs_;
  std::size_t at_ = 0;
  int line_ = 1;
  Graph* graph_ = nullptr;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, const BlobSource& blobs) { return Parser(text, blobs).run(); }

}  // namespace htpipe
