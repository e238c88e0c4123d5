#include "ir/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/check.h"
#include "base/hash.h"
#include "ir/text.h"
#include "tensor/checked_size.h"

namespace htpipe {

namespace {

/// The operator's rule, and sizes that can be counted: rules multiply dimensions without looking.
Result<std::vector<TensorType>> infer_checked(const OpDef& op, const NodeView& view) {
  HTPIPE_TRY(std::vector<TensorType> types, op.infer(view));
  for (const TensorType& type : types) {
    if (!checked_size_bytes(type.shape, type.dtype)) {
      return fail(Code::kShapeMismatch, fmt::format("the result {} is absurdly large", to_string(type.shape)));
    }
  }
  return types;
}

}  // namespace

NodeTypes::NodeTypes(const Attributes& attributes, const std::vector<Value*>& operands) : attributes_(&attributes) {
  for (const Value* operand : operands) {
    types_.push_back(operand != nullptr ? &operand->type : nullptr);
    constants_.push_back(operand != nullptr && operand->is_constant() ? &operand->constant : nullptr);
  }
}

NodeTypes::NodeTypes(const Node& node) : NodeTypes(node.attributes, node.operands) {
  for (const Value* result : node.results) results_.push_back(&result->type);
}

Value* Graph::find_value(std::string_view name) const {
  const auto at = names_.find(name);
  return at == names_.end() ? nullptr : at->second;
}

std::string Graph::unique_name(std::string_view wanted) const {
  std::string name(wanted);
  if (find_value(name) == nullptr) return name;
  // Names like "add_17": a few small numbers are tried, then the search goes on where it ended the last time.
  constexpr std::int64_t kSmall = 8;
  for (std::int64_t suffix = 2; suffix <= kSmall; ++suffix) {
    name = fmt::format("{}_{}", wanted, suffix);
    if (find_value(name) == nullptr) return name;
  }
  std::int64_t& suffix = suffixes_.try_emplace(std::string(wanted), kSmall).first->second;
  do {
    name = fmt::format("{}_{}", wanted, ++suffix);
  } while (find_value(name) != nullptr);
  return name;
}

Value* Graph::add_value(std::string name, TensorType type) {
  values_.push_back(std::make_unique<Value>());
  Value* value = values_.back().get();
  value->name = std::move(name);
  value->type = std::move(type);
  value->place = std::prev(values_.end());
  names_.emplace(value->name, value);
  return value;
}

Node* Graph::insert(std::unique_ptr<Node> node, NodeList::iterator at) {
  constexpr std::int64_t kGap = std::int64_t{1} << 24;
  Node* added = node.get();
  added->place = nodes_.insert(at, std::move(node));
  const std::int64_t low = added->place == nodes_.begin() ? 0 : (*std::prev(added->place))->position;
  const std::int64_t high = at == nodes_.end() ? low + 2 * kGap : (*at)->position;
  added->position = low + (high - low) / 2;
  if (added->position == low) {  // no number is left between the neighbours
    std::int64_t position = 0;
    for (const auto& other : nodes_) other->position = position += kGap;
  }
  return added;
}

Value* Graph::add_input(std::string name, TensorType type) {
  inputs_.push_back(add_value(unique_name(name), std::move(type)));
  return inputs_.back();
}

Value* Graph::add_constant(std::string_view name, Tensor tensor) {
  Value* value = add_value(unique_name(name), tensor.type());
  value->constant = std::move(tensor);
  return value;
}

Result<Node*> Graph::add_node(std::string_view op_name, std::string_view name, Attributes attributes,
                              std::vector<Value*> operands, Source source, const Node* before) {
  const OpDef* op = find_op(op_name);
  if (op == nullptr) {
    return fail(Error(Code::kUnsupportedOp, fmt::format("no operator {}", op_name)).at_node(std::string(name)));
  }
  const auto with_place = [&name](Error error) { return fail(std::move(error).at_node(std::string(name))); };
  auto completed = complete(*op, attributes);
  if (!completed) return with_place(std::move(completed.error()));

  const bool variadic = !op->operands.empty() && op->operands.back().variadic;
  if (!variadic && operands.size() > op->operands.size()) {
    return with_place(Error(Code::kUnsupportedForm, fmt::format("{} takes {} operands", op_name, op->operands.size())));
  }
  if (!variadic || operands.size() < op->operands.size()) operands.resize(op->operands.size(), nullptr);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const OperandSpec& spec = op->operands[std::min(i, op->operands.size() - 1)];
    if (operands[i] == nullptr && !spec.optional) {
      return with_place(Error(Code::kUnsupportedForm, fmt::format("operand {} of {} is missing", spec.name, op_name)));
    }
  }
  auto types = infer_checked(*op, NodeTypes(*completed, operands).view());
  if (!types) return with_place(std::move(types.error()));

