// VectorMath for the instruction set of the including file.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/vector_functions.h"
#include "kernels/vector_math.h"

namespace htpipe::kernels::HTPIPE_ISA_NAMESPACE {

template <typename Function>
void map_each(const float* in, float* out, std::int64_t count, Function function) {
  std::int64_t i = 0;
  for (; count - i >= kWidth; i += kWidth) function(Vec::load(in + i)).store(out + i);
  if (i < count) store_part(function(load_part(in + i, count - i, 0.0F)), out + i, count - i);
}

void map(Unary32 function, const float* in, float* out, std::int64_t count) {
  switch (function) {
    case Unary32::kExp:
      return map_each(in, out, count, [](const Vec& x) { return exp(x); });
    case Unary32::kErf:
      return map_each(in, out, count, [](const Vec& x) { return erf(x); });
    case Unary32::kTanh:
      return map_each(in, out, count, [](const Vec& x) { return tanh(x); });
    case Unary32::kSigmoid:
      return map_each(in, out, count, [](const Vec& x) { return sigmoid(x); });
    case Unary32::kGelu:
      return map_each(in, out, count, [](const Vec& x) { return gelu(x); });
    case Unary32::kGeluTanh:
      return map_each(in, out, count, [](const Vec& x) { return gelu_tanh(x); });
    case Unary32::kHardSwish:
      return map_each(in, out, count, [](const Vec& x) { return hard_swish(x); });
  }
}

/// Sum of term(vector, elements of it that count); the terms of the others must be 0. 64 vectors at a time.
template <typename Term>
HTPIPE_INLINE double sum_of(std::int64_t count, Term term) {
  constexpr std::int64_t kBlock = 64 * kWidth;
  double total = 0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t last = count - first < kBlock ? count : first + kBlock;
    Vec sum = Vec::zero();
    for (std::int64_t i = first; i < last; i += kWidth) {
      sum = sum + term(i, last - i < kWidth ? last - i : kWidth);
    }
    total += static_cast<double>(fold_sum(sum));
  }
  return total;
}

HTPIPE_INLINE Vec load_count(const float* p, std::int64_t count, float rest) {
  return count == kWidth ? Vec::load(p) : load_part(p, count, rest);
}
HTPIPE_INLINE void store_count(const Vec& v, float* p, std::int64_t count) {
  if (count == kWidth) {
    v.store(p);
  } else {
    store_part(v, p, count);
  }
}

void softmax(const SoftmaxRows& job) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Vec beta = Vec::set(job.beta);
  for (std::int64_t row = 0; row < job.rows; ++row) {
    const float* in = job.in + row * job.count;
    float* out = job.out + row * job.count;
    Vec largest = Vec::set(-kInfinity);
    for (std::int64_t i = 0; i < job.count; i += kWidth) {
      const std::int64_t part = job.count - i < kWidth ? job.count - i : kWidth;
      // What is missing repeats the row's first element; -infinity times beta could be the largest.
      largest = max(load_count(in + i, part, in[0]) * beta, largest);
    }
    const Vec shift = Vec::set(fold_max(largest));
    const double sum = sum_of(job.count, [&](std::int64_t i, std::int64_t part) {
      const Vec power = exp(load_count(in + i, part, in[0]) * beta - shift);
      store_count(power, out + i, part);
      return part == kWidth ? power : load_part(out + i, part, 0.0F);
    });
    // A row of nothing but -infinity gives NaN, as in PyTorch and ONNX.
    const Vec divisor = Vec::set(static_cast<float>(sum));
    for (std::int64_t i = 0; i < job.count; i += kWidth) {
      const std::int64_t part = job.count - i < kWidth ? job.count - i : kWidth;
      store_count(load_count(out + i, part, 0.0F) / divisor, out + i, part);
    }
  }
}

void norm(const NormRows& job) {
  for (std::int64_t row = 0; row < job.rows; ++row) {
    const float* in = job.in + row * job.count;
    float* out = job.out + row * job.count;
    const auto count = static_cast<double>(job.count);
    float centre = 0.0F;
    if (job.centred) {
      centre = static_cast<float>(
          sum_of(job.count, [in](std::int64_t i, std::int64_t part) { return load_count(in + i, part, 0.0F); }) /
          count);
    }
    const Vec mean = Vec::set(centre);
    const double squares = sum_of(job.count, [&](std::int64_t i, std::int64_t part) {
      const Vec distance = load_count(in + i, part, centre) - mean;
      return distance * distance;
    });
    const Vec scale = Vec::set(static_cast<float>(1 / std::sqrt(squares / count + job.epsilon)));
    for (std::int64_t i = 0; i < job.count; i += kWidth) {
      const std::int64_t part = job.count - i < kWidth ? job.count - i : kWidth;
      Vec value = (load_count(in + i, part, 0.0F) - mean) * scale;
      if (job.gamma != nullptr) {
        const Vec gamma = load_count(job.gamma + i, part, 0.0F);
        value = job.beta != nullptr ? fma(value, gamma, load_count(job.beta + i, part, 0.0F)) : value * gamma;
      } else if (job.beta != nullptr) {
        value = value + load_count(job.beta + i, part, 0.0F);
      }
      store_count(value, out + i, part);
    }
  }
}

template <typename Function>
void pairs(const BinaryRun& run, Function function) {
  const Vec low = Vec::set(run.low);
  const Vec high = Vec::set(run.high);
  const auto loop = [&](auto load_a, auto load_b) {
    for (std::int64_t i = 0; i < run.count; i += kWidth) {
      const std::int64_t part = run.count - i < kWidth ? run.count - i : kWidth;
      store_count(min(high, max(low, function(load_a(i, part), load_b(i, part)))), run.out + i, part);
    }
  };
  const Vec first_a = Vec::set(run.count > 0 ? run.a[0] : 0.0F);
  const Vec first_b = Vec::set(run.count > 0 ? run.b[0] : 0.0F);
  const auto each_a = [&run](std::int64_t i, std::int64_t part) { return load_count(run.a + i, part, 1.0F); };
  const auto each_b = [&run](std::int64_t i, std::int64_t part) { return load_count(run.b + i, part, 1.0F); };
  const auto same_a = [&first_a](std::int64_t, std::int64_t) { return first_a; };
  const auto same_b = [&first_b](std::int64_t, std::int64_t) { return first_b; };
  if (run.repeats_b) return run.repeats_a ? loop(same_a, same_b) : loop(each_a, same_b);
  return run.repeats_a ? loop(same_a, each_b) : loop(each_a, each_b);
}

void binary(const BinaryRun& run) {
  switch (run.operation) {
    case Binary32::kAdd:
      return pairs(run, [](const Vec& a, const Vec& b) { return a + b; });
    case Binary32::kSubtract:
      return pairs(run, [](const Vec& a, const Vec& b) { return a - b; });
    case Binary32::kMultiply:
      return pairs(run, [](const Vec& a, const Vec& b) { return a * b; });
    case Binary32::kDivide:
      return pairs(run, [](const Vec& a, const Vec& b) { return a / b; });
    // Of equal operands the first is taken; NaN in either goes on.
    case Binary32::kMaximum:
      return pairs(run, [](const Vec& a, const Vec& b) { return if_nan(b, b, max(b, a)); });
    case Binary32::kMinimum:
      return pairs(run, [](const Vec& a, const Vec& b) { return if_nan(b, b, min(b, a)); });
  }
}

const VectorMath kVectorMath = {map, softmax, norm, binary};

}  // namespace htpipe::kernels::HTPIPE_ISA_NAMESPACE
