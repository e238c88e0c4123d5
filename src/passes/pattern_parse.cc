// Reading of patterns; see pattern.h for the language.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/check.h"
#include "ir/op.h"
#include "ir/text_number.h"
#include "passes/pattern_form.h"

namespace htpipe::passes {
namespace {

/// Where a line is read.
struct Cursor {
  std::string_view text;
  std::size_t at = 0;

  void skip() {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
  }
  bool accept(std::string_view token) {
    skip();
    if (text.substr(at, token.size()) != token) return false;
    at += token.size();
    return true;
  }
  /// Letters, digits and the signs of names and numbers; empty when there are none.
  std::string word() {
    skip();
    const std::size_t begin = at;
    const auto belongs = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    while (at < text.size() && (belongs(text[at]) || text[at] == '.' || text[at] == '-' || text[at] == '+')) ++at;
    return std::string(text.substr(begin, at - begin));
  }
  bool accept_word(std::string_view wanted) {
    const std::size_t before = at;
    if (word() == wanted) return true;
    at = before;
    return false;
  }
  [[nodiscard]] bool done() {
    skip();
    return at == text.size();
  }
};

Result<std::string> name_at(Cursor& cursor) {
  std::string name = cursor.word();
  if (name.empty()) return fail(Code::kGraphSyntax, "expected a name");
  return name;
}

Result<Attribute> number_attribute(const std::string& number) {
  if (number.size() > 1 && number.back() == 'f' && number != "inf" && number != "-inf") {
    HTPIPE_TRY(const float value, text::parse_float(number.substr(0, number.size() - 1)));
    return Attribute(value);
  }
  HTPIPE_TRY(const std::int64_t value, text::parse_integer(number));
  return Attribute(value);
}

Result<Attribute> attribute_at(Cursor& cursor) {
  if (cursor.accept("\"")) {
    const std::size_t end = cursor.text.find('"', cursor.at);
    if (end == std::string_view::npos) return fail(Code::kGraphSyntax, "a string does not end");
    std::string word(cursor.text.substr(cursor.at, end - cursor.at));
    cursor.at = end + 1;
    return Attribute(std::move(word));
  }
  if (cursor.accept("[")) {
    std::vector<std::int64_t> numbers;
    while (!cursor.accept("]")) {
      HTPIPE_TRY(const std::int64_t number, text::parse_integer(cursor.word()));
      numbers.push_back(number);
      cursor.accept(",");
    }
    return Attribute(std::move(numbers));
  }
  if (cursor.accept_word("true")) return Attribute(true);
  if (cursor.accept_word("false")) return Attribute(false);
  return number_attribute(cursor.word());
}

/// Whether `op` has the operation, for real numbers or for truth values.
bool has_operation(const OpDef& op, const std::string& operation) {
  auto attributes = complete(op, {{"operation", operation}});
  if (!attributes) return false;
  for (const DType dtype : {DType::kF32, DType::kBool}) {
    const TensorType type = {dtype, {}, std::nullopt};
    const std::vector<const TensorType*> types(op.operands.size(), &type);
    const std::vector<const Tensor*> constants(op.operands.size(), nullptr);
    if (op.infer({*attributes, types, constants})) return true;
  }
  return false;
}

class Parser {
 public:
  Result<std::shared_ptr<const PatternForm>> run(std::string_view text) {
    int number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view whole = text.substr(at, end - at);
      ++number;
      at = end + 1;
      Cursor cursor{whole.substr(0, std::min(whole.find('#'), whole.size()))};
      if (cursor.done()) continue;
      if (auto status = line(cursor); !status) return fail(std::move(status.error()).in_file("pattern", number));
    }
    if (form_->last == nullptr) return fail(Code::kGraphSyntax, "a pattern without lines");
    finish();
    return std::shared_ptr<const PatternForm>(std::move(form_));
  }

 private:
  PatternValue* add_value(const std::string& name, PatternKind kind) {
    auto value = std::make_unique<PatternValue>();
    value->value.name = name;
    value->kind = kind;
    value->index = form_->values.size();
    PatternValue* added = value.get();
    form_->by_value.emplace(&added->value, added);
    if (!name.empty()) form_->by_name.emplace(name, added);
    form_->values.push_back(std::move(value));
    return added;
  }

  Status line(Cursor& cursor) {
    std::vector<std::string> names;
    do {
      if (!cursor.accept("%")) return fail(Code::kGraphSyntax, "expected '%'");
      HTPIPE_TRY(const std::string name, name_at(cursor));
      names.push_back("%" + name);
      if (form_->by_name.contains(names.back())) {
        return fail(Code::kGraphSyntax, fmt::format("{} is there already", names.back()));
      }
    } while (cursor.accept(","));
    if (!cursor.accept("=")) return fail(Code::kGraphSyntax, "expected '='");
    PatternNode flags;
    while (true) {
      if (cursor.accept_word("optional")) {
        flags.optional = true;
      } else if (cursor.accept_word("shared")) {
        flags.shared = true;
      } else {
        break;
      }
    }
    HTPIPE_TRY(const std::string op, name_at(cursor));
    HTPIPE_TRY(std::vector<Value*> operands, operands_at(cursor, flags));
    HTPIPE_TRY(Attributes attributes, attributes_at(cursor));
    if (!cursor.done()) return fail(Code::kGraphSyntax, "more than a node in a line");
    // Sums and products of many are chains.
    while ((op == "add" || op == "multiply") && operands.size() > 2) {
      HTPIPE_TRY(PatternNode * inner, make(op, {operands[0], operands[1]}, {}));
      operands.erase(operands.begin());
      operands.front() = &give_result(*inner, "")->value;
    }
    HTPIPE_TRY(PatternNode * node, make(op, std::move(operands), std::move(attributes)));
    node->optional = flags.optional;
    node->shared = flags.shared;
    node->rest = flags.rest;
    for (const std::string& name : names) form_->last = give_result(*node, name);
    if (names.size() > 1) form_->last = &form_->of(node->node.results.front());
    return {};
  }

