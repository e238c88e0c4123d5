#include "check/apply.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "passes/permutation.h"

namespace htpipe::check {
namespace {

/// Gives `input` another type, and its users what it was: `op` of it.
Status change_input(Graph& graph, Value* input, TensorType type, const char* op, Attributes attributes) {
  input->type = std::move(type);
  const Node* first = graph.nodes().empty() ? nullptr : graph.nodes().front().get();
  HTPIPE_TRY(Node * node, graph.add_node(op, graph.unique_name(input->name + "_as_before"), std::move(attributes),
                                         {input}, Source{}, first));
  graph.replace_uses(input, node->result());
  graph.set_operand(*node, 0, input);
  return {};
}

}  // namespace

bool is_channel_first_image(const Value& input) {
  if (input.type.shape.size() != 4 || input.users.empty()) return false;
  return std::all_of(input.users.begin(), input.users.end(), [](const Node* user) {
    return user->is("Transpose") && user->attributes.integers("perm") == passes::to_nhwc();
  });
}

Result<std::vector<Applied>> apply_fixes(Graph& imported, const Graph& optimised) {
  std::vector<Applied> done;
  const std::vector<Value*> inputs = imported.inputs();
  for (Value* input : inputs) {
    const TensorType before = input->type;
    const std::string name = input->name;
    TensorType type = before;
    if (before.dtype == DType::kI64) {
      type.dtype = DType::kI32;
      HTPIPE_CHECK_OK(change_input(imported, input, type, "Cast", {{"to", std::string("i64")}}));
      done.push_back({"input-int64", name, fmt::format("{} is {} now", to_string(before), to_string(type))});
      continue;
    }
    const auto twin = std::find_if(optimised.inputs().begin(), optimised.inputs().end(),
                                   [&](const Value* value) { return value->name == name; });
    if (twin == optimised.inputs().end() || !is_channel_first_image(**twin)) continue;
    type.shape = permute(before.shape, passes::to_nhwc());
    HTPIPE_CHECK_OK(change_input(imported, input, type, "Transpose", {{"perm", passes::to_nchw()}}));
    done.push_back({"input-channel-first", name, fmt::format("{} is {} now", to_string(before), to_string(type))});
  }
  return done;
}

}  // namespace htpipe::check
