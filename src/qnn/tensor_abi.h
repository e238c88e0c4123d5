// Our tensors as QNN tensors and back.
// Invariant: zero points change sign here and nowhere else (QNN: real = (stored + offset) * scale).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "qnn/abi.h"
#include "qnn/graph_spec.h"

namespace htpipe::qnn {

/// A QNN tensor with the memory its pointers refer to. Stays where it was made.
class AbiTensor {
 public:
  /// `spec` must have passed check(). Static data is referred to, not copied: the spec must outlive this.
  explicit AbiTensor(const TensorSpec& spec, abi::TensorKind kind);
  AbiTensor(const AbiTensor&) = delete;
  AbiTensor& operator=(const AbiTensor&) = delete;

  abi::Tensor value{};

 private:
  void set_encoding(const TensorType& type);
  void set_blocks(const TensorType& type);
  std::string name_;
  std::vector<std::uint32_t> dimensions_;
  std::vector<abi::ScaleOffset> scale_offsets_;
  std::vector<float> scales_;
  std::vector<std::int32_t> offsets_;
  std::vector<std::uint8_t> block_scales_;
  abi::BlockwiseExpansion blockwise_{};
};

/// QNN's kind of a tensor with that role.
[[nodiscard]] abi::TensorKind kind_of(TensorRole role);

/// Reads a QNN tensor. Static data is copied. What cannot be represented (a block-wise encoding, a 64-bit unsigned or
/// packed 4-bit type) is told in `notes`; the encoding is then absent, an unknown type ends as an error.
Result<TensorSpec> tensor_from(const abi::Tensor& tensor, std::vector<std::string>& notes);

/// A scalar parameter. Errors: unsupported-form for types that a GraphSpec does not have.
Result<ParamSpec> scalar_from(const std::string& name, const abi::Scalar& scalar);

}  // namespace htpipe::qnn
