#include "ops/fixed_pairs.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "kernels/fixed/fixed_loops.h"
#include "ops/broadcast.h"

namespace htpipe::ops {
namespace {

std::int64_t flip_of(DType dtype) { return dtype == DType::kI8 ? 128 : dtype == DType::kI16 ? 32768 : 0; }

/// A result of comparisons is a byte of 0 or 1, all others are stored values.
void store(void* out, DType dtype, std::int64_t index, std::int64_t value) {
  if (dtype == DType::kBool) {
    static_cast<std::uint8_t*>(out)[index] = static_cast<std::uint8_t>(value);
  } else {
    kernels::store(out, dtype, index, value);
  }
}

/// `count` elements of a run: x and y point to its first ones, and advance by one unless they repeat.
struct Run {
  std::int64_t count;
  bool repeats_x;
  bool repeats_y;
};

/// A function of two stored values in the best form that it has.
class PairLoop {
 public:
  PairLoop(const KernelRequest& request, kernels::Binary function, const std::optional<kernels::AddFactors>& addition)
      : dtype_x_(request.node.type(0).dtype),
        dtype_y_(request.node.type(1).dtype),
        dtype_out_(request.results[0]->dtype),
        function_(std::move(function)) {
    const bool bytes = size_of(dtype_x_) == 1 && size_of(dtype_y_) == 1 && size_of(dtype_out_) == 1;
    const bool words = size_of(dtype_x_) == 2 && size_of(dtype_y_) == 2 && size_of(dtype_out_) == 2;
    if (bytes) make_answers();
    if (bytes && addition) adds_ = make_byte_addition(*addition);
    if (words && addition) adds_ = make_word_addition(*addition);
    if (adds_) answers_ = {};
  }

  void run(const void* x, std::int64_t from_x, const void* y, std::int64_t from_y, const Run& run, void* out,
           std::int64_t to) const {
    if (size_of(dtype_out_) == 1 && (adds_ || !answers_.empty())) {
      bytes(static_cast<const std::uint8_t*>(x) + from_x, static_cast<const std::uint8_t*>(y) + from_y, run,
            static_cast<std::uint8_t*>(out) + to);
    } else if (adds_) {
      words(static_cast<const std::uint16_t*>(x) + from_x, static_cast<const std::uint16_t*>(y) + from_y, run,
            static_cast<std::uint16_t*>(out) + to);
    } else {
      for (std::int64_t i = 0; i < run.count; ++i) {
        const std::int64_t a = kernels::load(x, dtype_x_, from_x + (run.repeats_x ? 0 : i));
        const std::int64_t b = kernels::load(y, dtype_y_, from_y + (run.repeats_y ? 0 : i));
        store(out, dtype_out_, to + i, function_(a, b));
      }
    }
  }

 private:
  /// All 65,536 answers, by stored values.
  void make_answers() {
    answers_.resize(65536);
    for (std::int64_t i = 0; i < 65536; ++i) {
      const std::int64_t q = function_((i >> 8) ^ flip_of(dtype_x_), (i & 255) ^ flip_of(dtype_y_));
      store(answers_.data(), dtype_out_, i, q);
    }
  }

  bool make_byte_addition(const kernels::AddFactors& f) {
    constexpr std::int64_t kMost = 1 << 22;  // so that nothing leaves 32 bits
    if (std::abs(f.first) > kMost || std::abs(f.second) > kMost || std::abs(f.constant) > (std::int64_t{1} << 29)) {
      return false;
    }
    add_.first = static_cast<std::int32_t>(f.first);
    add_.second = static_cast<std::int32_t>(f.second);
    add_.constant = static_cast<std::int32_t>(f.constant);
    add_.shift = f.bits - 8;
    add_.flip_first = static_cast<std::int32_t>(flip_of(dtype_x_));
    add_.flip_second = static_cast<std::int32_t>(flip_of(dtype_y_));
    add_.flip_out = static_cast<std::int32_t>(flip_of(dtype_out_));
    // The table knows whether this is the function.
    std::vector<std::uint8_t> x(256);
    std::vector<std::uint8_t> y(256);
    std::vector<std::uint8_t> sums(256);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::uint8_t>(i);
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::fill(x.begin(), x.end(), static_cast<std::uint8_t>(i));
      kernels::fixed_loops().add(add_, x.data(), y.data(), 256, sums.data());
      if (!std::equal(sums.begin(), sums.end(), answers_.begin() + static_cast<std::ptrdiff_t>(256 * i))) return false;
    }
    return true;
  }

