// ConvRequant for whole rows of sums: the same integers, from constants that lie by channel so that vectors can take them.
//
// What the loops take is one 32-bit number per output: the sum as the products leave it, without the bits that its form
// drops. Wider operands leave several sums, of halves of 8 bits (RowRequant::Parts).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/fixed/conv_requant.h"

namespace htpipe::kernels {

/// Constants by channel, padded with zeros to whole vectors of any width.
struct RowConstants {
  enum class Form : std::uint8_t {
    kWhole,  ///< in 32-bit integers: clamp(((a << left) >> right) * multiplier + offset) >> fraction
    kReal,   ///< in doubles that hold every value exactly: floor(a * scale * factor + addend)
    kExact,  ///< ConvForm::kExact: rint((a + bias) * factor + zero) in single precision
    kEach,   ///< one by one in 64 bits: some channel leaves the range of the other forms
  };
  Form form = Form::kEach;
  std::int32_t high = 255;
  std::int32_t flip = 0;  ///< exclusive-or of the result: 128 or 32768 for signed types
  int fraction = 0;
  bool shifts_left = false;
  double limit = 0;               ///< kReal: of a * scale; more is clamped in the end anyway
  float zero = 0;                 ///< kExact
  std::vector<std::int32_t> add;  ///< a = sum + add
  std::vector<std::int32_t> limits;
  std::vector<std::int32_t> left;
  std::vector<std::int32_t> right;
  std::vector<std::int32_t> multiplier;
  std::vector<std::int32_t> offset;
  std::vector<double> scale;
  std::vector<double> factor;
  std::vector<double> addend;
  std::vector<float> exact_bias;
  std::vector<float> exact_factor;
};

class RowRequant {
 public:
  /// Which halves of operands were multiplied, low before high.
  enum class Parts : std::uint8_t {
    kWhole,         ///< one sum; 8 bits may be dropped
    kInputHalves,   ///< p0 + 256 p1, of which 8 bits are dropped: p1 + (p0 >> 8)
    kWeightHalves,  ///< p0 + 256 p1
    kBothHalves,    ///< low · low, high input · low, low · high weight, high · high; 16 bits are dropped
  };
  /// How sums come about.
  struct Sums {
    Parts parts = Parts::kWhole;
    int drop = 0;                               ///< bits that the form drops from a sum of kWhole
    std::span<const std::int64_t> corrections;  ///< to be taken off the whole sum, per channel: zero point · weights
    std::int64_t reach = 0;                     ///< no whole sum without its dropped bits is larger in magnitude
  };
  RowRequant() = default;
  RowRequant(const ConvRequant& requant, const Sums& sums);

  /// Stored outputs of channels [first, first + count) into `out`, of 8 or 16 bits. `sums` has a row for each of the
  /// parts; the first is overwritten.
  void apply(std::int32_t* const* sums, std::int64_t first, std::int64_t count, void* out) const;

  [[nodiscard]] const RowConstants& constants() const { return constants_; }
  /// Number of sums.
  [[nodiscard]] int parts() const { return parts_ == Parts::kWhole ? 1 : parts_ == Parts::kBothHalves ? 4 : 2; }

 private:
  void apply_each(const std::int32_t* const* sums, std::int64_t first, std::int64_t count, void* out) const;

  RowConstants constants_;
  ConvRequant requant_;
  std::vector<std::int64_t> corrections_;
  Parts parts_ = Parts::kWhole;
  int drop_ = 0;
  bool wide_ = false;
};

}  // namespace htpipe::kernels
