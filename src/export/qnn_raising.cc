#include "export/qnn_raising.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "export/qnn_lowering.h"

namespace htpipe {
namespace {

const OpDef* op_of_type(std::string_view type) {
  for (const OpDef* op : registered_ops()) {
    if (op->lowering.type == type) return op;
  }
  return nullptr;
}

const qnn::ParamSpec* find_param(const qnn::OpSpec& op, std::string_view name) {
  const auto at =
      std::find_if(op.params.begin(), op.params.end(), [name](const qnn::ParamSpec& p) { return p.name == name; });
  return at == op.params.end() ? nullptr : &*at;
}

tl::unexpected<Error> bad_param(const qnn::ParamSpec& param, std::string_view wanted) {
  return fail(Code::kUnsupportedForm, fmt::format("parameter {} is no {}", param.name, wanted));
}

/// Any scalar number.
std::optional<std::int64_t> integer_of(const qnn::ParamSpec& param) {
  if (const auto* value = std::get_if<std::uint32_t>(&param.value)) return *value;
  if (const auto* value = std::get_if<std::int32_t>(&param.value)) return *value;
  if (const auto* value = std::get_if<bool>(&param.value)) return *value ? 1 : 0;
  return std::nullopt;
}

Result<std::vector<std::int64_t>> list_of(const qnn::ParamSpec& param) {
  const auto* tensor = std::get_if<Tensor>(&param.value);
  if (tensor == nullptr || !is_integer(tensor->dtype())) return bad_param(param, "list of integers");
  return to_integers(*tensor);
}

/// Sets the attributes begin, end and strides from [rank, 3].
Status raise_ranges(const qnn::ParamSpec& param, Attributes& attributes) {
  HTPIPE_TRY(const std::vector<std::int64_t> numbers, list_of(param));
  if (numbers.size() % 3 != 0) return bad_param(param, "list of ranges");
  std::vector<std::int64_t> parts[3];
  for (std::size_t i = 0; i < numbers.size(); ++i) parts[i % 3].push_back(numbers[i]);
  attributes.set("begin", parts[0]);
  attributes.set("end", parts[1]);
  attributes.set("strides", parts[2]);
  return {};
}

Status raise_param(const ParamLowering& lowering, const qnn::ParamSpec& param, Attributes& attributes) {
  const std::string name(lowering.attribute);
  switch (lowering.kind) {
    case ParamKind::kBool: {
      const auto value = integer_of(param);
      if (!value) return bad_param(param, "truth value");
      attributes.set(name, *value != 0);
      return {};
    }
    case ParamKind::kU32:
    case ParamKind::kI32: {
      const auto value = integer_of(param);
      if (!value) return bad_param(param, "integer");
      attributes.set(name, *value);
      return {};
    }
    case ParamKind::kF32: {
      const auto* value = std::get_if<float>(&param.value);
      if (value == nullptr) return bad_param(param, "real number");
      attributes.set(name, *value);
      return {};
    }
    case ParamKind::kU32List:
    case ParamKind::kU32Pairs: {
      HTPIPE_TRY(std::vector<std::int64_t> numbers, list_of(param));
      attributes.set(name, std::move(numbers));
      return {};
    }
    case ParamKind::kRanges:
      return raise_ranges(param, attributes);
    case ParamKind::kEnum:
      break;
  }
  const auto number = integer_of(param);
  for (const auto& [text, value] : lowering.values) {
    if (number && *number == static_cast<std::int64_t>(value)) {
      attributes.set(name, std::string(text));
      return {};
    }
  }
  return fail(Code::kUnsupportedForm, fmt::format("parameter {} has a value that is not known", param.name));
}

/// The attributes that an operator's parameters, and the type of its first result, say.
Result<Attributes> raise_attributes(const OpDef& def, const qnn::OpSpec& op, const TensorType& result) {
  Attributes attributes;
  const auto& table = def.lowering.params;
  // Which of the others mean something, the operation says.
  for (const bool operation : {true, false}) {
    for (const ParamLowering& lowering : table) {
      if ((lowering.attribute == "operation") != operation) continue;
      const qnn::ParamSpec* param = find_param(op, lowering.param);
      if (param == nullptr) continue;
      if (!lowering.operation.empty() && attributes.text("operation") != lowering.operation) continue;
      HTPIPE_CHECK_OK(raise_param(lowering, *param, attributes));
    }
  }
  for (const qnn::ParamSpec& param : op.params) {
    const bool known = std::any_of(table.begin(), table.end(),
                                   [&](const ParamLowering& lowering) { return lowering.param == param.name; });
    if (!known) return fail(Code::kUnsupportedForm, fmt::format("{} has no parameter {} here", op.type, param.name));
  }
  // What the lowering leaves out because QNN reads it from the result, and because all of QNN is channel-last.
  if (def.attribute("to") != nullptr) attributes.set("to", std::string(name_of(result.dtype)));
  const AttributeSpec* shape = def.attribute("shape");
  if (shape != nullptr && shape->required) attributes.set("shape", result.shape);
  const auto lowered = [&table](std::string_view name) {
    return std::any_of(table.begin(), table.end(), [name](const ParamLowering& p) { return p.attribute == name; });
  };
  const AttributeSpec* axis = def.attribute("axis");
  if (axis != nullptr && axis->required && !lowered("axis")) {  // QNN has the last one only
    attributes.set("axis", static_cast<std::int64_t>(result.shape.size()) - 1);
  }
  if (def.layout == Layout::kSpatial) attributes.set("data_layout", std::string("nhwc"));
  const AttributeSpec* sizes = def.attribute("sizes");
  if (def.layout == Layout::kSpatial && sizes != nullptr && sizes->required && result.shape.size() > 2) {
    attributes.set("sizes", std::vector<std::int64_t>(result.shape.begin() + 1, result.shape.end() - 1));
  }
  return attributes;
}

class Raiser {
 public:
  explicit Raiser(const qnn::GraphSpec& spec) : spec_(spec), graph_(spec.name) {
    for (const qnn::TensorSpec& tensor : spec.tensors) tensors_[tensor.name] = &tensor;
  }

