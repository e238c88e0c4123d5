// The functions of ElementWiseBinary on plain values, one row per operation: numbers of QNN, and a loop for each of the
// types that a kernel sees (float32, int64, bool).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/broadcast.h"

namespace htpipe::ops {

struct BinaryOperation {
  using Loop = void (*)(const BroadcastPlan&, const void* a, const void* b, void* out);

  std::string_view name;
  int number;                 ///< of QNN; -1 = QNN has no such operation
  bool compares;              ///< the result is bool, whatever the operands are
  Loop real;                  ///< on float32; null where the operation has no meaning
  Loop integer;               ///< on int64
  Loop logic;                 ///< on bool
  bool sign_matters = false;  ///< int64 and unsigned 64-bit numbers have other results
};

/// The loop on float64 of arithmetic that float32 would overflow and of comparisons; null for the other operations.
[[nodiscard]] BinaryOperation::Loop double_loop(std::string_view name);
[[nodiscard]] std::span<const BinaryOperation> binary_operations();
/// nullptr when there is none of that name.
[[nodiscard]] const BinaryOperation* find_binary_operation(std::string_view name);

}  // namespace htpipe::ops
