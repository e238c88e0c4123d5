#include "passes/permutation.h"

#include <string>

#include "passes/rewrite.h"

namespace htpipe::passes {

Permutation to_nhwc(std::size_t rank) {
  Permutation perm = {0};
  for (std::size_t axis = 2; axis < rank; ++axis) perm.push_back(static_cast<std::int64_t>(axis));
  perm.push_back(1);
  return perm;
}

Permutation to_nchw(std::size_t rank) { return inverse(to_nhwc(rank)); }

Permutation inverse(const Permutation& perm) {
  Permutation result(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    result[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return result;
}

Permutation compose(const Permutation& first, const Permutation& second) { return permute(first, second); }

bool is_identity(const Permutation& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

bool keeps_elements(const Permutation& perm, const Shape& shape) {
  std::int64_t last = -1;
  for (const std::int64_t axis : perm) {
    if (shape[static_cast<std::size_t>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

const Permutation* permutation_of(const Value* value) {
  if (value == nullptr || value->producer == nullptr || !value->producer->is("Transpose")) return nullptr;
  return &value->producer->attributes.integers("perm");
}

std::string_view suffix_of(const Permutation& perm) {
  if (perm.size() < 4) return "_transposed";
  if (perm == to_nhwc(perm.size())) return "_nhwc";
  return perm == to_nchw(perm.size()) ? "_nchw" : "_transposed";
}

Value* find_transposed(const Value* value, const Permutation& perm, const Node* user) {
  for (const Node* other : value->users) {
    const Permutation* found = permutation_of(other->result());
    if (found != nullptr && *found == perm && Graph::stands_before(other, user)) return other->result();
  }
  return nullptr;
}

Result<Value*> transposed(Graph& graph, Value* value, const Permutation& perm, const Node& user) {
  if (Value* found = find_transposed(value, perm, &user)) return found;
  HTPIPE_TRY(const Node* node, graph.add_node("Transpose", value->name + std::string(suffix_of(perm)), {{"perm", perm}},
                                              {value}, user.source, &user));
  return node->result();
}

Status transpose_behind(Graph& graph, Node& node, const Permutation& perm) {
  Value* result = node.result();
  const std::string name = result->name;
  HTPIPE_TRY(Node * behind, graph.add_node("Transpose", name + std::string(suffix_of(perm)), {{"perm", perm}}, {result},
                                           node.source, next_node(graph, node)));
  const bool output = graph.is_output(result);
  graph.replace_uses(result, behind->result());
  graph.set_operand(*behind, 0, result);
  if (!output) return {};
  graph.rename(result, graph.unique_name(name + std::string(suffix_of(inverse(perm)))));
  graph.rename(behind->result(), name);
  return {};
}

}  // namespace htpipe::passes
