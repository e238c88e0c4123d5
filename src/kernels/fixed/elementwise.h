// Integer arithmetic of the HTP's elementwise, table and conversion operators.
// Formulas: docs/htp-arithmetic.md, "Elementwise". Everything is computed on the unsigned view of stored values: signed
// types are moved by half their range first. Zero points are positive.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe::kernels {

/// Scale, zero point and range of one stored operand, unsigned view.
struct Grid {
  double scale = 1;
  std::int64_t zero = 0;
  std::int64_t high = 255;
  std::int64_t offset = 0;  ///< added to a stored value to get the unsigned view

  /// Errors: no-fixed-rule when `type` is no per-tensor 8- or 16-bit value.
  static Result<Grid> of(const TensorType& type);
  [[nodiscard]] bool wide() const { return high > 255; }
  bool operator==(const Grid&) const = default;
};

/// A function of one stored value.
using Unary = std::function<std::int64_t(std::int64_t)>;
/// A function of two stored values.
using Binary = std::function<std::int64_t(std::int64_t, std::int64_t)>;

/// Convert between encodings (also the inputs of Concat, Maximum, Minimum). All widths.
[[nodiscard]] Unary convert(const Grid& from, const Grid& to);
/// Clamp of a 16-bit value to [low, high] (infinite = none), which the chip does after converting.
[[nodiscard]] Unary wide_clamp(double low, double high, const Grid& from, const Grid& to);
/// Minus the value. Both 8-bit or both 16-bit.
[[nodiscard]] Unary negate(const Grid& from, const Grid& to);

/// How a table rounds its last step, behind the zero point.
enum class LastStep : std::uint8_t { kEven, kDown };
/// What stands in a table for `value`, in single precision. NaN becomes the highest value.
[[nodiscard]] std::int64_t table_entry(double value, const Grid& to, LastStep last = LastStep::kEven);
/// One-input function by a table of the real numbers that the stored ones stand for.
[[nodiscard]] Unary table(const std::function<double(double)>& function, const Grid& from, const Grid& to,
                          LastStep last = LastStep::kEven);
[[nodiscard]] Binary add(const Grid& a, const Grid& b, const Grid& out, bool subtract);
/// Constants of add().
struct AddFactors {
  int bits = 0;  ///< fractional bits of the factors
  std::int64_t first = 0, second = 0;
  /// 8 bits: (((a first + b second) >> 8) + constant) >> (bits - 8); 16 bits: (a first + b second + constant) >> bits.
  std::int64_t constant = 0;
};
[[nodiscard]] AddFactors add_factors(const Grid& a, const Grid& b, const Grid& out, bool subtract);
[[nodiscard]] Binary multiply(const Grid& a, const Grid& b, const Grid& out);
[[nodiscard]] Binary squared_difference(const Grid& a, const Grid& b, const Grid& out);
[[nodiscard]] Binary maximum(const Grid& a, const Grid& b, const Grid& out, bool minimum);

/// float32 → stored, as a Quantize node on the chip does it (through binary16 for 8-bit results).
[[nodiscard]] std::int64_t quantize(float value, const Grid& to);
/// stored → float32.
[[nodiscard]] float dequantize(std::int64_t stored, const Grid& from);
/// stored → binary16; the scale of 8-bit values is rounded to binary16 first.
[[nodiscard]] std::uint16_t dequantize_f16(std::int64_t stored, const Grid& from);

/// Reads / writes stored values of any 8- or 16-bit type in the unsigned view.
[[nodiscard]] std::int64_t load(const void* data, DType dtype, std::int64_t index);
void store(void* data, DType dtype, std::int64_t index, std::int64_t value);

/// A function of one stored value as a table of all its answers, made once.
class UnaryMap {
 public:
  UnaryMap(const Unary& function, DType from, DType to);
  /// Elements [begin, end).
  void run(const void* in, void* out, std::int64_t begin, std::int64_t end) const;

 private:
  DType from_;
  DType to_;
  bool copies_ = false;              ///< every stored value stays what it is
  std::vector<std::uint8_t> bytes_;  ///< stored answers by stored value, for results of 8 bits
  std::vector<std::uint16_t> words_;
};

}  // namespace htpipe::kernels
