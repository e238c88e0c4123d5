// Pooling, resizing and sampling of images.
#include <fmt/core.h>

#include "import/compose/pool.h"
#include "import/pt2/mappers.h"

namespace htpipe::pt2 {
namespace {

const Shape& shape_of(const Value* value) { return value->type.shape; }

/// "avg2" means two spatial axes.
std::size_t dimensions_of(const Call& call) { return static_cast<std::size_t>(call.argument().back() - '0'); }

/// Pools a batch of images; an image without a batch gets one.
template <typename Pool>
One on_batch(Call& call, std::size_t dimensions, const Pool& pool) {
  HTPIPE_TRY(Value * input, call.tensor(call.node().input("self") != nullptr ? "self" : "input"));
  Shape shape = shape_of(input);
  if (shape.size() == dimensions + 2) return pool(input);
  if (shape.size() != dimensions + 1) return fail(Code::kUnsupportedForm, "pooling of " + to_string(shape));
  shape.insert(shape.begin(), 1);
  HTPIPE_TRY(Value * batch, call.reshape(input, shape, "batch"));
  HTPIPE_TRY(Value * result, pool(batch));
  Shape without(shape_of(result).begin() + 1, shape_of(result).end());
  return call.reshape(result, without, "single");
}

Result<compose::PoolSpec> window(Call& call, std::size_t dimensions) {
  compose::PoolSpec spec;
  HTPIPE_TRY(spec.kernel, call.integers("kernel_size", dimensions));
  HTPIPE_TRY(spec.stride, call.integers("stride", dimensions, spec.kernel));
  HTPIPE_TRY(spec.pad_begin, call.integers("padding", dimensions, IntList(dimensions, 0)));
  spec.pad_end = spec.pad_begin;
  HTPIPE_TRY(spec.ceil_mode, call.flag("ceil_mode", false));
  return spec;
}

}  // namespace

One max_pool(Call& call) {
  const std::size_t dimensions = dimensions_of(call);
  HTPIPE_TRY(compose::PoolSpec spec, window(call, dimensions));
  HTPIPE_TRY(spec.dilation, call.integers("dilation", dimensions, IntList(dimensions, 1)));
  return on_batch(call, dimensions, [&](Value* image) { return compose::pool(call.builder(), image, spec); });
}

/// With the indices of the maxima, which are not imported: nobody may use them.
Many max_pool_many(Call& call) {
  HTPIPE_TRY(Value * result, max_pool(call));
  return Values{result};
}

One avg_pool(Call& call) {
  const std::size_t dimensions = dimensions_of(call);
  HTPIPE_TRY(compose::PoolSpec spec, window(call, dimensions));
  spec.kind = compose::PoolKind::kAverage;
  HTPIPE_TRY(spec.count_include_pad, call.flag("count_include_pad", true));
  HTPIPE_TRY(spec.divisor, call.integer("divisor_override", 0));
  return on_batch(call, dimensions, [&](Value* image) { return compose::pool(call.builder(), image, spec); });
}

One adaptive_pool(Call& call) {
  const std::size_t dimensions = dimensions_of(call);
  const auto kind = call.argument().starts_with("max") ? compose::PoolKind::kMax : compose::PoolKind::kAverage;
  const TensorMeta* meta = call.declared();
  if (meta == nullptr || meta->sizes.size() < dimensions) {
    return fail(Code::kUnsupportedForm, "adaptive pooling to an unknown size");
  }
  const IntList sizes(meta->sizes.end() - static_cast<std::ptrdiff_t>(dimensions), meta->sizes.end());
  return on_batch(call, dimensions,
                  [&](Value* image) { return compose::adaptive_pool(call.builder(), image, kind, sizes); });
}

Many adaptive_pool_many(Call& call) {
  HTPIPE_TRY(Value * result, adaptive_pool(call));
  return Values{result};
}

/// upsample_* of any rank: sizes are the declared ones; given scales are used for the coordinates.
One resize(Call& call) {
  const std::string_view name = call.argument();
  HTPIPE_TRY(Value * input, call.tensor(call.node().input("self") != nullptr ? "self" : "input"));
  const TensorMeta* meta = call.declared();
  if (meta == nullptr || meta->sizes.size() < 3 || meta->sizes.size() != shape_of(input).size()) {
    return fail(Code::kUnsupportedForm, "a resize of another rank");
  }
  HTPIPE_TRY(input, call.cast(input, DType::kF32, "input"));
  HTPIPE_TRY(const bool corners, call.flag("align_corners", false));
  const IntList sizes(meta->sizes.begin() + 2, meta->sizes.end());
  HTPIPE_TRY(const std::vector<double> factors, call.reals("scale_factors"));
  std::vector<float> scales;
  bool given = factors.size() == sizes.size();
  for (const double factor : factors) scales.push_back(static_cast<float>(factor));
  if (factors.empty()) {
    // The other overloads name one scale per axis.
    const std::vector<std::string> names = sizes.size() == 1 ? std::vector<std::string>{"scales"}
                                           : sizes.size() == 2
                                               ? std::vector<std::string>{"scales_h", "scales_w"}
                                               : std::vector<std::string>{"scales_d", "scales_h", "scales_w"};
    given = true;
    for (const std::string& scale : names) {
      given = given && call.has(scale);
      if (!given) break;
      HTPIPE_TRY(const double factor, call.real(scale));
      scales.push_back(static_cast<float>(factor));
    }
  }
  if (!given) {
    scales.clear();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      scales.push_back(static_cast<float>(sizes[i]) / static_cast<float>(shape_of(input)[i + 2]));
    }
  }
  Attributes attributes{{"sizes", sizes}, {"data_layout", std::string("nchw")}};
  attributes.set("scales", scales);
  std::string mode = "linear";
  std::string transformation = corners ? "align_corners" : "half_pixel";
  if (name.starts_with("nearest")) {
    mode = "nearest";
    transformation = name == "nearest_exact" ? "half_pixel" : "asymmetric";
    attributes.set("nearest_mode", std::string(name == "nearest_exact" ? "round_prefer_ceil" : "floor"));
  } else if (name.starts_with("cubic")) {
    mode = "cubic";
    attributes.set("cubic_coeff", name == "cubic_aa" ? -0.5F : -0.75F);
  }
  if (name.ends_with("_aa")) {
    attributes.set("antialias", true);
    attributes.set("exclude_outside", true);
  }
  attributes.set("interpolation_mode", mode);
  attributes.set("transformation_mode", transformation);
  return call.add("Resize", std::move(attributes), {input});
}

