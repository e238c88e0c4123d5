// Names as they survive in a DLC: the vendor's writer replaces every byte of a tensor's or graph's name outside
// [A-Za-z0-9_] by '_' and puts '_' before a leading digit. A context binary keeps names as they are.
// Invariant: safe_name is idempotent.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "qnn/graph_spec.h"

namespace htpipe::qnn {

/// The name that a DLC would hold.
[[nodiscard]] std::string safe_name(std::string_view name);

/// Gives the graph and all tensors names that are the same in DLC, context binary and execution, and unique (a number is
/// appended where two would become equal). Returns old name → new name of the tensors.
std::map<std::string, std::string> make_names_safe(GraphSpec& graph);

/// The name under which the tensor of a tensor parameter is created.
[[nodiscard]] std::string param_tensor_name(const OpSpec& op, const ParamSpec& param);

}  // namespace htpipe::qnn
