// Pooling, and what undoes it.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "import/compose/pool.h"
#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"
#include "import/onnx/onnx_windows.h"

namespace htpipe::onnx_import::map {
namespace {

Result<Value*> pool(Call& call, Builder& builder, Value* input, compose::PoolKind kind) {
  HTPIPE_TRY(const Windows windows, windows_of(call, input->type.shape, {}));
  compose::PoolSpec spec;
  spec.kind = kind;
  spec.kernel = windows.kernel;
  spec.stride = windows.stride;
  spec.dilation = windows.dilation;
  spec.pad_begin = windows.pad_begin;
  spec.pad_end = windows.pad_end;
  HTPIPE_TRY(const std::int64_t ceil_mode, call.integer("ceil_mode", 0));
  HTPIPE_TRY(const AutoPad mode, auto_pad(call));
  // With SAME the output size is given, and the padding fits it.
  spec.ceil_mode = ceil_mode != 0 && (mode == AutoPad::kNotSet || mode == AutoPad::kValid);
  HTPIPE_TRY(const std::int64_t counts, call.integer("count_include_pad", 0));
  spec.count_include_pad = counts != 0;
  HTPIPE_TRY(spec.p, call.integer("p", 2));
  return compose::pool(builder, input, spec);
}

Result<Values> pool(Call& call, compose::PoolKind kind) {
  HTPIPE_TRY(Value * input, call.input(0));
  return one(pool(call, call, input, kind));
}

constexpr std::int64_t kMostElements = 1 << 26;

/// Whether a tensor of this shape may be made while a model is imported.
bool is_moderate(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || size > kMostElements) return false;
    count *= size;
    if (count > kMostElements) return false;
  }
  return true;
}

/// 0, step, 2 step …
IntList multiples(std::int64_t count, std::int64_t step) {
  IntList list = count_up(0, count);
  for (std::int64_t& x : list) x *= step;
  return list;
}

Result<Values> global(Call& call, compose::PoolKind kind) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::int64_t p, call.integer("p", 2));
  return one(compose::global_pool(call, input, kind, p));
}

/// Where in the whole input the maximum of each window lies: the cells of all windows side by side, and which of them is
/// the first largest one. Cells in the padding are no candidates.
Result<Value*> max_indices(Call& call, Value* input, const Shape& result) {
  HTPIPE_TRY(const Windows windows, windows_of(call, input->type.shape, {}));
  HTPIPE_TRY(const std::int64_t order, call.integer("storage_order", 0));
  const Shape shape = input->type.shape;
  const std::size_t axes = windows.kernel.size();
  if (order != 0 || !is_float(input->type.dtype)) {
    return fail(Code::kUnsupportedForm, "Indices of MaxPool in columns, or of integers");
  }
  const std::int64_t images = shape[0] * shape[1];
  const std::int64_t area = count_between(shape, 2, rank_of(input));
  const std::int64_t outputs = element_count(result) / std::max<std::int64_t>(images, 1);
  if (!is_moderate(windows.kernel)) return fail(Code::kUnsupportedForm, "Indices of a MaxPool this large");
  const std::int64_t cells = element_count(windows.kernel);
  if (!is_moderate({images, outputs, cells})) return fail(Code::kUnsupportedForm, "Indices of a MaxPool this large");
  std::vector<std::int64_t> places;
  places.reserve(static_cast<std::size_t>(outputs * cells));
  for (std::int64_t output = 0; output < outputs; ++output) {
    for (std::int64_t cell = 0; cell < cells; ++cell) {
      std::int64_t place = 0;
      std::int64_t stride = 1;
      std::int64_t rest = output;
      std::int64_t in_window = cell;
      bool inside = true;
      for (std::size_t i = axes; i-- > 0;) {
        const std::int64_t at = rest % result[i + 2] * windows.stride[i] - windows.pad_begin[i] +
                                in_window % windows.kernel[i] * windows.dilation[i];
        inside = inside && at >= 0 && at < shape[i + 2];
        place += at * stride;
        stride *= shape[i + 2];
        rest /= result[i + 2];
        in_window /= windows.kernel[i];
      }
      places.push_back(inside ? place : area);
    }
  }
  HTPIPE_TRY(Value * flat, call.reshape(input, {images, area}, "flat"));
  // The place behind the image stands for all padding.
  const Attributes pads = {{"pad_amount", IntList{0, 0, 0, 1}},
                           {"pad_constant_value", -std::numeric_limits<float>::infinity()}};
  HTPIPE_TRY(flat, call.add("Pad", pads, {flat}, "with_padding"));
  HTPIPE_TRY(Value * candidates, call.add("Gather", {{"axis", std::int64_t{1}}},
                                          {flat, call.integers("cells", {outputs, cells}, places)}, "candidates"));
  HTPIPE_TRY(Value * best, call.add("Argmax", {{"axis", std::int64_t{2}}, {"keep_dims", false}}, {candidates}, "best"));
  HTPIPE_TRY(best, call.cast(best, DType::kI64, "cell"));
  // [images, outputs]: the window's own list of places, then the images before.
  HTPIPE_TRY(best, call.binary("add", best, call.integers("lists", {1, outputs}, multiples(outputs, cells)), "entry"));
  HTPIPE_TRY(Value * place, call.add("Gather", {{"axis", std::int64_t{0}}},
                                     {call.integers("places", {outputs * cells}, places), best}, "place"));
  HTPIPE_TRY(place,
             call.binary("add", place, call.integers("images", {images, 1}, multiples(images, area)), "indices_flat"));
  return call.reshape(place, result, "indices");
}

}  // namespace

