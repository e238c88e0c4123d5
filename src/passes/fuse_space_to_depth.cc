// Recognises a SpaceToDepth that was written as strided slices, one per place in a block, and a Concat: the stem of YOLO.
// Concat(x[:, :, i::k, j::k] for all i, j) = SpaceToDepth(x, k), with the blocks in the order of rows, then columns.
// Blocks in another order stand when a convolution takes them: its weights are put into their order.
// Invariant: the slices cover every pixel once.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

constexpr std::size_t kAxes = 4;
constexpr std::size_t kHeight = 2;
constexpr std::size_t kWidth = 3;

/// Every `stride`-th element of `base`, from `begin` on, along each axis.
struct Comb {
  Value* base;
  std::vector<Node*> slices;  ///< that `base` goes through
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> stride;
};

Comb comb_of(Value* value) {
  Comb comb = {value, {}, std::vector<std::int64_t>(kAxes, 0), std::vector<std::int64_t>(kAxes, 1)};
  while (comb.base->producer != nullptr && comb.base->producer->is("StridedSlice")) {
    Node& slice = *comb.base->producer;
    if (is_quantised(slice) || slice.operands[0]->type.shape.size() != kAxes) break;
    const auto& begin = slice.attributes.integers("begin");
    const auto& strides = slice.attributes.integers("strides");
    if (std::any_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride < 1; })) break;
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      comb.begin[axis] = begin[axis] + strides[axis] * comb.begin[axis];
      comb.stride[axis] *= strides[axis];
    }
    comb.slices.push_back(&slice);
    comb.base = slice.operands[0];
  }
  return comb;
}

struct Blocks {
  Value* base;
  std::int64_t size;
  std::vector<std::int64_t> order;  ///< by operand of the Concat: row * size + column in the block
  std::vector<Node*> slices;        ///< users before what they use
};

std::optional<Blocks> blocks_of(const Node& concat) {
  const Shape& shape = concat.result()->type.shape;
  if (!concat.is("Concat") || is_quantised(concat) || shape.size() != kAxes) return std::nullopt;
  if (concat.attributes.integer("axis") != 1 || concat.operands.size() < 4) return std::nullopt;
  Blocks blocks = {comb_of(concat.operands[0]).base, 0, {}, {}};
  const Shape& whole = blocks.base->type.shape;
  if (whole.size() != kAxes || shape[kHeight] == 0 || shape[kWidth] == 0) return std::nullopt;
  blocks.size = whole[kHeight] / shape[kHeight];
  const std::int64_t size = blocks.size;
  const bool fits = size > 1 && whole[kHeight] == size * shape[kHeight] && whole[kWidth] == size * shape[kWidth] &&
                    static_cast<std::int64_t>(concat.operands.size()) == size * size;
  if (!fits) return std::nullopt;
  for (Value* operand : concat.operands) {
    const Comb comb = comb_of(operand);
    const bool block = comb.base == blocks.base && comb.begin[0] == 0 && comb.begin[1] == 0 &&
                       comb.stride == std::vector<std::int64_t>{1, 1, size, size} && comb.begin[kHeight] < size &&
                       comb.begin[kWidth] < size && operand->type.shape[1] == whole[1] &&
                       operand->type.shape[0] == whole[0];
    if (!block) return std::nullopt;
    blocks.order.push_back(comb.begin[kHeight] * size + comb.begin[kWidth]);
    blocks.slices.insert(blocks.slices.end(), comb.slices.begin(), comb.slices.end());
  }
  std::sort(blocks.slices.begin(), blocks.slices.end(),
            [](const Node* a, const Node* b) { return Graph::stands_before(b, a); });
  blocks.slices.erase(std::unique(blocks.slices.begin(), blocks.slices.end()), blocks.slices.end());
  std::vector<std::int64_t> sorted = blocks.order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<std::int64_t>(i)) return std::nullopt;
  }
  return blocks;
}

/// The convolution that alone takes the blocks, channel-first and in one group; null when there is none.
Node* taker_of(const Graph& graph, const Node& concat) {
  const Value* result = concat.result();
  if (result->users.size() != 1 || graph.is_output(result)) return nullptr;
  Node* conv = result->users.front();
  const bool fits = conv->is("Conv2d") && is_plain_float(*conv) && conv->operands[0] == result &&
                    conv->operands[1]->is_constant() && conv->attributes.integer("group") == 1 &&
                    conv->attributes.text("data_layout") == "nchw";
  return fits ? conv : nullptr;
}

/// `weight` [out, in, h, w] with its groups of `channels` inputs in the order of the blocks.
Tensor in_order(const Tensor& weight, const Blocks& blocks, std::int64_t channels) {
  Tensor result(weight.type());
  const Shape& shape = weight.shape();
  const auto group = static_cast<std::size_t>(channels * shape[2] * shape[3]);
  const auto from = weight.data<float>();
  const auto to = result.mutable_data<float>();
  const std::size_t groups = blocks.order.size();
  for (std::size_t out = 0; out < static_cast<std::size_t>(shape[0]); ++out) {
    for (std::size_t i = 0; i < groups; ++i) {
      const auto place = static_cast<std::size_t>(blocks.order[i]);
      std::copy_n(from.data() + (out * groups + i) * group, group, to.data() + (out * groups + place) * group);
    }
  }
  return result;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {  // only nodes in front of `node` disappear
    const auto blocks = blocks_of(*node);
    if (!blocks) continue;
    const bool sorted = std::is_sorted(blocks->order.begin(), blocks->order.end());
    Node* conv = sorted ? nullptr : taker_of(graph, *node);
    if (!sorted && conv == nullptr) continue;
    report.add(fmt::format("{} and the slices in front of it are a SpaceToDepth", describe(*node)));
    if (conv != nullptr) {
      Value* weight = conv->operands[1];
      const std::int64_t channels = blocks->base->type.shape[1];
      graph.set_operand(*conv, 1,
                        graph.add_constant(weight->name + "_in_order", in_order(weight->constant, *blocks, channels)));
      erase_unused(graph, weight);
    }
    HTPIPE_TRY(Node * made, graph.add_node("SpaceToDepth", node->name(),
                                           {{"block_size", std::vector<std::int64_t>{blocks->size, blocks->size}},
                                            {"mode", std::string("dcr")}},
                                           {blocks->base}, node->source, node));
    take_place(graph, *made, node);
    for (Node* slice : blocks->slices) erase_unused(graph, slice);
  }
  return report;
}

}  // namespace

const Pass& fuse_space_to_depth() {
  static const Pass pass = {"fuse_space_to_depth",
                            "Turns slices of every k-th pixel that are joined into a SpaceToDepth.", run};
  return pass;
}

}  // namespace htpipe::passes
