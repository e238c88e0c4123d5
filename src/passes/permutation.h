// Permutations of axes and the Transposes that carry them out. Result axis i of permutation p is operand axis p[i].
// Invariant: a Transpose added here takes an output's name with it, so that the outside of the graph does not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace htpipe::passes {

using Permutation = std::vector<std::int64_t>;

/// From [n,c,h,w] to [n,h,w,c], and back; with more or fewer spatial axes for other ranks.
[[nodiscard]] Permutation to_nhwc(std::size_t rank = 4);
[[nodiscard]] Permutation to_nchw(std::size_t rank = 4);

[[nodiscard]] Permutation inverse(const Permutation& perm);
/// Permuting by the result is permuting by `first` and then by `second`.
[[nodiscard]] Permutation compose(const Permutation& first, const Permutation& second);
[[nodiscard]] bool is_identity(const Permutation& perm);
/// True when the axes of `shape` that are larger than 1 keep their order: the elements stay where they are.
[[nodiscard]] bool keeps_elements(const Permutation& perm, const Shape& shape);

/// The permutation of the Transpose that makes `value`; nullptr when no Transpose makes it.
[[nodiscard]] const Permutation* permutation_of(const Value* value);

/// "_nhwc", "_nchw" or "_transposed": what is appended to the name of a value that was permuted by `perm`.
[[nodiscard]] std::string_view suffix_of(const Permutation& perm);

/// A Transpose of `value` by `perm` that stands before `user`; nullptr when there is none.
[[nodiscard]] Value* find_transposed(const Value* value, const Permutation& perm, const Node* user);
/// `value` permuted, for `user`: by a Transpose that is there already or by a new one.
Result<Value*> transposed(Graph& graph, Value* value, const Permutation& perm, const Node& user);

/// Puts a Transpose by `perm` behind `node`; all who used the node's result use the permuted one. The name stays with
/// the node's result, unless that is an output of the graph.
Status transpose_behind(Graph& graph, Node& node, const Permutation& perm);

}  // namespace htpipe::passes
