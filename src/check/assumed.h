// The graph that the chip would get, made although not every node can be there.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "qnn/graph_spec.h"
#include "target/rules.h"
#include "target/target.h"

namespace htpipe::check {

struct Assumed {
  Graph graph;
  qnn::GraphSpec spec;                         ///< `graph` lowered; without operators when nothing is left
  std::map<std::string, std::string> refused;  ///< nodes that were left out, with the reason
};

/// `graph` without the nodes `left_out`: their results become inputs.
[[nodiscard]] Graph without(const Graph& graph, const std::set<std::string>& left_out);

/// Gives every value the type that it would get on `target` and lowers the graph. A node that the quantiser or the
/// lowering refuses is left out, and the rest goes on. Errors: those that are at no node.
Result<Assumed> assume(const Graph& optimised, const Target& target, Precision precision);

}  // namespace htpipe::check
