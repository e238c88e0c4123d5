// What PoolMax2d and PoolAvg2d share: attributes, geometry and the walk over windows.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/op.h"
#include "kernels/window.h"
#include "ops/spatial.h"

namespace htpipe::ops {

[[nodiscard]] std::vector<AttributeSpec> pool_attributes();
[[nodiscard]] std::vector<ParamLowering> pool_params();
Result<kernels::Window> pool_window(const NodeView& node);
Result<std::vector<TensorType>> infer_pool(const NodeView& node);

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
