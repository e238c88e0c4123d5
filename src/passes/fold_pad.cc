// Folds a Pad with zeros into the convolution behind it, which pads for nothing.
// Conv2d(Pad(x, p)) = Conv2d(x) with p added to its own padding, whatever the layout.
// Invariant: only zeros along spatial axes are folded: that is what a convolution puts there itself.
#include <fmt/core.h>

#include <string>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

using IntList = std::vector<std::int64_t>;

bool is_convolution(const Node& node) { return node.is("Conv2d") || node.is("Conv3d") || node.is("DepthWiseConv2d"); }

/// The Pad in front of a convolution that its own padding can do; null when there is none.
Node* foldable_pad(const Node& node) {
  Node* pad = node.operands[0]->producer;
  if (pad == nullptr || !pad->is("Pad") || !is_plain_float(*pad)) return nullptr;
  if (pad->attributes.text("scheme") != "constant" || pad->attributes.real("pad_constant_value") != 0.0F) {
    return nullptr;
  }
  const IntList& amount = pad->attributes.integers("pad_amount");
  const std::size_t rank = amount.size() / 2;
  const std::size_t channels = node.attributes.text("data_layout") == "nhwc" ? rank - 1 : 1;
  for (const std::size_t axis : {std::size_t{0}, channels}) {
    if (amount[2 * axis] != 0 || amount[2 * axis + 1] != 0) return nullptr;
  }
  return pad;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!is_convolution(*node) || !is_plain_float(*node)) continue;
    Node* pad = foldable_pad(*node);
    if (pad == nullptr) continue;
    report.add(fmt::format("{} folded into the padding of {}", describe(*pad), describe(*node)));
    const IntList& amount = pad->attributes.integers("pad_amount");
    const std::size_t first = node->attributes.text("data_layout") == "nhwc" ? 2 : 4;
    IntList sum = node->attributes.integers("pad_amount");
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += amount[first + i];
    node->attributes.set("pad_amount", sum);
    graph.set_operand(*node, 0, pad->operands[0]);
    if (pad->result()->users.empty() && !graph.is_output(pad->result())) graph.erase(pad);
    HTPIPE_CHECK_OK(infer_again(*node));
  }
  return report;
}

}  // namespace

const Pass& fold_pad() {
  static const Pass pass = {"fold_pad", "Folds padding with zeros into the convolution behind it.", run};
  return pass;
}

}  // namespace htpipe::passes
