// The order of passes as text: what a user sees, edits and gives back.
// Invariant: parsing the text of an order gives its steps; every name in them is a pass.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "passes/pass.h"

namespace htpipe {

/// A step: names with a space between. More than one is a group.
using PassOrder = std::vector<std::string>;

/// Reads an order: one step a line, names with blanks or commas between; "#" begins a comment. `file` is its name in
/// errors. Errors: usage at file:line for an unknown pass (with the nearest name), and for a text without steps.
Result<PassOrder> parse_order(std::string_view text, const std::string& file);

/// The passes of one step. Errors: usage with the nearest name.
Result<std::vector<const Pass*>> passes_of(std::string_view step);
/// The pass of that name. Errors: usage with the nearest name.
Result<const Pass*> known_pass(std::string_view name);

/// From an imported graph to the form that is quantised and lowered (default_order.inc).
[[nodiscard]] const PassOrder& default_order();
[[nodiscard]] std::string_view default_order_text();

/// The steps that leave a graph in ONNX's own layout and types (onnx_order.inc).
[[nodiscard]] const PassOrder& onnx_order();
[[nodiscard]] std::string_view onnx_order_text();

}  // namespace htpipe