Result<Values> average_pool(Call& call) { return pool(call, compose::PoolKind::kAverage); }
Result<Values> lp_pool(Call& call) { return pool(call, compose::PoolKind::kLp); }
Result<Values> global_average_pool(Call& call) { return global(call, compose::PoolKind::kAverage); }
Result<Values> global_max_pool(Call& call) { return global(call, compose::PoolKind::kMax); }
Result<Values> global_lp_pool(Call& call) { return global(call, compose::PoolKind::kLp); }

Result<Values> max_pool(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * result, pool(call, call, input, compose::PoolKind::kMax));
  if (!call.wants(1)) return Values{result};
  HTPIPE_TRY(Value * indices, max_indices(call, input, result->type.shape));
  return Values{result, indices};
}

Result<Values> nhwc_max_pool(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  const std::int64_t rank = rank_of(input);
  if (rank < 3)
    return fail(Code::kUnsupportedForm, fmt::format("{} has no spatial axes", to_string(input->type.shape)));
  IntList to_nchw = count_up(0, rank - 1);
  to_nchw.insert(to_nchw.begin() + 1, rank - 1);
  IntList to_nhwc = count_up(2, rank);
  to_nhwc.insert(to_nhwc.begin(), 0);
  to_nhwc.push_back(1);
  Builder inner(call.graph(), call.name() + "_pool", call.source(), nullptr);
  HTPIPE_TRY(input, call.transpose(input, to_nchw, "nchw"));
  HTPIPE_TRY(Value * result, pool(call, inner, input, compose::PoolKind::kMax));
  return one(call.transpose(result, to_nhwc));
}

Result<Values> max_unpool(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * indices, call.input(1));
  HTPIPE_TRY(const Windows windows, windows_of(call, input->type.shape, {}));
  // The size that the pool's input had; indices count through all of it.
  Shape inner = input->type.shape;
  for (std::size_t i = 0; i < windows.kernel.size(); ++i) {
    inner[i + 2] =
        (inner[i + 2] - 1) * windows.stride[i] - windows.pad_begin[i] - windows.pad_end[i] + windows.kernel[i];
    if (inner[i + 2] < 0 || inner[i + 2] > kMostElements) return fail(Code::kShapeMismatch, "MaxUnpool out of range");
  }
  Shape outer = inner;
  if (call.has(2)) {
    HTPIPE_TRY(outer, call.integers_input(2));
  }
  if (!is_moderate(outer)) return fail(Code::kUnsupportedForm, fmt::format("MaxUnpool to {}", to_string(outer)));
  if (outer.size() != inner.size()) return fail(Code::kShapeMismatch, "output_shape has another rank");
  const std::int64_t count = input->type.count();
  if (!is_moderate(inner)) return fail(Code::kUnsupportedForm, fmt::format("MaxUnpool to {}", to_string(inner)));
  const std::int64_t cells = element_count(inner);
  HTPIPE_TRY(Value * flat, call.reshape(input, {count}, "flat"));
  HTPIPE_TRY(Value * places, call.reshape(indices, {count}, "places"));
  Value* zeros = call.constant("zeros", filled({input->type.dtype, {cells}, std::nullopt}, 0));
  HTPIPE_TRY(Value * spread, call.add("ScatterElements", {{"axis", std::int64_t{0}}}, {zeros, places, flat}, "spread"));
  HTPIPE_TRY(Value * result, call.reshape(spread, inner, outer == inner ? "" : "inner"));
  if (outer == inner) return Values{result};
  IntList pads(2 * outer.size(), 0);
  for (std::size_t i = 0; i < outer.size(); ++i) {
    pads[2 * i + 1] = outer[i] - inner[i];
    if (pads[2 * i + 1] < 0) return fail(Code::kShapeMismatch, "output_shape is smaller than the pool's input");
  }
  return one(call.add("Pad", {{"pad_amount", pads}}, {result}));
}

