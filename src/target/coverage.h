// What becomes of each operator of the user's model on a chip, and how its layers depend on each other.
// Invariant: every node of the imported graph has exactly one line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "ir/graph.h"
#include "target/rules.h"

namespace htpipe {

struct Coverage {
  std::string target;
  Precision precision = Precision::kInt8;
  std::vector<NodeVerdict> nodes;  ///< those of the imported graph, in order
  std::int64_t native = 0;
  std::int64_t rewritten = 0;
  std::int64_t unsupported = 0;
  [[nodiscard]] std::int64_t total() const { return native + rewritten + unsupported; }
  /// Native and rewritten nodes of all, in per cent; 100 for an empty graph.
  [[nodiscard]] double percent() const;
};

/// What becomes of a node of the optimised graph.
using Judge = std::function<NodeVerdict(const Node&)>;

/// Compares the graph as imported with the graph as optimised, one verdict per imported node. A node is
/// - native when the optimised graph has it with the same operator and attributes,
/// - rewritten when it changed or became part of another node; the reason says which, as far as names tell,
/// - unsupported when `judge` says so of it, or of what it became.
[[nodiscard]] Coverage cover(const Graph& imported, const Graph& optimised, const Target& target, Precision precision,
                             const Judge& judge);
[[nodiscard]] Json to_json(const Coverage& coverage);

/// A layer of the user's model: nodes of one module path that follow each other. A module that is called again is
/// another layer, with "#2" and so on behind its path, so that dependencies have no cycles.
struct LayerDependency {
  std::string layer;
  std::vector<std::string> ops;         ///< operators of its nodes, in order
  std::vector<std::string> depends_on;  ///< layers (or inputs of the graph) whose values it takes, without repetition
};

/// The layers in execution order.
[[nodiscard]] std::vector<LayerDependency> layer_dependencies(const Graph& graph);
[[nodiscard]] Json to_json(const std::vector<LayerDependency>& layers);
/// Graphviz text; render with `dot -Tsvg`.
[[nodiscard]] std::string to_dot(const std::vector<LayerDependency>& layers, const std::string& graph_name);

}  // namespace htpipe
