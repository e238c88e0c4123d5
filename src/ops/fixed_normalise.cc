#include "ops/fixed_normalise.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "kernels/fixed/rounding.h"
#include "ops/lanes.h"

namespace htpipe::ops {
namespace {

using kernels::Grid;

/// Gamma as stored minus zero point, with its scale; beta as real numbers. Empty where the node has none.
struct GammaBeta {
  std::vector<std::int64_t> gamma;
  double gamma_scale = 1;
  std::vector<double> beta;

  [[nodiscard]] std::int64_t gamma_at(std::size_t i) const { return gamma.empty() ? 1 : gamma[i]; }
  [[nodiscard]] double beta_at(std::size_t i) const { return beta.empty() ? 0 : beta[i]; }
};

Result<GammaBeta> gamma_beta(const NodeView& node) {
  GammaBeta found;
  if (node.has(1)) {
    if (node.constants[1] == nullptr) return fail(Code::kNoFixedRule, "gamma is not constant");
    HTPIPE_TRY(const Grid grid, Grid::of(node.type(1)));
    // The chip takes 16-bit gammas as symmetric whatever their encoding says.
    if (grid.wide() && grid.zero != 32768) return fail(Code::kNoFixedRule, "a 16-bit gamma that is not symmetric");
    found.gamma_scale = grid.scale;
    const Tensor& stored = *node.constants[1];
    for (std::int64_t i = 0; i < stored.count(); ++i) {
      found.gamma.push_back(kernels::load(stored.bytes().data(), stored.dtype(), i) - grid.zero);
    }
  }
  if (node.has(2)) {
    if (node.constants[2] == nullptr) return fail(Code::kNoFixedRule, "beta is not constant");
    if (!node.type(2).encoding || !node.type(2).encoding->per_tensor()) {
      return fail(Code::kNoFixedRule, "beta has no per-tensor encoding");
    }
    for (std::int64_t i = 0; i < node.constants[2]->count(); ++i) found.beta.push_back(node.constants[2]->real(i));
  }
  return found;
}

/// Where 8-bit results pass through binary16.
double through_f16(double value, const Grid& to) {
  if (to.wide()) return value;
  return static_cast<double>(from_f16(kernels::to_f16_half_away(static_cast<float>(value))));
}

/// One group's sums over stored values minus the zero point.
struct Sums {
  std::int64_t count = 0;
  std::int64_t sum = 0;
  std::int64_t squares = 0;

  Sums(const void* data, DType dtype, std::int64_t base, const std::vector<std::int64_t>& members, std::int64_t zero)
      : count(static_cast<std::int64_t>(members.size())) {
    for (const std::int64_t member : members) {
      const std::int64_t q = kernels::load(data, dtype, base + member) - zero;
      sum += q;
      squares += q * q;
    }
  }
  [[nodiscard]] double mean() const { return static_cast<double>(sum) / static_cast<double>(count); }
  /// In squared steps of the input.
  [[nodiscard]] double variance() const {
    const auto n = static_cast<double>(count);
    return (static_cast<double>(squares) - static_cast<double>(sum) * mean()) / n;
  }
};

/// Everything that the groups of one node share.
struct Norm {
  Groups groups;
  Grid from;
  Grid to;
  DType in_type = DType::kU8;
  DType out_type = DType::kU8;
  double epsilon = 0;  ///< in squared steps of the input
  GammaBeta parameters;

  static Result<Norm> make(const KernelRequest& request, Groups groups) {
    Norm norm;
    norm.groups = std::move(groups);
    HTPIPE_TRY(norm.from, Grid::of(request.node.type(0)));
    HTPIPE_TRY(norm.to, Grid::of(*request.results[0]));
    if (norm.from.wide() != norm.to.wide()) return fail(Code::kNoFixedRule, "operand and result differ in width");
    norm.in_type = request.node.type(0).dtype;
    norm.out_type = request.results[0]->dtype;
    norm.epsilon = static_cast<double>(request.node.attributes.real("epsilon")) / (norm.from.scale * norm.from.scale);
    HTPIPE_TRY(norm.parameters, gamma_beta(request.node));
    return norm;
  }