Result<Values> col2im(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const IntList image, call.integers_input(1));
  HTPIPE_TRY(const IntList block, call.integers_input(2));
  const Shape& shape = input->type.shape;
  const std::size_t axes = image.size();
  if (shape.size() != 3 || block.size() != axes || axes == 0 || !is_moderate(image) || !is_moderate(block)) {
    return fail(Code::kShapeMismatch, "Col2Im");
  }
  Shape data = {shape[0], 1};
  data.insert(data.end(), image.begin(), image.end());
  HTPIPE_TRY(const Windows windows, windows_of(call, data, block));
  Shape padded;
  Shape steps;
  std::int64_t columns = 1;
  std::int64_t cells = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    padded.push_back(image[i] + windows.pad_begin[i] + windows.pad_end[i]);
    const std::int64_t room = padded[i] - windows.dilation[i] * (block[i] - 1) - 1;
    if (image[i] < 1 || room < 0 || !is_moderate(padded)) return fail(Code::kShapeMismatch, "Col2Im");
    steps.push_back(room / windows.stride[i] + 1);
    columns *= steps[i];
    cells *= block[i];
  }
  Shape whole = {shape[0], cells > 0 ? shape[1] / cells : 0};
  whole.insert(whole.end(), padded.begin(), padded.end());
  if (shape[2] != columns || cells < 1 || shape[1] % cells != 0 || !is_moderate(whole)) {
    return fail(Code::kShapeMismatch, fmt::format("Col2Im of {} to {}", to_string(shape), to_string(image)));
  }
  // Where in the padded image each cell of each block lies.
  std::vector<std::int64_t> places;
  places.reserve(static_cast<std::size_t>(cells * columns));
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    for (std::int64_t column = 0; column < columns; ++column) {
      std::int64_t place = 0;
      std::int64_t stride = 1;
      std::int64_t in_block = cell;
      std::int64_t in_steps = column;
      for (std::size_t i = axes; i-- > 0;) {
        place += ((in_steps % steps[i]) * windows.stride[i] + (in_block % block[i]) * windows.dilation[i]) * stride;
        in_steps /= steps[i];
        in_block /= block[i];
        stride *= padded[i];
      }
      places.push_back(place);
    }
  }
  const std::int64_t images = shape[0] * (shape[1] / cells);
  const std::int64_t area = element_count(padded);
  HTPIPE_TRY(Value * updates, call.reshape(input, {images, cells * columns}, "updates"));
  HTPIPE_TRY(Value * indices,
             call.expand(call.integers("places", {1, cells * columns}, places), {images, cells * columns}, "indices"));
  Value* zeros = call.constant("zeros", filled({input->type.dtype, {images, area}, std::nullopt}, 0));
  const Attributes adds = {{"axis", std::int64_t{1}}, {"reduction", std::string("add")}};
  HTPIPE_TRY(Value * sums, call.add("ScatterElements", adds, {zeros, indices, updates}, "sums"));
  if (padded == image) return one(call.reshape(sums, whole));
  HTPIPE_TRY(Value * result, call.reshape(sums, whole, "padded"));
  IntList begin(whole.size(), 0);
  IntList end = whole;
  for (std::size_t i = 0; i < axes; ++i) {
    begin[i + 2] = windows.pad_begin[i];
    end[i + 2] = windows.pad_begin[i] + image[i];
  }
  return one(
      call.add("StridedSlice", {{"begin", begin}, {"end", end}, {"strides", IntList(whole.size(), 1)}}, {result}));
}

}  // namespace htpipe::onnx_import::map
