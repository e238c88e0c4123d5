// Turns a Softmax that was taken apart into one: exp(x - max(x)) / sum(exp(x - max(x))), or without the largest element,
// over one axis.
// Invariant: both reductions go over that axis alone and keep it.
#include <cstdint>
#include <string>
#include <vector>

#include "passes/pattern.h"

namespace htpipe::passes {
namespace {

const Pattern& safe() {
  static const Pattern pattern(R"(
    %h = ReduceMax(%x)
    %d = subtract(%x, %h)
    %e = exp(%d)
    %t = ReduceSum(%e)
    %y = divide(%e, %t))");
  return pattern;
}

const Pattern& plain() {
  static const Pattern pattern(R"(
    %e = exp(%x)
    %t = ReduceSum(%e)
    %y = divide(%e, %t))");
  return pattern;
}

/// The one axis of a reduction that keeps it; -1 when it is another kind.
std::int64_t axis_of(const Node& reduction) {
  const auto& axes = reduction.attributes.integers("axes");
  return axes.size() == 1 && reduction.attributes.flag("keep_dims") ? axes.front() : -1;
}

Rewrite to_softmax(bool with_largest) {
  return [with_largest](Graph& graph, const Match& match) -> Result<bool> {
    const std::int64_t axis = axis_of(*match.node("t"));
    if (axis < 0 || (with_largest && axis_of(*match.node("h")) != axis)) return false;
    HTPIPE_TRY(const Node* node, replace(graph, match, "Softmax", {{"axis", axis}}, {match.value("x")}));
    return node != nullptr;
  };
}

Result<PassReport> run(Graph& graph) {
  return apply_rules(graph, {{&safe(), to_softmax(true), "a Softmax"}, {&plain(), to_softmax(false), "a Softmax"}});
}

}  // namespace

const Pass& fuse_softmax() {
  static const Pass pass = {"fuse_softmax", "Turns a Softmax that was taken apart into one.", run};
  return pass;
}

}  // namespace htpipe::passes
