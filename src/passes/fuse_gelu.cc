// Turns a GELU that was taken apart into one: x / 2 * (1 + erf(x / sqrt(2))), and its approximation with tanh.
// Invariant: both stay what they are; the approximation becomes gelu_tanh.
#include <string>

#include "passes/pattern.h"

namespace htpipe::passes {
namespace {

const Pattern& with_erf() {
  static const Pattern pattern(R"(
    %t = multiply(%x, 0.70710678)
    %e = erf(%t)
    %s = add(%e, 1)
    %y = multiply(%x, %s, 0.5))");
  return pattern;
}

/// erf(-t) is -erf(t).
const Pattern& with_negative_erf() {
  static const Pattern pattern(R"(
    %t = multiply(%x, -0.70710678)
    %e = erf(%t)
    %s = subtract(1, %e)
    %y = multiply(%x, %s, 0.5))");
  return pattern;
}

const Pattern& with_tanh() {
  static const Pattern pattern(R"(
    %cube = power(%x, 3)
    %small = multiply(%cube, 0.044715)
    %i = add(%x, %small)
    %a = multiply(%i, 0.79788456)
    %t = tanh(%a)
    %s = add(%t, 1)
    %y = multiply(%x, %s, 0.5))");
  return pattern;
}

/// (1 + tanh(a)) / 2 is sigmoid(2 a).
const Pattern& with_sigmoid() {
  static const Pattern pattern(R"(
    %cube = power(%x, 3)
    %small = multiply(%cube, 0.044715)
    %i = add(%x, %small)
    %a = multiply(%i, 1.59576912)
    %t = sigmoid(%a)
    %y = multiply(%x, %t))");
  return pattern;
}

Rewrite to_neuron(const std::string& operation) {
  return [operation](Graph& graph, const Match& match) -> Result<bool> {
    HTPIPE_TRY(const Node* node,
               replace(graph, match, "ElementWiseNeuron", {{"operation", operation}}, {match.value("x")}));
    return node != nullptr;
  };
}

Result<PassReport> run(Graph& graph) {
  return apply_rules(graph, {{&with_erf(), to_neuron("gelu"), "a gelu"},
                             {&with_negative_erf(), to_neuron("gelu"), "a gelu"},
                             {&with_tanh(), to_neuron("gelu_tanh"), "a gelu_tanh"},
                             {&with_sigmoid(), to_neuron("gelu_tanh"), "a gelu_tanh"}});
}

}  // namespace

const Pass& fuse_gelu() {
  static const Pass pass = {"fuse_gelu", "Turns a GELU that was taken apart into one, with erf or with tanh.", run};
  return pass;
}

}  // namespace htpipe::passes
