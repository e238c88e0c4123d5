// Which nodes may compute where their operands lie.
#pragma once

#include <cstddef>

#include "ir/graph.h"

namespace htpipe::ops {

/// True when the first result has the bytes of operand 0, in the same order: both may share memory, and nothing runs.
[[nodiscard]] bool keeps_bytes(const Node& node);

/// True when the result may be written where that operand lies: the kernel of an elementwise operator reads an element
/// before it writes the one at its place, and no place twice (in_place_test.cc holds every such kernel to it).
[[nodiscard]] bool may_overwrite(const Node& node, std::size_t operand);

}  // namespace htpipe::ops
