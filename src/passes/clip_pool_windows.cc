// Makes the window of a pool that looks at everything as large as what it looks at. Models written for larger images
// pool with windows beyond the edge (rounding "ceil"), for which QNN computes sizes of its own.
// Invariant: one window along the axis, no padding there, and a mean that counts no cell outside.
#include <fmt/core.h>

#include <cstdint>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

bool clip(Node& node) {
  const bool last = node.attributes.text("data_layout") == "nhwc";
  const Shape& in = node.operands[0]->type.shape;
  const Shape& out = node.result()->type.shape;
  std::vector<std::int64_t> filter = node.attributes.integers("filter_size");
  std::vector<std::int64_t> stride = node.attributes.integers("stride");
  const auto& pads = node.attributes.integers("pad_amount");
  bool clipped = false;
  for (std::size_t i = 0; i < filter.size(); ++i) {
    const std::size_t axis = i + (last ? 1 : 2);
    if (out[axis] != 1 || filter[i] <= in[axis] || pads[2 * i] != 0 || pads[2 * i + 1] != 0) continue;
    filter[i] = in[axis];
    stride[i] = 1;
    clipped = true;
  }
  if (!clipped) return false;
  node.attributes.set("filter_size", filter);
  node.attributes.set("stride", stride);
  return true;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    const bool mean = node->is("PoolAvg2d");
    if ((!mean && !node->is("PoolMax2d")) || is_quantised(*node)) continue;
    if (mean && node->attributes.flag("count_pad_for_edges")) continue;
    const auto& dilation = node->attributes.integers("dilation");
    if (dilation != std::vector<std::int64_t>(dilation.size(), 1)) continue;
    if (clip(*node)) report.add(fmt::format("the window of {} ends where its input ends", describe(*node)));
  }
  return report;
}

}  // namespace

const Pass& clip_pool_windows() {
  static const Pass pass = {"clip_pool_windows", "Makes windows that see everything as large as what they see.", run};
  return pass;
}

}  // namespace htpipe::passes
