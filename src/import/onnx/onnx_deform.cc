// DeformConv: the input read at moved positions (GridSample), then a convolution with a window of one pixel.
#include <fmt/core.h>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"
#include "import/onnx/onnx_windows.h"

namespace htpipe::onnx_import::map {
namespace {

struct Geometry {
  std::int64_t cells = 1;  ///< of the kernel
  std::int64_t out_h = 1;
  std::int64_t out_w = 1;
};

/// Where each cell of the kernel lies without an offset, along one axis: [1, cells, out_h, out_w].
Value* positions(Call& call, const Windows& windows, const Geometry& g, std::size_t axis, std::string_view suffix) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(g.cells * g.out_h * g.out_w));
  for (std::int64_t cell = 0; cell < g.cells; ++cell) {
    const std::int64_t along = axis == 0 ? cell / windows.kernel[1] : cell % windows.kernel[1];
    for (std::int64_t y = 0; y < g.out_h; ++y) {
      for (std::int64_t x = 0; x < g.out_w; ++x) {
        const std::int64_t out = axis == 0 ? y : x;
        const std::int64_t at = out * windows.stride[axis] - windows.pad_begin[axis] + along * windows.dilation[axis];
        values.push_back(static_cast<float>(at));
      }
    }
  }
  return call.floats(suffix, {1, g.cells, g.out_h, g.out_w}, values);
}

/// The smallest power of two from `size` up.
std::int64_t power_of_two(std::int64_t size) {
  std::int64_t power = 1;
  while (power < size) power *= 2;
  return power;
}

/// Positions in pixels plus offsets, as GridSample counts them: from -1 to 1 over the outer edges of the image.
Result<Value*> coordinate(Call& call, Value* base, Value* offset, std::int64_t size, std::string_view name) {
  HTPIPE_TRY(Value * wide, call.cast(offset, DType::kF32, fmt::format("{}_wide", name)));
  HTPIPE_TRY(Value * at, call.binary("add", wide, base, fmt::format("{}_at", name)));
  HTPIPE_TRY(at, call.binary("add", at, 0.5, fmt::format("{}_centre", name)));
  HTPIPE_TRY(at, call.binary("multiply", at, 2.0 / static_cast<double>(size), fmt::format("{}_share", name)));
  return call.binary("subtract", at, 1.0, name);
}

}  // namespace