  Result<Graph> run() {
    for (const qnn::TensorSpec& tensor : spec_.tensors) {
      if (tensor.role == qnn::TensorRole::kInput) graph_.add_input(tensor.name, tensor.type);
    }
    for (const qnn::OpSpec& op : spec_.ops) {
      if (auto status = add(op); !status) {
        if (status.error().place.node.empty()) status.error().place.node = op.name;
        return fail(std::move(status.error()));
      }
    }
    std::vector<Value*> outputs;
    for (const qnn::TensorSpec& tensor : spec_.tensors) {
      if (tensor.role != qnn::TensorRole::kOutput) continue;
      Value* value = graph_.find_value(tensor.name);
      if (value == nullptr) {
        return fail(Error(Code::kGraphInvalid, "an output that no operator makes").at_node(tensor.name));
      }
      outputs.push_back(value);
    }
    graph_.set_outputs(std::move(outputs));
    fuse_activations();
    join_flat_nodes();
    HTPIPE_CHECK_OK(verify(graph_));
    return std::move(graph_);
  }

 private:
  Result<Value*> operand(const std::string& name) {
    if (name.empty()) return nullptr;
    if (Value* value = graph_.find_value(name)) return value;
    const auto at = tensors_.find(name);
    if (at == tensors_.end() || at->second->role != qnn::TensorRole::kStatic) {
      return fail(Code::kGraphInvalid, fmt::format("operand {} is not computed before it is used", name));
    }
    return graph_.add_constant(name, at->second->data);
  }

  /// `given` in the places of the operator's operands: absent optional ones are left out of a QNN operator, so every
  /// way to leave some out is tried until the operator's rule gives the results' shapes.
  Result<Node*> add_node(const OpDef& def, const qnn::OpSpec& op, const Attributes& attributes,
                         const std::vector<Value*>& given, const std::vector<const qnn::TensorSpec*>& results) {
    const std::size_t slots = def.operands.size();
    const bool variadic = slots > 0 && def.operands.back().variadic;
    std::optional<Error> first_error;
    const auto attempt = [&](std::vector<Value*> operands) -> Node* {
      while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
      auto node = graph_.add_node(def.name, op.outputs.front(), attributes, std::move(operands));
      if (!node) {
        if (!first_error) first_error = std::move(node.error());
        return nullptr;
      }
      if (fits(**node, results)) return *node;
      graph_.erase(*node);
      return nullptr;
    };
    if (variadic || given.size() >= slots) {
      if (Node* node = attempt(given)) return node;
    } else {
      // Bit i: operand i is there. Of equally many, the first operands come first.
      for (std::uint32_t present = 0; present < (1U << slots); ++present) {
        if (static_cast<std::size_t>(__builtin_popcount(present)) != given.size()) continue;
        std::vector<Value*> operands(slots, nullptr);
        bool possible = true;
        std::size_t next = 0;
        for (std::size_t i = 0; i < slots; ++i) {
          if ((present >> i & 1U) != 0) {
            operands[i] = given[next++];
          } else if (!def.operands[i].optional) {
            possible = false;
          }
        }
        if (!possible) continue;
        if (Node* node = attempt(std::move(operands))) return node;
      }
    }
    if (first_error) return fail(std::move(*first_error));
    return fail(Code::kGraphInvalid, fmt::format("{} does not give {}", def.name, to_string(results.front()->type)));
  }

  /// QNN has no rank 0: what has it here has one dimension of 1 there.
  static bool is_scalar(const Shape& ours, const Shape& theirs) { return ours.empty() && theirs == Shape{1}; }

  static bool fits(const Node& node, const std::vector<const qnn::TensorSpec*>& results) {
    if (node.results.size() != results.size()) return false;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Shape& ours = node.results[i]->type.shape;
      if (ours != results[i]->type.shape && !is_scalar(ours, results[i]->type.shape)) return false;
    }
    return true;
  }