/// grid_sampler of 2-D and 3-D.
One grid_sample(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("input"));
  HTPIPE_TRY(Value * grid, call.tensor("grid"));
  HTPIPE_TRY(const std::int64_t mode, call.integer("interpolation_mode"));
  HTPIPE_TRY(const std::int64_t padding, call.integer("padding_mode"));
  HTPIPE_TRY(const bool corners, call.flag("align_corners", false));
  static const char* const kModes[] = {"bilinear", "nearest", "bicubic"};
  static const char* const kPaddings[] = {"zeros", "border", "reflection"};
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    return fail(Code::kUnsupportedForm, "grid_sampler of this mode");
  return call.add("GridSample",
                  {{"mode", std::string(kModes[mode])},
                   {"padding_mode", std::string(kPaddings[padding])},
                   {"align_corners", corners}},
                  {input, grid});
}

/// affine_grid_generator: coordinates of every pixel times the matrices.
One affine_grid(Call& call) {
  HTPIPE_TRY(Value * theta, call.tensor("theta"));
  HTPIPE_TRY(const IntList size, call.integers("size", 0));
  HTPIPE_TRY(const bool corners, call.flag("align_corners", false));
  const TensorMeta* meta = call.declared();
  if (meta == nullptr || size.size() < 4 || size.size() > 5)
    return fail(Code::kUnsupportedForm, "an affine grid of this rank");
  const std::size_t dimensions = size.size() - 2;
  std::int64_t pixels = 1;
  for (std::size_t i = 0; i < dimensions; ++i) pixels *= size[i + 2];
  std::vector<float> base;
  IntList index(dimensions, 0);
  for (std::int64_t p = 0; p < pixels; ++p) {
    for (std::size_t i = dimensions; i-- > 0;) {
      const auto n = static_cast<double>(size[i + 2]);
      const auto at = static_cast<double>(index[i]);
      const double position = corners ? (n > 1 ? -1.0 + 2.0 * at / (n - 1) : 0.0) : (2.0 * at + 1.0) / n - 1.0;
      base.push_back(static_cast<float>(position));
    }
    base.push_back(1.0F);
    for (std::size_t i = dimensions; i-- > 0;) {
      if (++index[i] < size[i + 2]) break;
      index[i] = 0;
    }
  }
  HTPIPE_TRY(Value * coordinates, call.constant("base", {1, pixels, static_cast<std::int64_t>(dimensions) + 1}, base));
  HTPIPE_TRY(Value * columns, call.transpose(theta, {0, 2, 1}, "columns"));
  HTPIPE_TRY(Value * grid, call.add("MatMul", {}, {coordinates, columns}, "grid"));
  return call.reshape(grid, meta->sizes);
}

}  // namespace htpipe::pt2
