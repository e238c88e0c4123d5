// The one table from ATen operators to ours.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "import/pt2/schema.h"
#include "ir/graph.h"

namespace htpipe::pt2 {

/// One ATen call on its way into the graph: reads its arguments, adds our nodes.
class Call {
 public:
  using Lookup = std::function<Result<htpipe::Value*>(std::string_view tensor)>;
  Call(const Node& node, Graph& graph, const Lookup& lookup) : node_(node), graph_(graph), lookup_(lookup) {}

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] Graph& graph() { return graph_; }

  /// Tensor argument. Errors: unsupported-form when it is missing or no tensor.
  Result<htpipe::Value*> tensor(std::string_view name) const;
  /// Tensor argument that may be None or left out: then null.
  Result<htpipe::Value*> optional_tensor(std::string_view name) const;
  /// Tensor by its name in the program.
  [[nodiscard]] Result<htpipe::Value*> lookup(std::string_view tensor_name) const { return lookup_(tensor_name); }
  /// Constant float32 tensor argument. Errors: unsupported-form.
  Result<std::vector<float>> floats(std::string_view name) const;
  Result<std::int64_t> integer(std::string_view name, std::optional<std::int64_t> fallback = std::nullopt) const;
  Result<double> real(std::string_view name, std::optional<double> fallback = std::nullopt) const;
  Result<bool> flag(std::string_view name, bool fallback) const;
  /// List of integers; a single one is repeated to `size` (0 = any length). `fallback` when left out or empty.
  Result<std::vector<std::int64_t>> integers(std::string_view name, std::size_t size,
                                             std::vector<std::int64_t> fallback = {}) const;

  /// Adds a node; the last one added carries the ATen node's name.
  Result<htpipe::Value*> add(std::string_view op, Attributes attributes, std::vector<htpipe::Value*> operands,
                             std::string_view suffix = {});
  Result<htpipe::Value*> constant(std::string_view suffix, Shape shape, const std::vector<float>& values);

 private:
  const Node& node_;
  Graph& graph_;
  const Lookup& lookup_;
};

using Mapper = Result<htpipe::Value*> (*)(Call&);

/// Mapper of an ATen target such as "torch.ops.aten.conv2d.default"; nullptr when there is none.
[[nodiscard]] Mapper find_mapper(std::string_view target);

}  // namespace htpipe::pt2
