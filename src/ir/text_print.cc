// Printing of the text form; see text.h.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/hash.h"
#include "ir/text.h"

namespace htpipe {
namespace {

constexpr std::int64_t kInlineElements = 16;

/// A name of letters, digits, '_', '.' and '-' stands as it is, others between quotation marks.
std::string value_name(const Value* value) {
  if (value == nullptr) return "_";
  const bool plain = !value->name.empty() && std::all_of(value->name.begin(), value->name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
  });
  return "%" + (plain ? value->name : quote(value->name));
}

std::string element_text(const Tensor& stored, std::size_t index) {
  switch (stored.dtype()) {
    case DType::kF64:
      return fmt::format("{}", stored.data<double>()[index]);
    case DType::kF32:
      return fmt::format("{}", stored.data<float>()[index]);
    case DType::kI64:
      return fmt::format("{}", stored.data<std::int64_t>()[index]);
    case DType::kU64:
      return fmt::format("{}", stored.data<std::uint64_t>()[index]);
    default:
      return fmt::format("{}", stored.real(static_cast<std::int64_t>(index)));
  }
}

std::string constant_text(const Tensor& tensor) {
  if (tensor.count() > kInlineElements || tensor.dtype() == DType::kF16 || tensor.dtype() == DType::kBF16) {
    return "sha " + sha256_hex(tensor.bytes()).substr(0, 16);
  }
  TensorType plain = tensor.type();
  plain.encoding.reset();  // stored integers, not real values
  const Tensor stored = tensor.with_type(plain);
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < stored.count(); ++i) {
    parts.push_back(element_text(stored, static_cast<std::size_t>(i)));
  }
  return fmt::format("[{}]", fmt::join(parts, ","));
}

std::string attributes_text(const Node& node) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : node.attributes.items()) {
    const AttributeSpec* spec = node.op->attribute(name);
    if (!spec->required && spec->default_value == value) continue;
    parts.push_back(fmt::format("{}={}", name, to_string(value)));
  }
  return parts.empty() ? "" : fmt::format(" {{{}}}", fmt::join(parts, ", "));
}

std::string node_text(const Node& node) {
  std::vector<std::string> results;
  std::vector<std::string> types;
  for (const Value* result : node.results) {
    results.push_back(value_name(result));
    types.push_back(to_string(result->type));
  }
  // Trailing absent operands are not written.
  std::size_t count = node.operands.size();
  while (count > 0 && node.operands[count - 1] == nullptr) --count;
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < count; ++i) operands.push_back(value_name(node.operands[i]));
  std::string text = fmt::format("  {} = {}({}){} : {}", fmt::join(results, ", "), node.op->name,
                                 fmt::join(operands, ", "), attributes_text(node), fmt::join(types, ", "));
  if (!node.source.layer.empty()) text += " @ " + quote(node.source.layer);
  if (!node.source.line.empty()) text += " line " + quote(node.source.line);
  return text + "\n";
}

}  // namespace

std::string print(const Graph& graph) {
  std::vector<std::string> inputs;
  for (const Value* input : graph.inputs()) {
    inputs.push_back(fmt::format("{}: {}", value_name(input), to_string(input->type)));
  }
  std::vector<std::string> outputs;
  for (const Value* output : graph.outputs()) outputs.push_back(value_name(output));
  std::string text =
      fmt::format("graph @{}({}) -> ({}) {{\n", graph.name(), fmt::join(inputs, ", "), fmt::join(outputs, ", "));
  // Constants stand before their first user, in operand order: the text does not depend on the order of creation.
  std::map<const Value*, bool> printed;
  const auto print_constant = [&](const Value* value) {
    if (value == nullptr || !value->is_constant() || printed[value]) return;
    printed[value] = true;
    text +=
        fmt::format("  {} = const {} {}\n", value_name(value), to_string(value->type), constant_text(value->constant));
  };
  for (const auto& node : graph.nodes()) {
    for (const Value* operand : node->operands) print_constant(operand);
    text += node_text(*node);
  }
  for (const Value* output : graph.outputs()) print_constant(output);
  return text + "}\n";
}

}  // namespace htpipe
