// One ATen call on its way into the graph: its arguments as C++ values, and the nodes that it becomes.
// Invariant: no value of the graph that comes out of here is f64, f16 or bf16, except inputs and outputs of the graph:
// the float graph computes in float32.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "import/builder.h"
#include "import/pt2/schema.h"
#include "ir/graph.h"

namespace htpipe::pt2 {

using IntList = std::vector<std::int64_t>;
using Values = std::vector<Value*>;
using One = Result<Value*>;
using Many = Result<Values>;

/// The type that a value of a torch data type has inside the graph.
[[nodiscard]] DType internal(DType dtype);

class Call {
 public:
  using Lookup = std::function<Result<Value*>(std::string_view tensor)>;
  /// `body` declares the types of the node's results; `argument` is the table's word for the mapper.
  Call(const Node& node, const Body& body, Graph& graph, const Lookup& lookup, std::string_view argument,
       std::vector<std::string>* warnings);

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] Builder& builder() { return builder_; }
  [[nodiscard]] std::string_view argument() const { return argument_; }

  // Arguments. Errors: unsupported-form naming the argument.
  /// True when the argument was given and is not None.
  [[nodiscard]] bool has(std::string_view name) const;
  Result<Value*> tensor(std::string_view name) const;
  /// Null when it is None or left out.
  Result<Value*> optional_tensor(std::string_view name) const;
  Result<Values> tensors(std::string_view name) const;
  /// Null where the list has a gap.
  Result<Values> optional_tensors(std::string_view name) const;
  [[nodiscard]] bool is_tensor(std::string_view name) const;
  /// A tensor, or a number as a scalar constant of its own kind (f32, i64, bool).
  Result<Value*> tensor_or_number(std::string_view name);
  Result<std::vector<float>> floats(std::string_view name) const;
  Result<std::int64_t> integer(std::string_view name, std::optional<std::int64_t> fallback = std::nullopt) const;
  Result<double> real(std::string_view name, std::optional<double> fallback = std::nullopt) const;
  Result<bool> flag(std::string_view name, bool fallback) const;
  Result<std::string> text(std::string_view name, std::string_view fallback) const;
  /// List of integers; a single one is repeated to `size` (0 = any length). `fallback` when left out or empty.
  Result<IntList> integers(std::string_view name, std::size_t size, IntList fallback = {}) const;
  Result<std::vector<double>> reals(std::string_view name) const;
  Result<DType> dtype(std::string_view name) const;
  /// An axis of a tensor of that rank (0 counts as 1), counted from the front and in range.
  Result<std::int64_t> axis(std::string_view name, std::size_t rank,
                            std::optional<std::int64_t> fallback = std::nullopt) const;
  /// Axes as `axis`, sorted; all of them when none is given.
  Result<IntList> axes(std::string_view name, std::size_t rank) const;

  /// The declared type of a result; null when there is none.
  [[nodiscard]] const TensorMeta* declared(std::size_t result = 0) const;
  /// The declared type of a tensor argument; null when there is none.
  [[nodiscard]] const TensorMeta* declared_argument(std::string_view name) const;
  /// The type inside the graph of the first result. Errors: unsupported-form.
  Result<DType> result_dtype() const;
  /// True when the program uses the result `index`.
  [[nodiscard]] bool used(std::size_t index) const;

  // Nodes. The one without a suffix carries the ATen node's name.
  One add(std::string_view op, Attributes attributes, Values operands, std::string_view suffix = {});
  Many add_many(std::string_view op, Attributes attributes, Values operands, std::string_view suffix = {});
  One constant(std::string_view suffix, Shape shape, const std::vector<float>& values);
  One constant(std::string_view suffix, Tensor tensor);
  One integers_constant(std::string_view suffix, Shape shape, const IntList& values, DType dtype = DType::kI64);
  One scalar(double value, DType dtype, std::string_view suffix = "number");
  One cast(Value* value, DType to, std::string_view suffix = "cast");
  /// Indices as int32: constants are converted, casts from int32 are looked through.
  One as_index(Value* value, std::string_view suffix = "index");
  One reshape(Value* value, const Shape& shape, std::string_view suffix = {});
  One transpose(Value* value, const IntList& order, std::string_view suffix = {});
  One broadcast(Value* value, const Shape& shape, std::string_view suffix = {});
  One slice(Value* value, std::int64_t axis, std::int64_t begin, std::int64_t end, std::string_view suffix = {});
  One binary(std::string_view operation, Value* a, Value* b, std::string_view suffix = {});
  One unary(std::string_view operation, Value* value, std::string_view suffix = {});
  One neuron(std::string_view operation, Value* value, std::string_view suffix = {});
  One concat(Values values, std::int64_t axis, std::string_view suffix = {});
  One select(Value* condition, Value* a, Value* b, std::string_view suffix = {});
  One reduce(std::string_view op, Value* value, const IntList& axes, bool keep, std::string_view suffix = {});

 private:
  /// A constant scalar with one axis: QNN has no tensors of rank 0, and a number broadcasts in either form.
  Value* ranked(Value* value);

  const Node& node_;
  const Body& body_;
  Builder builder_;
  const Lookup& lookup_;
  std::string_view argument_;
};

/// Most elements of a list of places or a mask that the importer makes itself.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 24;
/// Errors: unsupported-form unless `a` times `b` is at most kMostElements.
Status check_elements(std::int64_t a, std::int64_t b = 1);
/// True when the elements lie in memory row by row from its begin on.
[[nodiscard]] bool is_contiguous(const TensorMeta& meta);
[[nodiscard]] std::int64_t rank_of(const Value* value);
/// The element type that PyTorch gives to an operation on both: inside the graph there is one float type.
[[nodiscard]] DType promote(DType a, DType b);

}  // namespace htpipe::pt2
