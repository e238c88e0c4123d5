// im2col and col2im: windows of an image as columns, and the sum of columns as an image.
#include <fmt/core.h>

#include <algorithm>

#include "import/pt2/mappers.h"

namespace htpipe::pt2 {
namespace {

struct Windows {
  IntList kernel;
  IntList dilation;
  IntList padding;
  IntList stride;
  std::int64_t rows = 0;     ///< windows below one another
  std::int64_t columns = 0;  ///< windows beside one another
};

Result<Windows> windows_of(Call& call, std::int64_t height, std::int64_t width) {
  Windows w;
  HTPIPE_TRY(w.kernel, call.integers("kernel_size", 2));
  HTPIPE_TRY(w.dilation, call.integers("dilation", 2, {1, 1}));
  HTPIPE_TRY(w.padding, call.integers("padding", 2, {0, 0}));
  HTPIPE_TRY(w.stride, call.integers("stride", 2, {1, 1}));
  for (int i = 0; i < 2; ++i) {
    const std::int64_t most = std::max({w.kernel[i], w.dilation[i], w.padding[i], w.stride[i]});
    if (w.kernel[i] < 1 || w.dilation[i] < 1 || w.padding[i] < 0 || w.stride[i] < 1 || most > (1 << 24)) {
      return fail(Code::kUnsupportedForm, "windows of this form");
    }
  }
  w.rows = (height + 2 * w.padding[0] - w.dilation[0] * (w.kernel[0] - 1) - 1) / w.stride[0] + 1;
  w.columns = (width + 2 * w.padding[1] - w.dilation[1] * (w.kernel[1] - 1) - 1) / w.stride[1] + 1;
  HTPIPE_CHECK_OK(check_elements(w.kernel[0], w.kernel[1]));
  HTPIPE_CHECK_OK(check_elements(std::max<std::int64_t>(w.rows, 0), std::max<std::int64_t>(w.columns, 0)));
  HTPIPE_CHECK_OK(check_elements(w.kernel[0] * w.kernel[1], std::max<std::int64_t>(w.rows * w.columns, 0)));
  if (w.rows < 1 || w.columns < 1) return fail(Code::kUnsupportedForm, "a window larger than its image");
  return w;
}

/// For each element of the columns [kh*kw * rows*columns] its place in the padded image.
IntList places_of(const Windows& w, std::int64_t padded_width) {
  IntList places;
  for (std::int64_t i = 0; i < w.kernel[0]; ++i) {
    for (std::int64_t j = 0; j < w.kernel[1]; ++j) {
      for (std::int64_t row = 0; row < w.rows; ++row) {
        for (std::int64_t column = 0; column < w.columns; ++column) {
          places.push_back((row * w.stride[0] + i * w.dilation[0]) * padded_width + column * w.stride[1] +
                           j * w.dilation[1]);
        }
      }
    }
  }
  return places;
}

}  // namespace

One im2col(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  const TensorMeta* meta = call.declared();
  const Shape shape = input->type.shape;
  if (meta == nullptr || shape.size() != 4) return fail(Code::kUnsupportedForm, "im2col of " + to_string(shape));
  HTPIPE_TRY(const Windows w, windows_of(call, shape[2], shape[3]));
  const Shape padded = {shape[0], shape[1], shape[2] + 2 * w.padding[0], shape[3] + 2 * w.padding[1]};
  if (w.padding != IntList{0, 0}) {
    const IntList amounts = {0, 0, 0, 0, w.padding[0], w.padding[0], w.padding[1], w.padding[1]};
    HTPIPE_TRY(input, call.add("Pad", {{"pad_amount", amounts}}, {input}, "padded"));
  }
  const IntList places = places_of(w, padded[3]);
  HTPIPE_TRY(Value * flat, call.reshape(input, {padded[0], padded[1], padded[2] * padded[3]}, "flat"));
  HTPIPE_TRY(Value * list,
             call.integers_constant("places", {static_cast<std::int64_t>(places.size())}, places, DType::kI32));
  HTPIPE_TRY(Value * taken, call.add("Gather", {{"axis", std::int64_t{2}}}, {flat, list}, "taken"));
  return call.reshape(taken, meta->sizes);
}

One col2im(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const IntList size, call.integers("output_size", 2));
  const Shape shape = input->type.shape;
  const TensorMeta* meta = call.declared();
  HTPIPE_TRY(const Windows w, windows_of(call, size[0], size[1]));
  const std::int64_t area = w.kernel[0] * w.kernel[1];
  if (meta == nullptr || shape.size() != 3 || shape[1] % area != 0 || shape[2] != w.rows * w.columns) {
    return fail(Code::kUnsupportedForm, "col2im of " + to_string(shape));
  }
  const std::int64_t channels = shape[1] / area;
  HTPIPE_CHECK_OK(check_elements(shape[0] * channels, (size[0] + 2 * w.padding[0]) * (size[1] + 2 * w.padding[1])));
  const std::int64_t height = size[0] + 2 * w.padding[0];
  const std::int64_t width = size[1] + 2 * w.padding[1];
  const IntList places = places_of(w, width);
  const auto count = static_cast<std::int64_t>(places.size());
  HTPIPE_TRY(Value * columns, call.reshape(input, {shape[0] * channels, count}, "columns"));
  HTPIPE_TRY(Value * list, call.integers_constant("places", {1, count}, places, DType::kI32));
  HTPIPE_TRY(Value * indices, call.broadcast(list, {shape[0] * channels, count}, "indices"));
  HTPIPE_TRY(Value * empty,
             call.constant("empty", {shape[0] * channels, height * width},
                           std::vector<float>(static_cast<std::size_t>(shape[0] * channels * height * width), 0.0F)));
  HTPIPE_TRY(Value * sum, call.add("ScatterElements", {{"axis", std::int64_t{1}}, {"reduction", std::string("add")}},
                                   {empty, indices, columns}, "sum"));
  HTPIPE_TRY(Value * image, call.reshape(sum, {shape[0], channels, height, width}, "image"));
  HTPIPE_TRY(image, call.slice(image, 2, w.padding[0], w.padding[0] + size[0], "rows"));
  return call.slice(image, 3, w.padding[1], w.padding[1] + size[1]);
}

}  // namespace htpipe::pt2
