// Softmax of stored integers as the HTP computes it. Formulas: docs/htp-arithmetic.md, "Softmax".
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/fixed/elementwise.h"

namespace htpipe::kernels {

/// One row at a time; const and thread-safe.
class FixedSoftmax {
 public:
  /// `beta` is a positive factor of the input; `length` the elements of a row. Errors: no-fixed-rule.
  static Result<FixedSoftmax> make(const Grid& from, const Grid& to, double beta, std::int64_t length);

  /// `stored` holds a row in the unsigned view and receives the result in place.
  void run(std::int64_t* stored) const;

 private:
  void fill_pairs(double step);
  void run_wide(std::int64_t* stored, std::int64_t largest) const;
  void run_narrow(std::int64_t* stored, std::int64_t largest) const;
  void run_real(std::int64_t* stored, std::int64_t largest) const;
  void run_pair(std::int64_t* stored, std::int64_t largest) const;

  Grid to_;
  std::int64_t units_ = 1;  ///< 8 bits: the scale of the result in 2^-16, cut
  bool exact_ = false;      ///< 8 bits: computed with real numbers
  std::int64_t length_ = 0;
  std::int64_t factor_ = 0;                 ///< steps of the input in units of 2^-22 octaves
  std::vector<std::int64_t> exponentials_;  ///< 8 bits: of a distance from the largest element, 15 fractional bits
  std::vector<double> reals_;               ///< the same for exact_
  std::vector<std::pair<std::int64_t, std::int64_t>>
      pairs_;  ///< 8 bits, rows of two: by the second minus the first, from -255
};

/// LogSoftmax of one row in the unsigned view, in place. `beta` is a positive factor of the input.
void fixed_log_softmax(std::int64_t* stored, std::int64_t length, const Grid& from, const Grid& to, double beta);

}  // namespace htpipe::kernels
