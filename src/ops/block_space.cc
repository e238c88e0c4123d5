#include "ops/block_space.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "kernels/strided_copy.h"
#include "ops/movement.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

constexpr std::int64_t kMaxBlock = 4096;

/// Sizes of the tensor with fewer channels, in blocks.
struct Blocks {
  std::int64_t n, channels, rows, columns;  ///< rows and columns of blocks
  std::int64_t height, width;               ///< of a block
};

Result<Blocks> blocks_of(const NodeView& node, bool to_space) {
  const Shape& shape = node.type(0).shape;
  const auto& block = node.attributes.integers("block_size");
  const std::string& mode = node.attributes.text("mode");
  const std::string& layout = node.attributes.text("data_layout");
  if (shape.size() != 4) return fail(Code::kShapeMismatch, fmt::format("needs rank 4, got {}", to_string(shape)));
  if (block.size() != 2 || std::min(block[0], block[1]) < 1 || std::max(block[0], block[1]) > kMaxBlock ||
      (mode != "dcr" && mode != "crd") || (layout != "nchw" && layout != "nhwc")) {
    return fail(Code::kUnsupportedForm,
                fmt::format("block_size {}, mode \"{}\", data_layout \"{}\"", to_string(block), mode, layout));
  }
  const bool nhwc = layout == "nhwc";
  const std::int64_t channels = shape[nhwc ? 3 : 1];
  const std::int64_t height = shape[nhwc ? 1 : 2];
  const std::int64_t width = shape[nhwc ? 2 : 3];
  const bool fits = to_space ? channels % (block[0] * block[1]) == 0 : height % block[0] == 0 && width % block[1] == 0;
  if (!fits) {
    return fail(Code::kShapeMismatch, fmt::format("{} has no whole blocks of {}", to_string(shape), to_string(block)));
  }
  if (to_space) return Blocks{shape[0], channels / (block[0] * block[1]), height, width, block[0], block[1]};
  return Blocks{shape[0], channels, height / block[0], width / block[1], block[0], block[1]};
}

/// Strides of: image, row of blocks, row within a block, column of blocks, column within a block, channel.
using Strides = std::vector<std::int64_t>;

Strides in_space(const Blocks& b, bool nhwc) {
  const std::int64_t width = b.columns * b.width;
  const std::int64_t pixels = b.rows * b.height * width;
  const std::int64_t pixel = nhwc ? b.channels : 1;
  return {pixels * b.channels, b.height * width * pixel, width * pixel, b.width * pixel, pixel, nhwc ? 1 : pixels};
}

Strides in_depth(const Blocks& b, bool nhwc, bool dcr) {
  const std::int64_t depth = b.channels * b.height * b.width;
  const std::int64_t pixels = b.rows * b.columns;
  const std::int64_t pixel = nhwc ? depth : 1;
  const std::int64_t channel = nhwc ? 1 : pixels;  // from one channel in depth to the next
  const std::int64_t column = dcr ? b.channels * channel : channel;
  return {
      pixels * depth, b.columns * pixel, b.width * column, pixel, column, dcr ? channel : b.height * b.width * channel};
}

}  // namespace

std::vector<AttributeSpec> block_attributes() {
  return {layout_attribute(),
          {"block_size", std::vector<std::int64_t>{1, 1}, true, "[height, width]"},
          {"mode", std::string("dcr"), false, "order of the channels in depth: dcr or crd"}};
}

std::vector<ParamLowering> block_params() {
  return {{"block_size", "block_size", ParamKind::kU32List},
          {"mode", "mode", ParamKind::kEnum, {{"dcr", 0}, {"crd", 1}}}};
}

Result<std::vector<TensorType>> infer_blocks(const NodeView& node, bool to_space) {
  HTPIPE_TRY(const Blocks b, blocks_of(node, to_space));
  const std::int64_t area = b.height * b.width;
  const std::int64_t channels = to_space ? b.channels : b.channels * area;
  const std::int64_t rows = to_space ? b.rows * b.height : b.rows;
  const std::int64_t columns = to_space ? b.columns * b.width : b.columns;
  Shape shape = {b.n, channels, rows, columns};
  if (is_nhwc(node.attributes)) shape = {b.n, rows, columns, channels};
  return std::vector<TensorType>{reshaped(node, 0, std::move(shape))};
}

Result<Kernel> block_kernel(const KernelRequest& request, bool to_space) {
  HTPIPE_TRY(const Blocks b, blocks_of(request.node, to_space));
  const bool nhwc = is_nhwc(request.node.attributes);
  Strides from = in_depth(b, nhwc, request.node.attributes.text("mode") == "dcr");
  Strides to = in_space(b, nhwc);
  if (!to_space) std::swap(from, to);
  const std::int64_t sizes[] = {b.n, b.rows, b.height, b.columns, b.width, b.channels};
  std::vector<kernels::StridedCopy::Axis> axes;
  for (std::size_t i = 0; i < from.size(); ++i) axes.push_back({sizes[i], from[i], to[i]});
  std::stable_sort(axes.begin(), axes.end(), [](const auto& a, const auto& c) { return a.to > c.to; });
  Kernel kernel;
  kernel.run = [copy = kernels::StridedCopy(axes, size_of(request.node.type(0).dtype))](const KernelCall& call) {
    copy.run(call.operands[0], call.results[0]);
  };
  return kernel;
}

}  // namespace htpipe::ops
