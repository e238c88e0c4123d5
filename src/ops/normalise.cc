#include "ops/normalise.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "kernels/vector_math.h"
#include "ops/lanes.h"

namespace htpipe::ops {
namespace {

constexpr std::int64_t kNormGrain = 1 << 14;  ///< elements that are worth a hand-over to another thread

/// Offsets of all positions along the axes for which `inside` is `wanted`.
std::vector<std::int64_t> offsets(const Shape& shape, const std::vector<bool>& inside, bool wanted) {
  std::vector<std::int64_t> found = {0};
  std::int64_t stride = element_count(shape);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] > 0) stride /= shape[axis];
    if (inside[axis] != wanted) continue;
    std::vector<std::int64_t> longer;
    longer.reserve(found.size() * static_cast<std::size_t>(shape[axis]));
    for (const std::int64_t offset : found) {
      for (std::int64_t i = 0; i < shape[axis]; ++i) longer.push_back(offset + i * stride);
    }
    found = std::move(longer);
  }
  return found;
}

}  // namespace

Groups groups_of(const Shape& shape, const std::vector<bool>& inside) {
  return {offsets(shape, inside, false), offsets(shape, inside, true)};
}

Result<std::vector<bool>> axis_set(const NodeView& node) {
  const Shape& shape = node.type(0).shape;
  const auto& axes = node.attributes.integers("axes");
  std::vector<bool> inside(shape.size(), false);
  for (const std::int64_t axis : axes) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size()) || inside[static_cast<std::size_t>(axis)]) {
      return fail(Code::kUnsupportedForm, fmt::format("axes {} of {}", to_string(axes), to_string(shape)));
    }
    inside[static_cast<std::size_t>(axis)] = true;
  }
  if (axes.empty()) return fail(Code::kUnsupportedForm, "no axes");
  return inside;
}

Result<std::size_t> axis_of(const NodeView& node) {
  const Shape& shape = node.type(0).shape;
  const std::int64_t axis = node.attributes.integer("axis");
  if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) {
    return fail(Code::kUnsupportedForm, fmt::format("axis {} of {}", axis, to_string(shape)));
  }
  return static_cast<std::size_t>(axis);
}

Result<ChannelSizes> channel_sizes(const NodeView& node, std::size_t low_rank) {
  const Shape& shape = node.type(0).shape;
  if (shape.size() < low_rank) {
    return fail(Code::kShapeMismatch, fmt::format("needs rank {} or more, got {}", low_rank, to_string(shape)));
  }
  const std::string& layout = node.attributes.text("data_layout");
  if (layout != "nchw" && layout != "nhwc")
    return fail(Code::kUnsupportedForm, fmt::format("no layout \"{}\"", layout));
  ChannelSizes sizes;
  sizes.last = layout == "nhwc";
  sizes.batch = shape.front();
  sizes.channels = sizes.last ? shape.back() : shape[1];
  for (std::size_t axis = sizes.last ? 1 : 2; axis < shape.size() - (sizes.last ? 1 : 0); ++axis)
    sizes.pixels *= shape[axis];
  return sizes;
}

Status check_real(const NodeView& node, std::size_t operand) {
  const TensorType& type = node.type(operand);
  if (is_float(type.dtype) || type.encoding) return {};
  return fail(Code::kDtypeMismatch, fmt::format("operand {} is {}, needs real numbers", operand, name_of(type.dtype)));
}

Status check_gamma_beta(const NodeView& node, std::int64_t count) {
  for (std::size_t operand = 1; operand < 3; ++operand) {
    if (!node.has(operand)) continue;
    HTPIPE_CHECK_OK(check_real(node, operand));
    if (node.type(operand).count() != count) {
      return fail(Code::kShapeMismatch,
                  fmt::format("{} has shape {}, needs {} elements", operand == 1 ? "gamma" : "beta",
                              to_string(node.type(operand).shape), count));
    }
  }
  if (node.has(2) && !node.has(1)) return fail(Code::kUnsupportedForm, "beta without gamma");
  return {};
}

Status check_epsilon(const NodeView& node) {
  const float epsilon = node.attributes.real("epsilon");
  if (epsilon >= 0.0F && std::isfinite(epsilon)) return {};
  return fail(Code::kUnsupportedForm, fmt::format("epsilon {}", epsilon));
}

std::vector<TensorType> same_as_input(const NodeView& node) {
  return {{node.type(0).dtype, node.type(0).shape, std::nullopt}};
}

Moments moments(const float* data, const std::vector<std::int64_t>& members) {
  const auto count = static_cast<double>(members.size());
  Moments result;
  for (const std::int64_t member : members) result.mean += static_cast<double>(data[member]);
  result.mean /= count;
  for (const std::int64_t member : members) {
    const double distance = static_cast<double>(data[member]) - result.mean;
    result.variance += distance * distance;
  }
  result.variance /= count;
  return result;
}