  bool make_word_addition(const kernels::AddFactors& f) {
    // Sums, factors and their fractions together must fit the 53 bits of a double.
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    if (f.bits < 1 || f.bits > 20 || std::abs(f.first) > kMost || std::abs(f.second) > kMost ||
        std::abs(f.constant) > (kMost << 17)) {
      return false;
    }
    wide_.first = std::ldexp(static_cast<double>(f.first), -f.bits);
    wide_.second = std::ldexp(static_cast<double>(f.second), -f.bits);
    wide_.addend = std::ldexp(static_cast<double>(f.constant), -f.bits);
    wide_.flip_first = static_cast<std::int32_t>(flip_of(dtype_x_));
    wide_.flip_second = static_cast<std::int32_t>(flip_of(dtype_y_));
    wide_.flip_out = static_cast<std::int32_t>(flip_of(dtype_out_));
    // Another function would show among a few thousand pairs, the ends of the range among them.
    std::mt19937 random(1);
    std::vector<std::uint16_t> x(4096);
    std::vector<std::uint16_t> y(x.size());
    std::vector<std::uint16_t> sums(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = i % 8 == 0 ? 0 : i % 8 == 1 ? 65535 : static_cast<std::uint16_t>(random());
      y[i] = i % 16 < 2 ? 0 : i % 16 < 4 ? 65535 : static_cast<std::uint16_t>(random());
    }
    kernels::fixed_loops().add_wide(wide_, x.data(), y.data(), static_cast<std::int64_t>(x.size()), sums.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::int64_t q = function_(x[i] ^ flip_of(dtype_x_), y[i] ^ flip_of(dtype_y_)) ^ flip_of(dtype_out_);
      if (sums[i] != q) return false;
    }
    return true;
  }

  void bytes(const std::uint8_t* x, const std::uint8_t* y, const Run& run, std::uint8_t* out) const {
    if (adds_)
      return repeating(x, y, run, out,
                       [&](const std::uint8_t* a, const std::uint8_t* b, std::int64_t count, std::uint8_t* to) {
                         kernels::fixed_loops().add(add_, a, b, count, to);
                       });
    const std::uint8_t* table = answers_.data();
    if (run.repeats_x) {
      table += *x * 256;
      for (std::int64_t i = 0; i < run.count; ++i) out[i] = table[y[i * (run.repeats_y ? 0 : 1)]];
    } else {
      const std::int64_t step = run.repeats_y ? 0 : 1;
      for (std::int64_t i = 0; i < run.count; ++i) out[i] = table[x[i] * 256 + y[i * step]];
    }
  }

  void words(const std::uint16_t* x, const std::uint16_t* y, const Run& run, std::uint16_t* out) const {
    repeating(x, y, run, out,
              [&](const std::uint16_t* a, const std::uint16_t* b, std::int64_t count, std::uint16_t* to) {
                kernels::fixed_loops().add_wide(wide_, a, b, count, to);
              });
  }

  /// Calls add(x, y, count, out) for pieces of a run; an operand that repeats is written out as often.
  template <typename T, typename Add>
  static void repeating(const T* x, const T* y, const Run& run, T* out, Add add) {
    if (!run.repeats_x && !run.repeats_y) return add(x, y, run.count, out);
    constexpr std::int64_t kPiece = 256;
    T same_x[kPiece];
    T same_y[kPiece];
    const std::int64_t most = std::min(kPiece, run.count);
    if (run.repeats_x) std::fill_n(same_x, most, *x);
    if (run.repeats_y) std::fill_n(same_y, most, *y);
    for (std::int64_t i = 0; i < run.count; i += kPiece) {
      add(run.repeats_x ? same_x : x + i, run.repeats_y ? same_y : y + i, std::min(kPiece, run.count - i), out + i);
    }
  }

  DType dtype_x_;
  DType dtype_y_;
  DType dtype_out_;
  kernels::Binary function_;
  std::vector<std::uint8_t> answers_;  ///< of two 8-bit operands
  bool adds_ = false;                  ///< `add_` or `wide_` is the function
  kernels::AddConstants add_;
  kernels::WideAddConstants wide_;
};

}  // namespace

Kernel pair_kernel(const KernelRequest& request, const kernels::Binary& function,
                   const std::optional<kernels::AddFactors>& addition) {
  const auto loop = std::make_shared<const PairLoop>(request, function, addition);
  Kernel kernel;
  kernel.run = [loop, plan = plan_broadcast({&request.node.type(0).shape, &request.node.type(1).shape},
                                            request.results[0]->shape)](const KernelCall& call) {
    share_runs(call, plan, [&](std::int64_t to, const BroadcastPlan::Offsets& from, std::int64_t count) {
      loop->run(call.operands[0], from[0], call.operands[1], from[1], {count, plan.repeats[0], plan.repeats[1]},
                call.results[0], to);
    });
  };
  return kernel;
}

}  // namespace htpipe::ops
