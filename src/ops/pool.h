// What the pooling operators share: attributes, geometry, the walk over windows and the float kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "kernels/window.h"
#include "ops/spatial.h"

namespace htpipe::ops {

/// data_layout, stride, pad_amount, filter_size, rounding_mode, dilation.
[[nodiscard]] std::vector<AttributeSpec> pool_attributes(std::size_t axes = 2);
/// The parameters, and a check that refuses dilation, which QNN's pools do not have.
[[nodiscard]] Lowering pool_lowering(std::string_view type, bool mean);
Result<kernels::Window> pool_window(const NodeView& node);
/// The chip's pools have no dilation. Errors: no-fixed-rule.
Status require_no_dilation(const NodeView& node);
/// Plain values must be floats; maxima are also taken of integers.
Result<std::vector<TensorType>> infer_pool(const NodeView& node, std::size_t axes = 2);

/// Cells of the window at an output pixel that lie in the image or its padding: the divisor of a mean that counts
/// padding. Smaller than the window only where that reaches over the end of the padding, as it may with rounding up.
class PaddedCells {
 public:
  PaddedCells(const kernels::Window& window, const Attributes& attributes);
  [[nodiscard]] std::int64_t operator()(std::int64_t out_pixel) const;

 private:
  std::int64_t out_h_;
  std::int64_t out_w_;
  std::vector<std::int64_t> slices_;  ///< by output slice, row and column
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> columns_;
};

/// Maximum of the cells inside the image; NaN when one of them is. float32 and i64.
Result<Kernel> max_pool_kernel(const KernelRequest& request);
/// Mean of the cells inside the image, or of all cells in it and its padding (attribute count_pad_for_edges).
Result<Kernel> mean_pool_kernel(const KernelRequest& request);

/// For every output element: start(), cell(in_index) for each cell inside the image, done(out_index, cells inside).
template <typename Start, typename Cell, typename Done>
void for_each_window(const kernels::Window& w, Start start, Cell cell, Done done) {
  std::int64_t out_index = 0;
  for (std::int64_t image = 0; image < w.n; ++image) {
    for (std::int64_t row = 0; row < w.out_h; ++row) {
      for (std::int64_t column = 0; column < w.out_w; ++column) {
        for (std::int64_t channel = 0; channel < w.channels; ++channel, ++out_index) {
          start();
          std::int64_t cells = 0;
          for (std::int64_t kh = 0; kh < w.kernel_h; ++kh) {
            for (std::int64_t kw = 0; kw < w.kernel_w; ++kw) {
              const std::int64_t y = w.row_of(row, kh);
              const std::int64_t x = w.column_of(column, kw);
              if (!w.inside(y, x)) continue;
              cell(((image * w.in_h + y) * w.in_w + x) * w.channels + channel);
              ++cells;
            }
          }
          done(out_index, cells);
        }
      }
    }
  }
}

}  // namespace htpipe::ops
