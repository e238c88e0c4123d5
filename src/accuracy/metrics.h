// How close a tensor is to its reference, streamed over any number of samples.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace htpipe::accuracy {

/// Cosine similarity, signal-to-noise ratio and largest error of all elements seen so far.
class Comparison {
 public:
  /// `values` against `reference`, element by element; both of the same size.
  void add(std::span<const float> reference, std::span<const float> values);

  /// reference · values / (|reference| |values|). 1 when both are all zero, 0 when only one is.
  [[nodiscard]] double cosine() const;
  /// 10 log10(|reference|² / |reference - values|²) in dB; infinite when they are equal.
  [[nodiscard]] double snr_db() const;
  [[nodiscard]] double max_error() const { return max_error_; }
  [[nodiscard]] double reference_max() const { return reference_max_; }
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  double dot_ = 0;
  double reference_energy_ = 0;
  double value_energy_ = 0;
  double error_energy_ = 0;
  double max_error_ = 0;
  double reference_max_ = 0;
  std::int64_t count_ = 0;
};

/// How two engines agree on stored values of the same type, in steps of the last place.
struct StepAgreement {
  std::int64_t compared = 0;
  std::int64_t equal = 0;
  std::int64_t within_one = 0;
  std::int64_t max_steps = 0;

  /// Integers by value, FP16 by units in the last place. Both of the same type.
  void add(const Tensor& ours, const Tensor& theirs);
  void merge(const StepAgreement& other);
};

/// Index of the largest element; the first one on a tie.
[[nodiscard]] std::int64_t argmax(std::span<const float> values);

}  // namespace htpipe::accuracy
