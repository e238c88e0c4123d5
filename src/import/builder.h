// How importers add nodes: one Builder per node of the source model.
// Invariant: a node whose operands are all constant is computed at once when that does not blow the graph up, so that
// shape arithmetic disappears while a model is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace htpipe {

class Builder {
 public:
  /// `name` is given to the node added without a suffix, which is the last one by custom. Warnings go to `warnings`.
  Builder(Graph& graph, std::string name, Source source, std::vector<std::string>* warnings)
      : graph_(graph), name_(std::move(name)), source_(std::move(source)), warnings_(warnings) {}

  [[nodiscard]] Graph& graph() { return graph_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Source& source() const { return source_; }
  void warn(std::string text);
  [[nodiscard]] std::vector<std::string>* warnings() const { return warnings_; }

  /// Adds a node named NAME, or NAME_suffix; gives its (first) result. Errors: those of the operator's rule.
  Result<Value*> add(std::string_view op, Attributes attributes, std::vector<Value*> operands,
                     std::string_view suffix = {});
  /// The same, for all results.
  Result<std::vector<Value*>> add_all(std::string_view op, Attributes attributes, std::vector<Value*> operands,
                                      std::string_view suffix = {});

  Value* constant(std::string_view suffix, Tensor tensor);
  Value* floats(std::string_view suffix, Shape shape, const std::vector<float>& values);
  Value* integers(std::string_view suffix, Shape shape, const std::vector<std::int64_t>& values);
  /// A constant of one element and shape [] in the type `dtype`.
  Value* scalar(std::string_view suffix, double value, DType dtype = DType::kF32);

  /// `value` itself when nothing changes.
  Result<Value*> cast(Value* value, DType to, std::string_view suffix = {});
  Result<Value*> reshape(Value* value, Shape shape, std::string_view suffix = {});
  Result<Value*> transpose(Value* value, std::vector<std::int64_t> perm, std::string_view suffix = {});
  /// Broadcasts to `shape` by Reshape and Tile. Errors: shape-mismatch.
  Result<Value*> expand(Value* value, const Shape& shape, std::string_view suffix = {});

  Result<Value*> unary(std::string_view operation, Value* value, std::string_view suffix = {});
  Result<Value*> neuron(std::string_view operation, Value* value, std::string_view suffix = {});
  Result<Value*> binary(std::string_view operation, Value* a, Value* b, std::string_view suffix = {});
  /// Elementwise with a number, in the data type of `a`.
  Result<Value*> binary(std::string_view operation, Value* a, double b, std::string_view suffix = {});

 private:
  [[nodiscard]] std::string name_with(std::string_view suffix) const;
  Graph& graph_;
  std::string name_;
  Source source_;
  std::vector<std::string>* warnings_;
};

/// `axis` counted from the front. Errors: unsupported-form when it is outside [-rank, rank).
Result<std::int64_t> normal_axis(std::int64_t axis, std::size_t rank);
/// Removes constants that no node uses and that are no outputs: what folding left behind.
void remove_unused_constants(Graph& graph);

}  // namespace htpipe
