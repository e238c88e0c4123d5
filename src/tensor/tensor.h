// Shapes, quantisation encodings, types and tensors.
// Invariant: a Tensor's bytes are contiguous, row-major and immutable once it is shared.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace htpipe {

using Shape = std::vector<std::int64_t>;

/// Product of the dimensions (1 for a scalar).
[[nodiscard]] std::int64_t element_count(const Shape& shape);
/// "[1,3,32,32]"
[[nodiscard]] std::string to_string(const Shape& shape);

/// What stored integers mean: real = (stored - zero_point) * scale.
/// Per tensor: one scale, axis -1. Per channel: a scale and a zero point for each index along `axis`. Per block: one for
/// each run of `block` elements along `axis` (the last may be shorter), at each position of the other axes, in the order
/// of the tensor.
/// `bits` may be smaller than the storage type (4-bit weights in i8). Zero points are positive as in ONNX and AIMET;
/// QNN's offset is the negative of it.
struct Encoding {
  std::vector<float> scales;
  std::vector<std::int32_t> zero_points;
  int axis = -1;
  int bits = 8;
  std::int64_t block = 0;  ///< elements that share a scale; 0 = no blocks

  [[nodiscard]] bool per_tensor() const { return axis < 0; }
  [[nodiscard]] bool per_channel() const { return axis >= 0 && block == 0; }
  [[nodiscard]] bool per_block() const { return axis >= 0 && block > 0; }
  [[nodiscard]] float scale() const { return scales.front(); }
  [[nodiscard]] std::int32_t zero_point() const { return zero_points.front(); }
  static Encoding per_tensor(float scale, std::int32_t zero_point, int bits);
  bool operator==(const Encoding&) const = default;
};

/// Element type, shape and, for quantised values, the encoding. Quantisation is part of the type.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  std::optional<Encoding> encoding;

  [[nodiscard]] std::int64_t count() const { return element_count(shape); }
  [[nodiscard]] std::size_t size_bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }
  bool operator==(const TensorType&) const = default;
};

/// The shape of the scales of a tensor of shape `shape`: [] per tensor, [channels], or with `axis` counted in blocks.
/// `axis` must be within the shape.
[[nodiscard]] Shape scale_shape(const Encoding& encoding, const Shape& shape);

/// "u8<scale 0.02, zero 128>[1,8,32,32]"
[[nodiscard]] std::string to_string(const TensorType& type);

/// A typed block of memory, owned or borrowed (mapped file); copies share the bytes.
class Tensor {
 public:
  Tensor() = default;
  /// Zero-filled.
  explicit Tensor(TensorType type);
  /// Borrows `bytes`, kept alive by `owner`. `bytes` must have type.size_bytes() and natural alignment for its dtype.
  Tensor(TensorType type, std::shared_ptr<const void> owner, const std::byte* bytes);
  template <typename T>
  static Tensor from(TensorType type, std::span<const T> values) {
    Tensor tensor(std::move(type));
    std::copy(values.begin(), values.end(), tensor.mutable_data<T>().begin());
    return tensor;
  }

  [[nodiscard]] bool empty() const { return data_ == nullptr; }
  [[nodiscard]] const TensorType& type() const { return type_; }
  [[nodiscard]] const Shape& shape() const { return type_.shape; }
  [[nodiscard]] DType dtype() const { return type_.dtype; }
  [[nodiscard]] std::int64_t count() const { return type_.count(); }
  [[nodiscard]] Bytes bytes() const { return {data_, type_.size_bytes()}; }
  template <typename T>
  [[nodiscard]] std::span<const T> data() const {
    return {reinterpret_cast<const T*>(data_), type_.size_bytes() / sizeof(T)};
  }
  /// Writable view; only for a tensor that was made by the zero-filling constructor and is not shared yet.
  template <typename T>
  [[nodiscard]] std::span<T> mutable_data() {
    return {reinterpret_cast<T*>(writable()), type_.size_bytes() / sizeof(T)};
  }
  /// Same bytes under another type of the same size.
  [[nodiscard]] Tensor with_type(TensorType type) const;
  /// Element `index` as a real number: floats widened, integers dequantised by the encoding when there is one.
  [[nodiscard]] double real(std::int64_t index) const;

 private:
  [[nodiscard]] std::byte* writable();
  TensorType type_;
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  bool owned_ = false;
};

/// Which of the scales of an encoded type belongs to an element.
[[nodiscard]] std::size_t scale_index(const TensorType& type, std::int64_t element);
/// All elements as float32: floats converted, integers dequantised by the encoding when there is one.
[[nodiscard]] std::vector<float> to_floats(const Tensor& tensor);
/// A tensor of any data type with every element `value`.
[[nodiscard]] Tensor filled(TensorType type, double value);
/// Elements of an integer or bool tensor.
[[nodiscard]] std::vector<std::int64_t> to_integers(const Tensor& tensor);
/// `tensor` with its axes permuted: result axis i is input axis order[i]. Encoding axis follows.
[[nodiscard]] Tensor transpose(const Tensor& tensor, const std::vector<std::int64_t>& order);
[[nodiscard]] Shape permute(const Shape& shape, const std::vector<std::int64_t>& order);

}  // namespace htpipe