  Status add(const qnn::OpSpec& op) {
    const OpDef* def = op_of_type(op.type);
    if (def == nullptr) return fail(Code::kUnsupportedOp, fmt::format("QNN operator {}", op.type));
    std::vector<const qnn::TensorSpec*> results;
    for (const std::string& name : op.outputs) {
      const auto at = tensors_.find(name);
      if (at == tensors_.end()) return fail(Code::kGraphInvalid, fmt::format("result {} is no tensor", name));
      if (graph_.find_value(name) != nullptr) {
        return fail(Code::kGraphInvalid, fmt::format("result {} is made twice", name));
      }
      results.push_back(at->second);
    }
    if (results.empty()) return fail(Code::kGraphInvalid, "an operator without results");
    HTPIPE_TRY(const Attributes attributes, raise_attributes(*def, op, results.front()->type));
    std::vector<Value*> given;
    for (const std::string& name : op.inputs) {
      HTPIPE_TRY(Value * value, operand(name));
      given.push_back(value);
    }
    HTPIPE_TRY(Node * node, add_node(*def, op, attributes, given, results));
    for (std::size_t i = 0; i < results.size(); ++i) {
      TensorType type = results[i]->type;
      type.shape = node->results[i]->type.shape;
      node->results[i]->type = std::move(type);
      if (node->results[i]->name != op.outputs[i]) graph_.rename(node->results[i], op.outputs[i]);
    }
    return {};
  }

  /// The spelling of the fused activation that a node could have been; empty when it could not.
  static std::string_view activation_of(const Node& node) {
    if (!node.is("ElementWiseNeuron")) return {};
    const std::string& operation = node.attributes.text("operation");
    if (operation == "relu") return "relu";
    const bool six = operation == "relu_min_max" && node.attributes.real("min_value") == 0.0F &&
                     node.attributes.real("max_value") == 6.0F;
    return six ? "relu6" : "";
  }

  /// X_linear = producer, X = neuron(X_linear): what lower_to_qnn makes of an activation on float results.
  void fuse_activations() {
    std::vector<Node*> neurons;
    for (const auto& node : graph_.nodes()) {
      if (!activation_of(*node).empty()) neurons.push_back(node.get());
    }
    for (Node* neuron : neurons) {
      Value* linear = neuron->operands[0];
      Value* result = neuron->result();
      Node* producer = linear->producer;
      const bool ours = producer != nullptr && linear->users.size() == 1 && !graph_.is_output(linear) &&
                        is_float(result->type.dtype) && linear->name == result->name + "_linear";
      if (!ours || producer->op->attribute("activation") == nullptr) continue;
      const std::string name = result->name;
      producer->attributes.set("activation", std::string(activation_of(*neuron)));
      graph_.replace_uses(result, linear);
      graph_.erase(neuron);
      graph_.rename(linear, name);
    }
  }

  /// Reshape, node, Reshape back: what lower_to_qnn makes of a node that the chip would fuse with the one in front.
  void join_flat_nodes() {
    std::vector<Node*> reshapes;
    for (const auto& node : graph_.nodes()) {
      if (node->is("Reshape")) reshapes.push_back(node.get());
    }
    std::set<const Node*> gone;
    for (Node* back : reshapes) {
      if (gone.count(back) != 0) continue;
      Value* result = back->result();
      Value* flat = back->operands[0];
      Node* node = flat->producer;
      const bool ours = node != nullptr && flat->users.size() == 1 && !graph_.is_output(flat) &&
                        node->operands.size() == 1 && flat->name == result->name + "_flat_of_" + result->name;
      Node* there = ours ? node->operands[0]->producer : nullptr;
      if (there == nullptr || !there->is("Reshape") || there->result()->users.size() != 1) continue;
      Value* source = there->operands[0];
      if (source->type.shape != result->type.shape || there->name() != source->name + "_flat_of_" + result->name) {
        continue;
      }
      restore_relu(*node);
      const std::string name = result->name;
      graph_.set_operand(*node, 0, source);
      flat->type.shape = result->type.shape;
      graph_.replace_uses(result, flat);
      graph_.erase(back);
      graph_.erase(there);
      gone.insert(there);
      graph_.rename(flat, name);
    }
  }

  /// A clamp without an upper bound stands for a relu there.
  static void restore_relu(Node& node) {
    if (!node.is("ElementWiseNeuron") || node.attributes.text("operation") != "relu_min_max") return;
    if (node.attributes.real("min_value") != 0.0F || node.attributes.real("max_value") != kNoUpperBound) return;
    node.attributes.set("operation", std::string("relu"));
    for (const char* bound : {"min_value", "max_value"})
      node.attributes.set(bound, node.op->attribute(bound)->default_value);
  }

  const qnn::GraphSpec& spec_;
  Graph graph_;
  std::map<std::string, const qnn::TensorSpec*> tensors_;
};

}  // namespace

Result<Graph> raise_from_qnn(const qnn::GraphSpec& spec) { return Raiser(spec).run(); }

}  // namespace htpipe