  [[nodiscard]] Sums sums(const KernelCall& call, std::size_t group) const {
    return {call.operands[0], in_type, groups.bases[group], groups.members, from.zero};
  }
  void put(const KernelCall& call, std::int64_t at, double value) const {
    const double limited = std::clamp(value, 0.0, static_cast<double>(to.high));
    kernels::store(call.results[0], out_type, at, static_cast<std::int64_t>(limited));
  }
  [[nodiscard]] std::int64_t get(const KernelCall& call, std::int64_t at) const {
    return kernels::load(call.operands[0], in_type, at) - from.zero;
  }
};

/// Calls body(group) for all groups, shared out among the lanes of the call.
template <typename Body>
void for_groups(const KernelCall& call, const Groups& groups, Body body) {
  const auto size = static_cast<std::int64_t>(std::max<std::size_t>(groups.members.size(), 1));
  for_parts(call, static_cast<std::int64_t>(groups.bases.size()), std::max<std::int64_t>(1, 4096 / size),
            [&](std::int64_t begin, std::int64_t end, std::byte*) {
              for (std::int64_t g = begin; g < end; ++g) body(static_cast<std::size_t>(g));
            });
}

/// LayerNorm. 8 bits: the factor has 16 fractional bits, the mean 6, both cut. 16 bits: a factor of 16 significant bits.
Kernel integer_kernel(Norm norm) {
  std::vector<double> steps;  // beta in whole steps of the result
  for (const double beta : norm.parameters.beta) {
    const double value = beta / norm.to.scale;
    steps.push_back(std::copysign(std::floor(std::fabs(value) + 0.5), value));
  }
  Kernel kernel;
  kernel.run = [norm = std::move(norm), steps = std::move(steps)](const KernelCall& call) {
    for_groups(call, norm.groups, [&](std::size_t group) {
      const Sums sums = norm.sums(call, group);
      const double deviation = std::sqrt(sums.variance() + norm.epsilon);
      double factor = norm.parameters.gamma_scale / (deviation * norm.to.scale);
      double mean = sums.mean();
      if (norm.to.wide()) {
        if (std::isfinite(factor) && factor > 0) {
          const kernels::Mantissa m = kernels::mantissa(factor, 16);
          factor = std::ldexp(static_cast<double>(m.value), -m.shift);
        }
      } else {
        factor = std::floor(factor * 65536) / 65536;
        mean = std::floor(mean * 64) / 64;
      }
      for (std::size_t m = 0; m < norm.groups.members.size(); ++m) {
        const std::int64_t at = norm.groups.bases[group] + norm.groups.members[m];
        const double distance = static_cast<double>(norm.get(call, at)) - mean;
        // All of a group equal: the chip's factor is finite, and so is this.
        const double value =
            distance == 0.0 ? 0.0 : distance * static_cast<double>(norm.parameters.gamma_at(m)) * factor;
        const double beta = steps.empty() ? 0.0 : steps[m];
        norm.put(call, at, std::floor(value + 0.5) + beta + static_cast<double>(norm.to.zero));
      }
    });
  };
  return kernel;
}

/// RmsNorm.
Kernel floor_kernel(Norm norm) {
  Kernel kernel;
  kernel.run = [norm = std::move(norm)](const KernelCall& call) {
    for_groups(call, norm.groups, [&](std::size_t group) {
      const Sums sums = norm.sums(call, group);
      const double root = std::sqrt(static_cast<double>(sums.squares) / static_cast<double>(sums.count) + norm.epsilon);
      for (std::size_t m = 0; m < norm.groups.members.size(); ++m) {
        const std::int64_t at = norm.groups.bases[group] + norm.groups.members[m];
        const auto q = static_cast<double>(norm.get(call, at));
        const double real =
            q == 0.0 ? 0.0 : q / root * static_cast<double>(norm.parameters.gamma_at(m)) * norm.parameters.gamma_scale;
        const double value = (real + norm.parameters.beta_at(m)) / norm.to.scale + static_cast<double>(norm.to.zero);
        norm.put(call, at, std::floor(through_f16(value, norm.to)));
      }
    });
  };
  return kernel;
}

}  // namespace

Result<Kernel> fixed_axes_norm_kernel(const KernelRequest& request, NormRounding rounding) {
  HTPIPE_TRY(const std::vector<bool> inside, axis_set(request.node));
  HTPIPE_TRY(Norm norm, Norm::make(request, groups_of(request.node.type(0).shape, inside)));
  return rounding == NormRounding::kInteger ? integer_kernel(std::move(norm)) : floor_kernel(std::move(norm));
}

Result<Kernel> fixed_channel_norm_kernel(const KernelRequest& request, const ChannelSizes& sizes, std::int64_t group) {
  if (!sizes.last) return fail(Code::kNoFixedRule, "channel-first data");
  if (sizes.channels == 0) return Kernel{[](const KernelCall&) {}};
  const std::int64_t channels = sizes.channels / group;  // of one group
  HTPIPE_TRY(Norm norm,
             Norm::make(request, groups_of({sizes.batch, sizes.pixels, group, channels}, {false, true, false, true})));
  Kernel kernel;
  kernel.run = [norm = std::move(norm), group, channels](const KernelCall& call) {
    for_groups(call, norm.groups, [&](std::size_t g) {
      const Sums sums = norm.sums(call, g);
      const double mean = sums.mean();
      const double deviation = std::sqrt(sums.variance() + norm.epsilon);
      const std::size_t first = g % static_cast<std::size_t>(group) * static_cast<std::size_t>(channels);
      for (std::size_t m = 0; m < norm.groups.members.size(); ++m) {
        const std::int64_t at = norm.groups.bases[g] + norm.groups.members[m];
        const std::size_t channel = first + m % static_cast<std::size_t>(channels);
        const double distance = static_cast<double>(norm.get(call, at)) - mean;
        const double real = distance == 0.0
                                ? 0.0
                                : distance / deviation * static_cast<double>(norm.parameters.gamma_at(channel)) *
                                      norm.parameters.gamma_scale;
        const double value =
            (real + norm.parameters.beta_at(channel)) / norm.to.scale + static_cast<double>(norm.to.zero);
        norm.put(call, at, std::floor(through_f16(value, norm.to) + 0.5));
      }
    });
  };
  return kernel;
}

Result<Kernel> fixed_l2_norm_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const std::vector<bool> inside, axis_set(request.node));
  HTPIPE_TRY(Norm norm, Norm::make(request, groups_of(request.node.type(0).shape, inside)));
  // Norm scales epsilon as a variance; here it is the smallest divisor.
  const double smallest = std::sqrt(norm.epsilon * static_cast<double>(request.node.attributes.real("epsilon")));
  Kernel kernel;
  kernel.run = [norm = std::move(norm), smallest](const KernelCall& call) {
    for_groups(call, norm.groups, [&](std::size_t group) {
      const double root = std::max(std::sqrt(static_cast<double>(norm.sums(call, group).squares)), smallest);
      for (const std::int64_t member : norm.groups.members) {
        const std::int64_t at = norm.groups.bases[group] + member;
        const auto q = static_cast<double>(norm.get(call, at));
        const double value = q == 0.0 ? 0.0 : q / root / norm.to.scale;
        const double stored = std::trunc(through_f16(value, norm.to)) + static_cast<double>(norm.to.zero);
        // 16-bit results below the range wrap around and are stored as the largest value.
        norm.put(call, at, norm.to.wide() && stored < 0 ? static_cast<double>(norm.to.high) : stored);
      }
    });
  };
  return kernel;
}

}  // namespace htpipe::ops