  auto node = std::make_unique<Node>();
  node->op = op;
  node->attributes = std::move(*completed);
  node->source = std::move(source);
  for (TensorType& type : *types) {
    Value* result = add_value(unique_name(name), std::move(type));
    result->producer = node.get();
    node->results.push_back(result);
  }
  node->operands = std::move(operands);
  for (Value* operand : node->operands) {
    if (operand != nullptr) operand->users.push_back(node.get());
  }
  return insert(std::move(node), before == nullptr ? nodes_.end() : before->place);
}

void Graph::set_operand(Node& node, std::size_t index, Value* value) {
  Value*& slot = node.operands.at(index);
  if (slot != nullptr) slot->users.erase(std::find(slot->users.begin(), slot->users.end(), &node));
  slot = value;
  if (value != nullptr) value->users.push_back(&node);
}

void Graph::replace_uses(Value* from, Value* to) {
  const std::vector<Node*> users = from->users;
  for (Node* user : users) {
    for (std::size_t i = 0; i < user->operands.size(); ++i) {
      if (user->operands[i] == from) set_operand(*user, i, to);
    }
  }
  std::replace(outputs_.begin(), outputs_.end(), from, to);
}

void Graph::erase(Node* node) {
  for (std::size_t i = 0; i < node->operands.size(); ++i) set_operand(*node, i, nullptr);
  const std::vector<Value*> results = node->results;
  nodes_.erase(node->place);
  for (Value* result : results) {
    result->producer = nullptr;
    erase(result);
  }
}

void Graph::erase(Value* value) {
  HTPIPE_CHECK(value->users.empty() && value->producer == nullptr && !is_output(value), value->name + " is in use");
  names_.erase(value->name);
  values_.erase(value->place);
}

void Graph::rename(Value* value, std::string name) {
  if (value->name == name) return;
  HTPIPE_CHECK(find_value(name) == nullptr, name + " is taken");
  names_.erase(value->name);
  value->name = std::move(name);
  names_.emplace(value->name, value);
}

bool Graph::is_output(const Value* value) const {
  return std::find(outputs_.begin(), outputs_.end(), value) != outputs_.end();
}

Graph Graph::clone() const {
  Graph copy(name_);
  std::unordered_map<const Value*, Value*> values;
  std::unordered_map<const Node*, Node*> nodes;
  for (const auto& value : values_) {
    Value* twin = copy.add_value(value->name, value->type);
    twin->constant = value->constant;
    values[value.get()] = twin;
  }
  for (const auto& node : nodes_) {
    auto twin = std::make_unique<Node>();
    twin->op = node->op;
    twin->attributes = node->attributes;
    twin->source = node->source;
    for (const Value* operand : node->operands)
      twin->operands.push_back(operand != nullptr ? values[operand] : nullptr);
    for (const Value* result : node->results) {
      twin->results.push_back(values[result]);
      values[result]->producer = twin.get();
    }
    nodes[node.get()] = copy.insert(std::move(twin), copy.nodes_.end());
  }
  for (const auto& value : values_) {
    for (const Node* user : value->users) values[value.get()]->users.push_back(nodes[user]);
  }
  for (const Value* input : inputs_) copy.inputs_.push_back(values[input]);
  for (const Value* output : outputs_) copy.outputs_.push_back(values[output]);
  return copy;
}

