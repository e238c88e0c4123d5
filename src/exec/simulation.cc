#include "exec/simulation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "kernels/qdq.h"

namespace htpipe {
namespace {

/// Elements that are worth a hand-over to another thread.
constexpr std::int64_t kGrain = 1 << 15;

struct Codes {
  double low;
  double high;
};

/// The integers that are used: symmetric signed ones leave the lowest out, as weights are stored.
Codes codes_of(DType dtype, const Encoding& encoding) {
  const bool is_signed = lowest(dtype) < 0;
  const double count = std::ldexp(1.0, encoding.bits);
  const bool symmetric = dtype == DType::kI8 && std::all_of(encoding.zero_points.begin(), encoding.zero_points.end(),
                                                            [](std::int32_t zero) { return zero == 0; });
  if (!is_signed) return {0, count - 1};
  return {symmetric ? 1 - count / 2 : -count / 2, count / 2 - 1};
}

}  // namespace

Result<Simulation> Simulation::make(const TensorType& type, const StoredAs& stored) {
  const Encoding& encoding = stored.encoding;
  const auto refuse = [](std::string why) { return fail(Code::kUnsupportedForm, std::move(why)); };
  if (type.dtype != DType::kF32) return refuse(fmt::format("{} is not rounded, only f32", name_of(type.dtype)));
  if (!is_integer(stored.dtype) || size_of(stored.dtype) > 2 || encoding.bits < 1 ||
      encoding.bits > static_cast<int>(8 * size_of(stored.dtype))) {
    return refuse(fmt::format("{} with {} bits", name_of(stored.dtype), encoding.bits));
  }
  Simulation made;
  const auto& shape = type.shape;
  if (encoding.axis >= static_cast<int>(shape.size())) return refuse(fmt::format("no axis {}", encoding.axis));
  if (encoding.per_block()) return refuse("scales of blocks");
  if (encoding.per_channel()) {
    const auto axis = static_cast<std::size_t>(encoding.axis);
    made.channels_ = shape[axis];
    made.outer_ = element_count(Shape(shape.begin(), shape.begin() + encoding.axis));
    made.inner_ = element_count(Shape(shape.begin() + encoding.axis + 1, shape.end()));
  } else {
    made.inner_ = type.count();
  }
  if (encoding.scales.size() != static_cast<std::size_t>(made.channels_) ||
      encoding.zero_points.size() != encoding.scales.size()) {
    return refuse(fmt::format("{} scales and {} zero points for {} channels", encoding.scales.size(),
                              encoding.zero_points.size(), made.channels_));
  }
  const Codes codes = codes_of(stored.dtype, encoding);
  for (std::size_t c = 0; c < encoding.scales.size(); ++c) {
    if (!(encoding.scales[c] > 0) || !std::isfinite(encoding.scales[c])) return refuse("a scale that is not positive");
    made.scales_.push_back(encoding.scales[c]);
    const auto zero = static_cast<double>(encoding.zero_points[c]);
    if (std::fabs(zero) > 1'000'000) return refuse(fmt::format("zero point {}", encoding.zero_points[c]));
    made.low_.push_back(static_cast<float>(codes.low - zero));
    made.high_.push_back(static_cast<float>(codes.high - zero));
  }
  return made;
}

void Simulation::apply(float* data, int lanes) const {
  const auto grid = [this](std::int64_t channel) {
    const auto c = static_cast<std::size_t>(channel);
    return kernels::QdqGrid{scales_[c], low_[c], high_[c]};
  };
  const auto each = [lanes](std::int64_t count, std::int64_t elements, const auto& body) {
    if (lanes <= 1 || count <= 1 || elements < 2 * kGrain) {
      for (std::int64_t i = 0; i < count; ++i) body(i);
      return;
    }
    parallel_for(count, [&](std::int64_t i, int) { body(i); }, lanes);
  };
  if (channels_ == 1) {
    const std::int64_t count = outer_ * inner_;
    const std::int64_t parts = lanes <= 1 ? 1 : std::max<std::int64_t>(count / kGrain, 1);
    each(parts, count, [&](std::int64_t part) {
      const std::int64_t begin = count * part / parts;
      kernels::qdq_f32(grid(0), data + begin, count * (part + 1) / parts - begin);
    });
    return;
  }
  const bool alike = std::all_of(low_.begin(), low_.end(), [this](float low) { return low == low_.front(); });
  if (inner_ == 1 && alike) {  // channels lie side by side
    const std::int64_t rows = std::max<std::int64_t>(kGrain / channels_, 1);
    each((outer_ + rows - 1) / rows, outer_ * channels_, [&](std::int64_t part) {
      const std::int64_t begin = part * rows;
      kernels::qdq_rows_f32(scales_.data(), low_.front(), high_.front(), data + begin * channels_,
                            std::min(rows, outer_ - begin), channels_);
    });
    return;
  }
  each(outer_, outer_ * channels_ * inner_, [&](std::int64_t o) {
    for (std::int64_t c = 0; c < channels_; ++c) {
      kernels::qdq_f32(grid(c), data + (o * channels_ + c) * inner_, inner_);
    }
  });
}

}  // namespace htpipe