  Result<std::vector<Value*>> operands_at(Cursor& cursor, PatternNode& flags) {
    std::vector<Value*> operands;
    if (!cursor.accept("(")) return fail(Code::kGraphSyntax, "expected '('");
    while (!cursor.accept(")")) {
      if (flags.rest) return fail(Code::kGraphSyntax, "an operand behind '...'");
      if (cursor.accept("...")) {
        flags.rest = true;
      } else {
        HTPIPE_TRY(Value * operand, operand_at(cursor));
        operands.push_back(operand);
      }
      if (!cursor.accept(",") && cursor.text.substr(cursor.at, 1) != ")") {
        return fail(Code::kGraphSyntax, "expected ',' or ')'");
      }
    }
    return operands;
  }

  Result<Value*> operand_at(Cursor& cursor) {
    PatternKind kind = PatternKind::kValue;
    if (cursor.accept_word("const")) kind = PatternKind::kConstant;
    if (cursor.accept_word("any")) kind = PatternKind::kAny;
    std::string name;
    if (cursor.accept("%")) {
      name = "%";
    } else if (cursor.accept("$")) {
      name = "$";
      kind = PatternKind::kNumber;
    } else if (cursor.accept_word("_")) {
      return nullptr;
    } else {
      HTPIPE_TRY(const float number, text::parse_float(cursor.word()));
      Value& scalar = add_value("", PatternKind::kScalar)->value;
      scalar.constant = Tensor::from<float>(scalar.type, std::vector<float>{number});
      return &scalar;
    }
    HTPIPE_TRY(const std::string word, name_at(cursor));
    const auto found = form_->by_name.find(name + word);
    return found != form_->by_name.end() ? &found->second->value : &add_value(name + word, kind)->value;
  }

  static Result<Attributes> attributes_at(Cursor& cursor) {
    Attributes attributes;
    if (!cursor.accept("{")) return attributes;
    while (!cursor.accept("}")) {
      HTPIPE_TRY(const std::string name, name_at(cursor));
      if (!cursor.accept("=")) return fail(Code::kGraphSyntax, "expected '='");
      HTPIPE_TRY(Attribute attribute, attribute_at(cursor));
      attributes.set(name, std::move(attribute));
      cursor.accept(",");
    }
    return attributes;
  }

  Result<PatternNode*> make(const std::string& name, std::vector<Value*> operands, Attributes attributes) {
    const OpDef* op = find_op(name);
    if (op == nullptr) {
      for (const char* family : {"ElementWiseBinary", "ElementWiseUnary", "ElementWiseNeuron"}) {
        const OpDef* candidate = find_op(family);
        if (op == nullptr && candidate != nullptr && has_operation(*candidate, name)) op = candidate;
      }
      if (op == nullptr) return fail(Code::kGraphSyntax, fmt::format("no operator \"{}\"", name));
      if (operands.size() != op->operands.size()) {
        return fail(Code::kGraphSyntax, fmt::format("{} has {} operands", name, op->operands.size()));
      }
      attributes.set("operation", name);
    }
    for (const auto& [attribute, value] : attributes.items()) {
      const AttributeSpec* spec = op->attribute(attribute);
      if (spec == nullptr || spec->default_value.index() != value.index()) {
        return fail(Code::kGraphSyntax, fmt::format("{} has no attribute {} of that type", op->name, attribute));
      }
    }
    auto node = std::make_unique<PatternNode>();
    node->node = {op, std::move(attributes), std::move(operands), {}, {}};
    for (Value* operand : node->node.operands) {
      if (operand != nullptr) operand->users.push_back(&node->node);
    }
    form_->nodes.push_back(std::move(node));
    return form_->nodes.back().get();
  }

  PatternValue* give_result(PatternNode& node, const std::string& name) {
    PatternValue* value = add_value(name, PatternKind::kInner);
    value->value.producer = &node.node;
    value->maker = &node;
    node.node.results.push_back(&value->value);
    return value;
  }

  /// Computes the forms and what every match needs.
  void finish() {
    const Graph nowhere("pattern");
    for (const auto& value : form_->values) {
      if (value->maker == nullptr) continue;
      value->form = algebra::product_of(nowhere, &value->value, true);
      for (Value* operand : value->maker->node.operands) {
        value->operands.push_back(operand == nullptr ? algebra::Product()
                                                     : algebra::product_of(nowhere, operand, false));
      }
    }
    for (const auto& node : form_->nodes) {
      const std::string kind = kind_of(node->node);
      if (!node->optional && !algebra::has_many_spellings(node->node)) form_->required.push_back(kind);
    }
  }

  std::unique_ptr<PatternForm> form_ = std::make_unique<PatternForm>();
};

}  // namespace

const PatternValue& PatternForm::named(std::string_view name) const {
  const auto found = by_name.find(name);
  HTPIPE_CHECK(found != by_name.end(), fmt::format("the pattern has no {}", name));
  return *found->second;
}

std::string kind_of(const Node& node) {
  const Attribute* operation = node.attributes.find("operation");
  std::string kind(node.op->name);
  return operation == nullptr ? kind : kind + " " + std::get<std::string>(*operation);
}

Result<std::shared_ptr<const PatternForm>> parse_pattern(std::string_view text) { return Parser().run(text); }

}  // namespace htpipe::passes
