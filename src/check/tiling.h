// How the work of an operator can be cut into pieces that fit into the chip's VTCM.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/graph.h"

namespace htpipe::check {

/// What a piece of an operator's work is (tiling.inc).
enum class Tiling : std::uint8_t {
  kElement,  ///< any piece of the result, from the same piece of the operands
  kRow,      ///< everything along the attribute axis or axes (else the last axis) at once
  kWindow,   ///< a line of the result from the lines below its window, 32 channels of the result
  kProduct,  ///< 32 x 32 elements of the result from 32 rows and 32 columns
  kWhole,    ///< all of every operand
};
/// "element", "row", "window", "product", "whole".
[[nodiscard]] std::string_view name_of(Tiling tiling);
/// Of an operator by its name; kWhole for one that the table does not have.
[[nodiscard]] Tiling tiling_of(std::string_view op);
/// Whether tiling.inc has the operator.
[[nodiscard]] bool has_tiling(std::string_view op);

/// Bytes of operands, result and weights of the smallest piece of a channel-last node's work; `whole` of all of it.
[[nodiscard]] std::uint64_t least_piece(const Node& node, std::uint64_t whole);

}  // namespace htpipe::check
