// The graph: values, nodes in execution order, inputs and outputs.
// Invariant: a node stands behind the producers of its operands; value names are unique; users are kept up to date.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/op.h"

namespace htpipe {

struct Node;

struct Value {
  std::string name;
  TensorType type;
  Node* producer = nullptr;  ///< null for inputs and constants
  Tensor constant;           ///< non-empty for constants
  std::vector<Node*> users;  ///< once per use, in order of creation

  [[nodiscard]] bool is_constant() const { return !constant.empty(); }
};

/// Where a node comes from in the user's model.
struct Source {
  std::string layer;  ///< module path, for instance "layer1.conv2"
  std::string line;   ///< "model.py:42", empty when unknown
  bool operator==(const Source&) const = default;
};

struct Node {
  const OpDef* op;
  Attributes attributes;
  std::vector<Value*> operands;  ///< null = absent optional operand
  std::vector<Value*> results;
  Source source;

  /// The name of its first result, which is how people and files refer to it.
  [[nodiscard]] const std::string& name() const { return results.front()->name; }
  [[nodiscard]] Value* result() const { return results.front(); }
  [[nodiscard]] bool is(std::string_view op_name) const { return op->name == op_name; }
  /// The layer path, or the name where the model has none.
  [[nodiscard]] const std::string& layer() const { return source.layer.empty() ? name() : source.layer; }
};

/// Operand types and constants of a node in the form that operator hooks take. Points into the graph.
class NodeTypes {
 public:
  explicit NodeTypes(const Node& node);
  NodeTypes(const Attributes& attributes, const std::vector<Value*>& operands);
  [[nodiscard]] NodeView view() const { return {*attributes_, types_, constants_}; }
  [[nodiscard]] std::span<const TensorType* const> results() const { return results_; }

 private:
  const Attributes* attributes_;
  std::vector<const TensorType*> types_;
  std::vector<const Tensor*> constants_;
  std::vector<const TensorType*> results_;
};

class Graph {
 public:
  explicit Graph(std::string name) : name_(std::move(name)) {}
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  [[nodiscard]] Graph clone() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<Value*>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<Value*>& outputs() const { return outputs_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Value>>& values() const { return values_; }
  [[nodiscard]] Value* find_value(std::string_view name) const;
  /// `wanted`, or `wanted_2`, `wanted_3` … when it is taken.
  [[nodiscard]] std::string unique_name(std::string_view wanted) const;

  Value* add_input(std::string name, TensorType type);
  Value* add_constant(std::string_view name, Tensor tensor);
  /// Appends a node, or inserts it before `before`; infers and checks its types. The result is named `name` (made
  /// unique); further results get a suffix. Errors: those of the operator's rule, with the node's name.
  Result<Node*> add_node(std::string_view op, std::string_view name, Attributes attributes,
                         std::vector<Value*> operands, Source source = {}, const Node* before = nullptr);
  void set_outputs(std::vector<Value*> outputs) { outputs_ = std::move(outputs); }
  void set_name(std::string name) { name_ = std::move(name); }

  void set_operand(Node& node, std::size_t index, Value* value);
  /// Lets every user, and the list of outputs, take `to` for `from`.
  void replace_uses(Value* from, Value* to);
  /// Removes a node whose results have no users and are no outputs, and its results.
  void erase(Node* node);
  /// Removes a value without users and producer.
  void erase(Value* value);
  void rename(Value* value, std::string name);
  [[nodiscard]] bool is_output(const Value* value) const;

 private:
  Value* add_value(std::string name, TensorType type);
  std::string name_;
  std::vector<std::unique_ptr<Value>> values_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Value*> inputs_;
  std::vector<Value*> outputs_;
};

/// Checks the invariants and every operator's rule. Errors: graph-invalid and those of the operators, at the node.
Status verify(const Graph& graph);

/// SHA-256 over the text form and the bytes of every constant.
[[nodiscard]] std::string digest(const Graph& graph);

}  // namespace htpipe
