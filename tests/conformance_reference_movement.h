// What the operators that move, pick and reduce elements mean, in plain loops: part of conformance_reference.h.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace htpipe::conformance {

/// The results of a node from the numbers of its operands; nullopt for operators of other kinds.
[[nodiscard]] std::optional<std::vector<std::vector<double>>> moved(
    const Node& node, const std::vector<const std::vector<double>*>& operands);

}  // namespace htpipe::conformance
