// Turns slices that cut a value into adjacent parts along one axis into one Split.
// x[0:a], x[a:b], x[b:n] = Split(x, [a, b]).
// Invariant: the slices cover the axis without gap or overlap, and take every element of the other axes.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

struct Part {
  Node* node;
  std::size_t axis;
  std::int64_t begin;
  std::int64_t end;
};

/// The only axis that `node` cuts, and where; nullopt when it cuts none or several, or takes steps.
std::optional<Part> part_of(Node& node) {
  if (!node.is("StridedSlice") || is_quantised(node)) return std::nullopt;
  const Shape& shape = node.operands[0]->type.shape;
  const auto& begin = node.attributes.integers("begin");
  const auto& end = node.attributes.integers("end");
  const auto& strides = node.attributes.integers("strides");
  std::optional<Part> part;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (strides[axis] != 1) return std::nullopt;
    if (begin[axis] == 0 && end[axis] == shape[axis]) continue;
    if (part || end[axis] <= begin[axis]) return std::nullopt;
    part = Part{&node, axis, begin[axis], end[axis]};
  }
  return part;
}

/// Slices of `value` along the axis of its first slice that cover the axis, in order; empty when they do not.
std::vector<Part> covering(const Value& value, std::size_t axis) {
  std::vector<Part> parts;
  for (Node* user : value.users) {
    const auto part = part_of(*user);
    if (part && part->axis == axis) parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
  std::int64_t next = 0;
  for (const Part& part : parts) {
    if (part.begin != next) return {};
    next = part.end;
  }
  const bool covers = parts.size() > 1 && next == value.type.shape[axis];
  return covers ? parts : std::vector<Part>{};
}

Status merge(Graph& graph, Value* value, const std::vector<Part>& parts) {
  std::vector<std::int64_t> cuts;
  const Node* first = parts.front().node;
  for (const Part& part : parts) {
    if (part.begin > 0) cuts.push_back(part.begin);
    if (Graph::stands_before(part.node, first)) first = part.node;
  }
  HTPIPE_TRY(Node * split,
             graph.add_node("Split", value->name + "_split",
                            {{"axis", static_cast<std::int64_t>(parts.front().axis)}, {"split_index", cuts}}, {value},
                            first->source, first));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name = parts[i].node->name();
    graph.replace_uses(parts[i].node->result(), split->results[i]);
    graph.erase(parts[i].node);
    graph.rename(split->results[i], name);
  }
  return {};
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  std::vector<std::string> sliced;  // by name: a slice of a slice is cut from a Split's result once that is merged
  std::set<const Value*> seen;
  for (const Node* node : node_list(graph)) {
    if (node->is("StridedSlice") && seen.insert(node->operands[0]).second) sliced.push_back(node->operands[0]->name);
  }
  for (const std::string& name : sliced) {
    Value* value = graph.find_value(name);
    for (std::size_t axis = 0; axis < value->type.shape.size(); ++axis) {
      const std::vector<Part> parts = covering(*value, axis);
      if (parts.empty()) continue;
      report.add(fmt::format("{} slices of %{} are one Split", parts.size(), value->name));
      HTPIPE_CHECK_OK(merge(graph, value, parts));
    }
  }
  return report;
}

}  // namespace

const Pass& merge_slices() {
  static const Pass pass = {"merge_slices", "Turns slices that cut a value into adjacent parts into one Split.", run};
  return pass;
}

}  // namespace htpipe::passes