double mean_square(const float* data, const std::vector<std::int64_t>& members) {
  double sum = 0;
  for (const std::int64_t member : members)
    sum += static_cast<double>(data[member]) * static_cast<double>(data[member]);
  return sum / static_cast<double>(members.size());
}

bool trailing(const std::vector<bool>& inside) {
  const auto first = std::find(inside.begin(), inside.end(), true);
  return std::all_of(first, inside.end(), [](bool in) { return in; });
}

Kernel norm_rows_kernel(const NodeView& node, const std::vector<bool>& inside, bool centred) {
  std::int64_t count = 1;
  std::int64_t rows = 1;
  for (std::size_t axis = 0; axis < inside.size(); ++axis) (inside[axis] ? count : rows) *= node.type(0).shape[axis];
  if (count == 0) rows = 0;
  const auto epsilon = static_cast<double>(node.attributes.real("epsilon"));
  Kernel kernel;
  kernel.run = [=, has_gamma = node.has(1), has_beta = node.has(2)](const KernelCall& call) {
    for_parts(call, rows, kNormGrain / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      kernels::vector_math().norm({call.in<float>(0) + begin * count, call.out<float>(0) + begin * count, end - begin,
                                   count, has_gamma ? call.in<float>(1) : nullptr,
                                   has_beta ? call.in<float>(2) : nullptr, epsilon, centred});
    });
  };
  return kernel;
}

Result<Kernel> channel_norm_kernel(const KernelRequest& request, const ChannelSizes& sizes, std::int64_t group) {
  const std::int64_t channels = sizes.channels / group;  // of one group
  const Groups groups = sizes.last
                            ? groups_of({sizes.batch, sizes.pixels, group, channels}, {false, true, false, true})
                            : groups_of({sizes.batch, group, channels, sizes.pixels}, {false, false, true, true});
  const bool has_gamma = request.node.has(1);
  const bool has_beta = request.node.has(2);
  const auto epsilon = static_cast<double>(request.node.attributes.real("epsilon"));
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    const auto normalise = [&](std::size_t g) {
      const float* in = call.in<float>(0) + groups.bases[g];
      float* out = call.out<float>(0) + groups.bases[g];
      const Moments found = moments(in, groups.members);
      const double scale = 1 / std::sqrt(found.variance + epsilon);
      const std::int64_t first = static_cast<std::int64_t>(g) % group * channels;
      for (std::size_t m = 0; m < groups.members.size(); ++m) {
        const auto at = static_cast<std::int64_t>(m);
        const std::int64_t channel = first + (sizes.last ? at % channels : at / sizes.pixels);
        double value = (static_cast<double>(in[groups.members[m]]) - found.mean) * scale;
        if (has_gamma) value *= static_cast<double>(call.in<float>(1)[channel]);
        if (has_beta) value += static_cast<double>(call.in<float>(2)[channel]);
        out[groups.members[m]] = static_cast<float>(value);
      }
    };
    const std::int64_t work = static_cast<std::int64_t>(groups.members.size()) + 1;
    for_parts(call, static_cast<std::int64_t>(groups.bases.size()), kNormGrain / work + 1,
              [&](std::int64_t begin, std::int64_t end, std::byte*) {
                for (std::int64_t g = begin; g < end; ++g) normalise(static_cast<std::size_t>(g));
              });
  };
  return kernel;
}

Result<std::vector<TensorType>> infer_axes_norm(const NodeView& node) {
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(check_epsilon(node));
  HTPIPE_TRY(const std::vector<bool> inside, axis_set(node));
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < inside.size(); ++axis) count *= inside[axis] ? node.type(0).shape[axis] : 1;
  HTPIPE_CHECK_OK(check_gamma_beta(node, count));
  return same_as_input(node);
}

Result<Kernel> axes_norm_kernel(const NodeView& node, bool centred) {
  HTPIPE_TRY(const std::vector<bool> inside, axis_set(node));
  if (trailing(inside)) return norm_rows_kernel(node, inside, centred);
  Kernel kernel;
  kernel.run = [groups = groups_of(node.type(0).shape, inside), centred, has_gamma = node.has(1),
                has_beta = node.has(2),
                epsilon = static_cast<double>(node.attributes.real("epsilon"))](const KernelCall& call) {
    for (const std::int64_t base : groups.bases) {
      const float* in = call.in<float>(0) + base;
      float* out = call.out<float>(0) + base;
      const Moments found = centred ? moments(in, groups.members) : Moments{0, mean_square(in, groups.members)};
      const double scale = 1 / std::sqrt(found.variance + epsilon);
      for (std::size_t m = 0; m < groups.members.size(); ++m) {
        double value = (static_cast<double>(in[groups.members[m]]) - found.mean) * scale;
        if (has_gamma) value *= static_cast<double>(call.in<float>(1)[m]);
        if (has_beta) value += static_cast<double>(call.in<float>(2)[m]);
        out[groups.members[m]] = static_cast<float>(value);
      }
    }
  };
  return kernel;
}

}  // namespace htpipe::ops
