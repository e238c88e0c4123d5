// The graph: values, nodes in execution order, inputs and outputs.
// Invariant: a node stands behind the producers of its operands; value names are unique; users are kept up to date.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "ir/op.h"

namespace htpipe {

struct Node;
struct Value;
/// Lists, so that a node or value is inserted and removed in constant time wherever it stands.
using NodeList = std::list<std::unique_ptr<Node>>;
using ValueList = std::list<std::unique_ptr<Value>>;

struct Value {
  std::string name;
  TensorType type;
  Node* producer = nullptr;        ///< null for inputs and constants
  Tensor constant;                 ///< non-empty for constants
  std::vector<Node*> users;        ///< once per use, in order of creation
  ValueList::iterator place = {};  ///< where the graph keeps it; the graph's own

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
  NodeList::iterator place = {};  ///< where the graph keeps it; the graph's own
  std::int64_t position = 0;      ///< grows along the execution order; the graph's own

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
  [[nodiscard]] const NodeList& nodes() const { return nodes_; }
  [[nodiscard]] const ValueList& values() const { return values_; }
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
  /// Whether `first` is executed before `second`.
  [[nodiscard]] static bool stands_before(const Node* first, const Node* second) {
    return first->position < second->position;
  }

 private:
  Value* add_value(std::string name, TensorType type);
  std::string name_;
  /// Puts a node before `at` and gives it a position between its neighbours.
  Node* insert(std::unique_ptr<Node> node, NodeList::iterator at);
  ValueList values_;
  NodeList nodes_;
  std::unordered_map<std::string_view, Value*> names_;              ///< keys point into Value::name
  mutable std::unordered_map<std::string, std::int64_t> suffixes_;  ///< where the search for a free suffix goes on
  std::vector<Value*> inputs_;
  std::vector<Value*> outputs_;
};

/// Checks the invariants and every operator's rule. Errors: graph-invalid and those of the operators, at the node.
Status verify(const Graph& graph);

/// SHA-256 over the text form and the bytes of every constant.
[[nodiscard]] std::string digest(const Graph& graph);

}  // namespace htpipe
