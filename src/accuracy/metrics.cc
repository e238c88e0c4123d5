#include "accuracy/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/check.h"

namespace htpipe::accuracy {
namespace {

/// Binary16 codes in the order of their values.
std::int64_t ordered_f16(std::uint16_t bits) {
  const std::int64_t magnitude = bits & 0x7FFF;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::int64_t stored(const Tensor& tensor, std::size_t index) {
  switch (tensor.dtype()) {
    case DType::kU8:
    case DType::kBool:
      return tensor.data<std::uint8_t>()[index];
    case DType::kI8:
      return tensor.data<std::int8_t>()[index];
    case DType::kU16:
      return tensor.data<std::uint16_t>()[index];
    case DType::kI16:
      return tensor.data<std::int16_t>()[index];
    case DType::kI32:
      return tensor.data<std::int32_t>()[index];
    case DType::kF16:
      return ordered_f16(tensor.data<std::uint16_t>()[index]);
    default:
      throw_bug(__FILE__, __LINE__, "dtype", "no stored steps in this type");
  }
}

}  // namespace

void Comparison::add(std::span<const float> reference, std::span<const float> values) {
  HTPIPE_CHECK(reference.size() == values.size(), "comparison of tensors of different size");
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const auto r = static_cast<double>(reference[i]);
    const auto v = static_cast<double>(values[i]);
    const double error = std::fabs(r - v);
    dot_ += r * v;
    reference_energy_ += r * r;
    value_energy_ += v * v;
    error_energy_ += error * error;
    // A NaN must not pass as a small error.
    if (!(error <= max_error_)) max_error_ = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    reference_max_ = std::max(reference_max_, std::fabs(r));
  }
  count_ += static_cast<std::int64_t>(reference.size());
}

double Comparison::cosine() const {
  if (reference_energy_ == 0 && value_energy_ == 0) return 1;
  if (reference_energy_ == 0 || value_energy_ == 0) return 0;
  const double cosine = dot_ / std::sqrt(reference_energy_) / std::sqrt(value_energy_);
  return std::isnan(cosine) ? 0 : std::clamp(cosine, -1.0, 1.0);
}

double Comparison::snr_db() const {
  if (error_energy_ == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(reference_energy_ / error_energy_);
}

void StepAgreement::add(const Tensor& ours, const Tensor& theirs) {
  HTPIPE_CHECK(ours.dtype() == theirs.dtype() && ours.count() == theirs.count(), "agreement of different types");
  for (std::size_t i = 0; i < static_cast<std::size_t>(ours.count()); ++i) {
    const std::int64_t steps = std::llabs(stored(ours, i) - stored(theirs, i));
    ++compared;
    if (steps == 0) ++equal;
    if (steps <= 1) ++within_one;
    max_steps = std::max(max_steps, steps);
  }
}

void StepAgreement::merge(const StepAgreement& other) {
  compared += other.compared;
  equal += other.equal;
  within_one += other.within_one;
  max_steps = std::max(max_steps, other.max_steps);
}

std::int64_t argmax(std::span<const float> values) {
  return std::max_element(values.begin(), values.end()) - values.begin();
}

}  // namespace htpipe::accuracy