Result<Values> deform_conv(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * weight, call.input(1));
  HTPIPE_TRY(Value * offset, call.input(2));
  Value* mask = call.optional_input(4);
  const Shape in = input->type.shape;
  const Shape kernel = weight->type.shape;
  HTPIPE_TRY(const std::int64_t group, call.integer("group", 1));
  HTPIPE_TRY(const std::int64_t offset_groups, call.integer("offset_group", 1));
  if (in.size() != 4 || kernel.size() != 4 || offset_groups < 1 || in[1] % offset_groups != 0 || in[2] < 1 ||
      in[2] > (1 << 20) || in[3] > (1 << 20) || in[3] < 1) {
    return fail(Code::kUnsupportedForm, fmt::format("DeformConv of {} with {}", to_string(in), to_string(kernel)));
  }
  HTPIPE_TRY(const Windows windows, windows_of(call, in, {kernel[2], kernel[3]}));
  Geometry g;
  g.cells = kernel[2] * kernel[3];
  IntList out;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t room =
        in[i + 2] + windows.pad_begin[i] + windows.pad_end[i] - windows.dilation[i] * (windows.kernel[i] - 1) - 1;
    if (room < 0) return fail(Code::kShapeMismatch, "the window does not fit into the image");
    out.push_back(room / windows.stride[i] + 1);
  }
  g.out_h = out[0];
  g.out_w = out[1];
  if (g.cells > 4096 || g.out_h * g.out_w > (1 << 24) || g.cells * g.out_h * g.out_w > (1 << 26)) {
    return fail(Code::kUnsupportedForm, "a DeformConv this large");
  }
  const std::int64_t batch = in[0];
  const std::int64_t channels = in[1] / offset_groups;
  const Shape offset_shape = {batch, offset_groups * g.cells * 2, g.out_h, g.out_w};
  if (offset->type.shape != offset_shape ||
      (mask != nullptr && mask->type.shape != Shape{batch, offset_groups * g.cells, g.out_h, g.out_w})) {
    return fail(Code::kShapeMismatch, fmt::format("offsets {} or mask do not fit {}", to_string(offset->type.shape),
                                                  to_string(offset_shape)));
  }
  // GridSample counts from -1 to 1: on sizes that are powers of two the way there and back is exact. Zeros are what it
  // sees outside.
  const std::int64_t height = power_of_two(in[2]);
  const std::int64_t width = power_of_two(in[3]);
  if (height != in[2] || width != in[3]) {
    const IntList pads = {0, 0, 0, 0, 0, height - in[2], 0, width - in[3]};
    HTPIPE_TRY(input, call.add("Pad", {{"pad_amount", pads}}, {input}, "grown"));
  }
  // Pairs of y and x apart.
  HTPIPE_TRY(offset, call.reshape(offset, {batch, offset_groups * g.cells, 2, g.out_h * g.out_w}, "pairs"));
  std::vector<Value*> sampled;
  Value* rows = positions(call, windows, g, 0, "rows");
  Value* columns = positions(call, windows, g, 1, "columns");
  for (std::int64_t i = 0; i < offset_groups; ++i) {
    const std::string name = fmt::format("group{}", i);
    HTPIPE_TRY(Value * image, slice(call, input, 1, i * channels, (i + 1) * channels, name + "_image"));
    HTPIPE_TRY(Value * own, slice(call, offset, 1, i * g.cells, (i + 1) * g.cells, name + "_offset"));
    const Shape field = {batch, g.cells, g.out_h, g.out_w};
    HTPIPE_TRY(Value * dy, slice(call, own, 2, 0, 1, name + "_dy"));
    HTPIPE_TRY(Value * dx, slice(call, own, 2, 1, 2, name + "_dx"));
    HTPIPE_TRY(dy, call.reshape(dy, field, name + "_dy_field"));
    HTPIPE_TRY(dx, call.reshape(dx, field, name + "_dx_field"));
    HTPIPE_TRY(Value * y, coordinate(call, rows, dy, height, name + "_y"));
    HTPIPE_TRY(Value * x, coordinate(call, columns, dx, width, name + "_x"));
    const Shape column = {batch, g.cells * g.out_h, g.out_w, 1};
    HTPIPE_TRY(y, call.reshape(y, column, name + "_y_column"));
    HTPIPE_TRY(x, call.reshape(x, column, name + "_x_column"));
    HTPIPE_TRY(Value * grid, concat(call, {x, y}, 3, name + "_grid"));
    HTPIPE_TRY(grid, call.cast(grid, input->type.dtype, name + "_grid_cast"));
    HTPIPE_TRY(Value * values, call.add("GridSample", {}, {image, grid}, name + "_sampled"));
    HTPIPE_TRY(values, call.reshape(values, {batch, channels, g.cells, g.out_h * g.out_w}, name + "_cells"));
    if (mask != nullptr) {
      HTPIPE_TRY(Value * factor, slice(call, mask, 1, i * g.cells, (i + 1) * g.cells, name + "_mask"));
      HTPIPE_TRY(factor, call.reshape(factor, {batch, 1, g.cells, g.out_h * g.out_w}, name + "_factor"));
      HTPIPE_TRY(values, call.binary("multiply", values, factor, name + "_masked"));
    }
    sampled.push_back(values);
  }
  HTPIPE_TRY(Value * all, concat(call, sampled, 1, "sampled"));
  HTPIPE_TRY(all, call.reshape(all, {batch, in[1] * g.cells, g.out_h, g.out_w}, "unfolded"));
  HTPIPE_TRY(Value * point, call.reshape(weight, {kernel[0], kernel[1] * g.cells, 1, 1}, "weight"));
  return one(call.add("Conv2d", {{"group", group}}, {all, point, call.optional_input(3)}));
}

}  // namespace htpipe::onnx_import::map
