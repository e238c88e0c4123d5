// Turns a root-mean-square normalisation that was taken apart into one RmsNorm: x / sqrt(mean(x^2) + e) * gamma, over the
// last axis, in whatever way the root, the quotient and the products are written.
// Invariant: gamma is a constant vector along that axis.
#include <cstdint>
#include <string>
#include <vector>

#include "passes/pattern.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

const Pattern& normalised() {
  static const Pattern pattern(R"(
    %q = power(%x, 2)
    %m = ReduceMean(%q)
    %v = add(%m, $e)
    %r = power(%v, -0.5)
    %y = multiply(%x, %r, const %g))");
  return pattern;
}

Result<bool> to_rms_norm(Graph& graph, const Match& match) {
  Value* x = match.value("x");
  Value* gamma = match.value("g");
  const Shape& shape = x->type.shape;
  const Node& mean = *match.node("m");
  if (shape.empty() || !mean.is("ReduceMean") || !mean.attributes.flag("keep_dims")) return false;
  const std::vector<std::int64_t> last = {static_cast<std::int64_t>(shape.size()) - 1};
  const bool vector = gamma->type.dtype == DType::kF32 && gamma->type.count() == shape.back() &&
                      !gamma->type.shape.empty() && gamma->type.shape.back() == shape.back();
  if (mean.attributes.integers("axes") != last || !vector || !(match.number("e") > 0)) return false;
  Value* scale = gamma;
  if (gamma->type.shape.size() != 1) {
    scale = graph.add_constant(gamma->name + "_vector",
                               gamma->constant.with_type({DType::kF32, {shape.back()}, std::nullopt}));
  }
  HTPIPE_TRY(const Node* node,
             replace(graph, match, "RmsNorm", {{"axes", last}, {"epsilon", static_cast<float>(match.number("e"))}},
                     {x, scale}));
  if (node == nullptr && scale != gamma) erase_unused(graph, scale);
  return node != nullptr;
}

Result<PassReport> run(Graph& graph) { return apply_rules(graph, {{&normalised(), to_rms_norm, "an RmsNorm"}}); }

}  // namespace

const Pass& fuse_rms_norm() {
  static const Pass pass = {"fuse_rms_norm", "Turns a root-mean-square normalisation that was taken apart into one.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
