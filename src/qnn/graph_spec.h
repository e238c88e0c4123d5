// A graph as QNN sees it: plain data between our graph (lowered by ops/) and Qualcomm's API (qnn/).
// Invariant: names are unique, every operand names a tensor of the graph, and order is execution order.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe::qnn {

enum class TensorRole : std::uint8_t { kInput, kOutput, kNative, kStatic };

struct TensorSpec {
  std::string name;
  TensorRole role = TensorRole::kNative;
  /// Encodings use our positive zero points; the composer negates them. Quantised i32 biases keep their encoding.
  /// i8 with encoding bits 4 means 4-bit weights in 8-bit storage.
  TensorType type;
  Tensor data;  ///< kStatic only
};

/// A scalar (bool, unsigned, signed, float, string) or a small static tensor parameter of an operator.
struct ParamSpec {
  std::string name;
  std::variant<bool, std::uint32_t, std::int32_t, float, std::string, Tensor> value;
};

struct OpSpec {
  std::string name;
  std::string type;  ///< QNN operator, for instance "Conv2d" of package qti.aisw
  std::vector<ParamSpec> params;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

struct GraphSpec {
  std::string name;
  std::vector<TensorSpec> tensors;
  std::vector<OpSpec> ops;

  [[nodiscard]] const TensorSpec* find(std::string_view tensor) const;
};

}  // namespace htpipe::qnn
