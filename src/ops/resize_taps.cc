// Coordinates: without a scale of the model's they are computed as PyTorch computes them, in float32 from the ratio
// in / out; with one as ONNX Runtime does, in float32 dividing by out / in. Nearest neighbours at ties depend on it.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ops/resize.h"

namespace htpipe::ops {
namespace {

/// `position` moved back into the input: in / out times of it.
double divided(const ResizeAxis& axis, float position) {
  if (axis.scale > 0.0F) return static_cast<double>(position / axis.scale);
  return static_cast<double>(position * (static_cast<float>(axis.in) / static_cast<float>(axis.out)));
}

Result<double> coordinate(const ResizeAxis& axis, std::int64_t out) {
  const auto position = static_cast<float>(out);
  const std::string& mode = axis.transformation;
  double half_pixel = divided(axis, position + 0.5F) - 0.5;
  // Rounded to float32 where it is interpolated, as they do; a nearest neighbour takes half a pixel back exactly.
  if (axis.interpolation != "nearest" && !axis.antialias)
    half_pixel = static_cast<double>(static_cast<float>(half_pixel));
  if (mode == "half_pixel") return half_pixel;
  if (mode == "pytorch_half_pixel") return axis.out > 1 ? half_pixel : 0;
  if (mode == "asymmetric") return divided(axis, position);
  if (mode == "tf_half_pixel_for_nn") return half_pixel + 0.5;
  if (mode == "align_corners") {
    if (axis.out <= 1) return 0;
    // The last position must not miss the last input by a rounding error.
    if (out == axis.out - 1) return static_cast<double>(axis.in - 1);
    const auto from = static_cast<float>(axis.in - 1);
    const auto to = static_cast<float>(axis.out - 1);
    return static_cast<double>(axis.scale > 0.0F ? position * from / to : position * (from / to));
  }
  if (mode == "half_pixel_symmetric") {
    // The model's scale may ask for a size that is no whole number: the cut off part is shared by both sides.
    const double wanted = axis.scale > 0.0F ? static_cast<double>(axis.scale) * static_cast<double>(axis.in)
                                            : static_cast<double>(axis.out);
    const double offset = static_cast<double>(axis.in) / 2 * (1 - static_cast<double>(axis.out) / wanted);
    return offset + half_pixel;
  }
  return fail(Code::kUnsupportedForm, fmt::format("no transformation_mode \"{}\"", mode));
}

Result<std::int64_t> nearest(const std::string& mode, double x) {
  if (mode == "round_prefer_floor") return static_cast<std::int64_t>(std::ceil(x - 0.5));
  if (mode == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5));
  if (mode == "floor") return static_cast<std::int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  return fail(Code::kUnsupportedForm, fmt::format("no nearest_mode \"{}\"", mode));
}

/// Weight of an input at distance `x`.
double filter(const ResizeAxis& axis, double x) {
  x = std::abs(x);
  if (axis.interpolation == "linear") return std::max(1 - x, 0.0);
  const double a = axis.cubic_coeff;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

void add_filtered(const ResizeAxis& axis, double x, Taps& taps) {
  // When shrinking with antialias the filter is stretched to cover all inputs.
  double stretch = 1;
  if (axis.antialias) {
    const double ratio = axis.scale > 0.0F ? 1 / static_cast<double>(axis.scale)
                                           : static_cast<double>(axis.in) / static_cast<double>(axis.out);
    stretch = std::max(ratio, 1.0);
  }
  const double support = (axis.interpolation == "linear" ? 1 : 2) * stretch;
  const auto first = static_cast<std::int64_t>(std::floor(x - support)) + 1;
  const auto last = static_cast<std::int64_t>(std::ceil(x + support)) - 1;
  const std::size_t begin = taps.index.size();
  double sum = 0;
  std::vector<double> weights;
  for (std::int64_t i = first; i <= last; ++i) {
    const bool outside = i < 0 || i >= axis.in;
    if (outside && axis.exclude_outside) continue;
    const double weight = filter(axis, (static_cast<double>(i) - x) / stretch);
    sum += weight;
    const std::int64_t at = std::clamp<std::int64_t>(i, 0, axis.in - 1);
    if (!weights.empty() && taps.index.back() == at) {
      weights.back() += weight;  // the edge is repeated
      continue;
    }
    taps.index.push_back(at);
    weights.push_back(weight);
  }
  if (weights.empty()) {  // the coordinate lies so far outside that every input is excluded
    taps.index.push_back(std::clamp<std::int64_t>(first, 0, axis.in - 1));
    weights.push_back(1);
    sum = 1;
  }
  const bool normalise = axis.exclude_outside || axis.antialias;
  for (const double weight : weights) taps.weight.push_back(static_cast<float>(normalise ? weight / sum : weight));
  taps.begin.push_back(begin + weights.size());
}

}  // namespace

bool Taps::is_identity() const {
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (begin[i + 1] != i + 1 || index[i] != static_cast<std::int64_t>(i) || weight[i] != 1.0F) return false;
  }
  return index.size() + 1 == begin.size();
}

Result<Taps> make_taps(const ResizeAxis& axis) {
  Taps taps;
  for (std::int64_t out = 0; out < axis.out; ++out) {
    HTPIPE_TRY(const double x, coordinate(axis, out));
    if (axis.interpolation == "nearest") {
      HTPIPE_TRY(const std::int64_t index, nearest(axis.nearest, x));
      taps.index.push_back(std::clamp<std::int64_t>(index, 0, axis.in - 1));
      taps.weight.push_back(1.0F);
      taps.begin.push_back(taps.index.size());
    } else if (axis.interpolation == "linear" || axis.interpolation == "cubic") {
      add_filtered(axis, x, taps);
    } else {
      return fail(Code::kUnsupportedForm, fmt::format("no interpolation_mode \"{}\"", axis.interpolation));
    }
  }
  return taps;
}

}  // namespace htpipe::ops