namespace {

Status verify_encoding(const Value& value) {
  if (!value.type.encoding) return {};
  const Encoding& encoding = *value.type.encoding;
  const auto bad = [&value](std::string_view why) {
    return fail(Error(Code::kGraphInvalid, fmt::format("encoding of %{} {}", value.name, why)).at_node(value.name));
  };
  if (!is_integer(value.type.dtype)) return bad("stands on a type that is no integer");
  if (encoding.bits < 1 || static_cast<std::size_t>(encoding.bits) > 8 * size_of(value.type.dtype)) {
    return bad("has a number of bits that its type cannot hold");
  }
  if (encoding.block < 0 || (encoding.block > 0 && encoding.per_tensor())) return bad("has blocks of no axis");
  if (!encoding.per_tensor() && static_cast<std::size_t>(encoding.axis) >= value.type.shape.size()) {
    return bad("has an axis outside the shape");
  }
  const auto expected = static_cast<std::size_t>(element_count(scale_shape(encoding, value.type.shape)));
  if (encoding.scales.size() != expected || encoding.zero_points.size() != expected) {
    return bad("has the wrong number of scales or zero points");
  }
  for (const float scale : encoding.scales) {
    if (!(scale > 0.0F) || scale > 3.0e38F) return bad("has a scale that is not positive and finite");
  }
  return {};
}

Status verify_node(const Node& node, const std::unordered_set<const Value*>& known) {
  const auto bad = [&node](const std::string& why) {
    return fail(Error(Code::kGraphInvalid, why).at_node(node.name()));
  };
  for (const Value* operand : node.operands) {
    if (operand != nullptr && known.count(operand) == 0)
      return bad(fmt::format("uses %{} before it is made", operand->name));
  }
  auto types = infer_checked(*node.op, NodeTypes(node).view());
  if (!types) return fail(std::move(types.error()).at_node(node.name()));
  if (types->size() != node.results.size()) return bad("has the wrong number of results");
  for (std::size_t i = 0; i < types->size(); ++i) {
    const TensorType& found = node.results[i]->type;
    const TensorType& expected = (*types)[i];
    if (found.dtype != expected.dtype || found.shape != expected.shape) {
      return bad(fmt::format("result is {}, the operator's rule gives {}", to_string(found), to_string(expected)));
    }
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  std::unordered_set<std::string_view> names;
  names.reserve(graph.values().size());
  std::unordered_set<const Value*> known;
  known.reserve(graph.values().size());
  for (const auto& value : graph.values()) {
    if (!names.insert(value->name).second) {
      return fail(Error(Code::kGraphInvalid, "two values have this name").at_node(value->name));
    }
    HTPIPE_CHECK_OK(verify_encoding(*value));
    if (value->is_constant()) {
      known.insert(value.get());
      if (!(value->constant.type() == value->type)) {
        return fail(Error(Code::kGraphInvalid, "a constant's tensor has another type").at_node(value->name));
      }
    }
  }
  known.insert(graph.inputs().begin(), graph.inputs().end());
  for (const auto& node : graph.nodes()) {
    HTPIPE_CHECK_OK(verify_node(*node, known));
    known.insert(node->results.begin(), node->results.end());
  }
  for (const Value* output : graph.outputs()) {
    if (known.count(output) == 0) {
      return fail(Error(Code::kGraphInvalid, "an output is made by no node").at_node(output->name));
    }
  }
  return {};
}

std::string digest(const Graph& graph) {
  Sha256 hash;
  hash.add(print(graph));
  // In the order in which the text names them, so that the graph of a printed text has the same digest.
  std::unordered_set<const Value*> seen;
  const auto add = [&](const Value* value) {
    if (value != nullptr && value->is_constant() && seen.insert(value).second) hash.raw(value->constant.bytes());
  };
  for (const auto& node : graph.nodes()) {
    for (const Value* operand : node->operands) add(operand);
  }
  for (const auto& value : graph.values()) add(value.get());
  return hash.hex();
}

}  // namespace htpipe
