// Interpolation of stored integers on [n,h,w,c]: docs/htp-arithmetic.md, "Resize".
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "ops/lanes.h"
#include "ops/resize.h"

namespace htpipe::ops {
namespace {

/// An output position lies between two inputs: `weight` parts of `parts` are the second one's.
struct Between {
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::int64_t weight = 0;
};
struct Line {
  std::vector<Between> positions;
  std::int64_t parts = 1;
};

/// `parts` 0 keeps the weights exact.
Result<Line> line_of(const ResizeAxis& axis, std::int64_t parts) {
  Line line;
  std::int64_t denominator = 1;
  if (axis.transformation == "half_pixel" || (axis.transformation == "pytorch_half_pixel" && axis.out > 1)) {
    denominator = 2 * axis.out;
  } else if (axis.transformation == "align_corners") {
    denominator = std::max<std::int64_t>(axis.out - 1, 1);
  } else if (axis.transformation == "asymmetric") {
    denominator = axis.out;
  } else {
    return fail(Code::kNoFixedRule, fmt::format("Resize with {}", axis.transformation));
  }
  line.parts = parts > 0 ? parts : denominator;
  for (std::int64_t out = 0; out < axis.out; ++out) {
    std::int64_t numerator = out * axis.in;
    if (axis.transformation == "align_corners") numerator = out * (axis.in - 1);
    if (denominator == 2 * axis.out) numerator = (2 * out + 1) * axis.in - axis.out;
    numerator = std::clamp<std::int64_t>(numerator, 0, (axis.in - 1) * denominator);
    Between between;
    between.first = numerator / denominator;
    between.second = std::min(between.first + 1, axis.in - 1);
    const std::int64_t rest = numerator % denominator;
    between.weight = parts > 0 ? (2 * rest * parts + denominator) / (2 * denominator) : rest;
    line.positions.push_back(between);
  }
  return line;
}

}  // namespace

Result<Kernel> fixed_linear_kernel(const KernelRequest& request, const std::vector<ResizeAxis>& axes) {
  const TensorType& in = request.node.type(0);
  const TensorType& out = *request.results[0];
  if (axes.size() != 2) return fail(Code::kNoFixedRule, "linear interpolation along more or less than two axes");
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(in));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(out));
  if (from.wide() != to.wide()) return fail(Code::kNoFixedRule, "operand and result differ in width");
  constexpr std::int64_t kNarrowHeight = 240;
  constexpr std::int64_t kWide = 32768;
  HTPIPE_TRY(const Line rows, line_of(axes[0], from.wide() ? kWide : kNarrowHeight));
  HTPIPE_TRY(const Line columns, line_of(axes[1], from.wide() ? kWide : 0));
  const kernels::Unary rescale = kernels::convert(from, to);
  const std::int64_t channels = in.shape[3];
  const std::int64_t row = in.shape[2] * channels;
  Kernel kernel;
  kernel.run = [=, images = in.shape[0], height = in.shape[1], in_type = in.dtype,
                out_type = out.dtype](const KernelCall& call) {
    const auto out_rows = static_cast<std::int64_t>(rows.positions.size());
    const std::int64_t whole = rows.parts * columns.parts;
    for_parts(call, images * out_rows, 1, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      std::int64_t target = begin * static_cast<std::int64_t>(columns.positions.size()) * channels;
      for (std::int64_t r = begin; r < end; ++r) {
        const Between& vertical = rows.positions[static_cast<std::size_t>(r % out_rows)];
        const std::int64_t top = (r / out_rows * height + vertical.first) * row;
        const std::int64_t bottom = (r / out_rows * height + vertical.second) * row;
        const auto blend = [&](std::int64_t at) {
          return kernels::load(call.operands[0], in_type, top + at) * (rows.parts - vertical.weight) +
                 kernels::load(call.operands[0], in_type, bottom + at) * vertical.weight;
        };
        for (const Between& horizontal : columns.positions) {
          for (std::int64_t c = 0; c < channels; ++c, ++target) {
            const std::int64_t sum = blend(horizontal.first * channels + c) * (columns.parts - horizontal.weight) +
                                     blend(horizontal.second * channels + c) * horizontal.weight;
            kernels::store(call.results[0], out_type, target, rescale((2 * sum + whole) / (2 * whole)));
          }
        }
      }
    });
  };
  return kernel;
}

Result<Kernel> fixed_cubic_kernel(const KernelRequest& request, const std::vector<ResizeAxis>& axes) {
  const TensorType& in = request.node.type(0);
  const TensorType& out = *request.results[0];
  if (axes.size() != 2) return fail(Code::kNoFixedRule, "cubic interpolation along more or less than two axes");
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(in));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(out));
  if (from.wide() != to.wide()) return fail(Code::kNoFixedRule, "operand and result differ in width");
  HTPIPE_TRY(const Taps rows, make_taps(axes[0]));
  HTPIPE_TRY(const Taps columns, make_taps(axes[1]));
  const double ratio = from.scale / to.scale;
  const std::int64_t channels = in.shape[3];
  const std::int64_t row = in.shape[2] * channels;
  Kernel kernel;
  kernel.run = [=, images = in.shape[0], height = in.shape[1], in_type = in.dtype,
                out_type = out.dtype](const KernelCall& call) {
    const auto out_rows = static_cast<std::int64_t>(rows.begin.size()) - 1;
    const auto out_columns = static_cast<std::int64_t>(columns.begin.size()) - 1;
    for_parts(call, images * out_rows, 1, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      std::int64_t target = begin * out_columns * channels;
      for (std::int64_t r = begin; r < end; ++r) {
        const auto at_row = static_cast<std::size_t>(r % out_rows);
        const std::int64_t image = r / out_rows * height * row;
        for (std::size_t column = 0; column < static_cast<std::size_t>(out_columns); ++column) {
          for (std::int64_t c = 0; c < channels; ++c, ++target) {
            double sum = 0;
            for (std::size_t v = rows.begin[at_row]; v < rows.begin[at_row + 1]; ++v) {
              for (std::size_t h = columns.begin[column]; h < columns.begin[column + 1]; ++h) {
                const std::int64_t q = kernels::load(call.operands[0], in_type,
                                                     image + rows.index[v] * row + columns.index[h] * channels + c);
                sum += static_cast<double>(rows.weight[v]) * static_cast<double>(columns.weight[h]) *
                       static_cast<double>(q - from.zero);
              }
            }
            const double value = std::floor(sum * ratio + 0.5) + static_cast<double>(to.zero);
            const double limited = std::clamp(value, 0.0, static_cast<double>(to.high));
            kernels::store(call.results[0], out_type, target, static_cast<std::int64_t>(limited));
          }
        }
      }
    });
  };
  return kernel;
}

}  // namespace htpipe::ops
