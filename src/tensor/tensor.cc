#include "tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/check.h"
#include "tensor/moved_axes.h"

namespace htpipe {

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) count *= dimension;
  return count;
}

namespace {

template <typename T>
void fill(Tensor& tensor, T value) {
  const auto data = tensor.mutable_data<T>();
  std::fill(data.begin(), data.end(), value);
}

}  // namespace

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

Encoding Encoding::per_tensor(float scale, std::int32_t zero_point, int bits) {
  return Encoding{{scale}, {zero_point}, -1, bits};
}

Shape scale_shape(const Encoding& encoding, const Shape& shape) {
  if (encoding.per_tensor()) return {};
  const auto axis = static_cast<std::size_t>(encoding.axis);
  if (encoding.per_channel()) return {shape[axis]};
  Shape blocks = shape;
  blocks[axis] = shape[axis] / encoding.block + (shape[axis] % encoding.block != 0 ? 1 : 0);
  return blocks;
}

std::string to_string(const TensorType& type) {
  std::string text(name_of(type.dtype));
  if (type.encoding) {
    const Encoding& encoding = *type.encoding;
    const bool odd_bits = static_cast<std::size_t>(encoding.bits) != 8 * size_of(type.dtype);
    const std::string bits = odd_bits ? fmt::format(", bits {}", encoding.bits) : "";
    if (!encoding.per_tensor()) {
      const std::string block = encoding.per_block() ? fmt::format(", block {}", encoding.block) : "";
      text += fmt::format("<axis {}{}, scales [{}], zeros [{}]{}>", encoding.axis, block,
                          fmt::join(encoding.scales, ","), fmt::join(encoding.zero_points, ","), bits);
    } else {
      text += fmt::format("<scale {}, zero {}{}>", encoding.scale(), encoding.zero_point(), bits);
    }
  }
  return text + to_string(type.shape);
}

Tensor::Tensor(TensorType type) : type_(std::move(type)), owned_(true) {
  const std::size_t size = std::max<std::size_t>(type_.size_bytes(), 1);
  // Large blocks come from the system as zeros: nobody writes them twice.
  void* block = std::calloc(size, 1);
  if (block == nullptr) throw std::bad_alloc();
  data_ = static_cast<const std::byte*>(block);
  owner_ = std::shared_ptr<const void>(block, [](const void* at) { std::free(const_cast<void*>(at)); });
}

Tensor::Tensor(TensorType type, std::shared_ptr<const void> owner, const std::byte* bytes)
    : type_(std::move(type)), owner_(std::move(owner)), data_(bytes) {}

std::byte* Tensor::writable() {
  HTPIPE_CHECK(owned_, "a borrowed tensor is read-only");
  return const_cast<std::byte*>(data_);
}

Tensor Tensor::with_type(TensorType type) const {
  HTPIPE_CHECK(type.size_bytes() == type_.size_bytes(), "with_type needs the same size");
  Tensor copy = *this;
  copy.type_ = std::move(type);
  return copy;
}

std::size_t scale_index(const TensorType& type, std::int64_t element) {
  const Encoding& encoding = *type.encoding;
  if (encoding.per_tensor()) return 0;
  const auto axis = static_cast<std::size_t>(encoding.axis);
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < type.shape.size(); ++i) inner *= type.shape[i];
  const std::int64_t size = type.shape[axis];
  const std::int64_t channel = element / inner % size;
  if (encoding.per_channel()) return static_cast<std::size_t>(channel);
  const std::int64_t blocks = scale_shape(encoding, type.shape)[axis];
  const std::int64_t outer = element / inner / size;
  return static_cast<std::size_t>((outer * blocks + channel / encoding.block) * inner + element % inner);
}

double Tensor::real(std::int64_t index) const {
  const auto element = [this, index]<typename T>(T) { return data<T>()[static_cast<std::size_t>(index)]; };
  double stored = 0;
  switch (type_.dtype) {
    case DType::kF64:
      return element(double{});
    case DType::kF32:
      return static_cast<double>(element(float{}));
    case DType::kF16:
      return static_cast<double>(from_f16(element(std::uint16_t{})));
    case DType::kBF16:
      return static_cast<double>(from_bf16(element(std::uint16_t{})));
    case DType::kI64:
      stored = static_cast<double>(element(std::int64_t{}));
      break;
    case DType::kI32:
      stored = element(std::int32_t{});
      break;
    case DType::kI16:
      stored = element(std::int16_t{});
      break;
    case DType::kI8:
      stored = element(std::int8_t{});
      break;
    case DType::kU64:
      stored = static_cast<double>(element(std::uint64_t{}));
      break;
    case DType::kU32:
      stored = element(std::uint32_t{});
      break;
    case DType::kU16:
      stored = element(std::uint16_t{});
      break;
    case DType::kU8:
    case DType::kBool:
      stored = element(std::uint8_t{});
      break;
  }
  if (!type_.encoding) return stored;
  const std::size_t at = scale_index(type_, index);
  return (stored - type_.encoding->zero_points[at]) * static_cast<double>(type_.encoding->scales[at]);
}

std::vector<float> to_floats(const Tensor& tensor) {
  if (tensor.dtype() == DType::kF32) {
    const auto values = tensor.data<float>();
    return {values.begin(), values.end()};
  }
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(tensor.real(static_cast<std::int64_t>(i)));
  return values;
}

Tensor filled(TensorType type, double value) {
  Tensor tensor(std::move(type));
  switch (tensor.dtype()) {
    case DType::kF64:
      fill(tensor, value);
      break;
    case DType::kF32:
      fill(tensor, static_cast<float>(value));
      break;
    case DType::kF16:
      fill(tensor, to_f16(static_cast<float>(value)));
      break;
    case DType::kBF16:
      fill(tensor, to_bf16(static_cast<float>(value)));
      break;
    case DType::kI64:
      fill(tensor, static_cast<std::int64_t>(value));
      break;
    case DType::kU64:
      fill(tensor, static_cast<std::uint64_t>(value));
      break;
    case DType::kI32:
    case DType::kU32:
      fill(tensor, static_cast<std::int32_t>(static_cast<std::int64_t>(value)));
      break;
    case DType::kI16:
    case DType::kU16:
      fill(tensor, static_cast<std::int16_t>(static_cast<std::int64_t>(value)));
      break;
    case DType::kI8:
    case DType::kU8:
      fill(tensor, static_cast<std::int8_t>(static_cast<std::int64_t>(value)));
      break;
    case DType::kBool:
      fill(tensor, static_cast<std::uint8_t>(value != 0.0 ? 1 : 0));
      break;
  }
  return tensor;
}

std::vector<std::int64_t> to_integers(const Tensor& tensor) {
  std::vector<std::int64_t> values;
  values.reserve(static_cast<std::size_t>(tensor.count()));
  if (tensor.dtype() == DType::kI64) {
    const auto data = tensor.data<std::int64_t>();
    values.assign(data.begin(), data.end());
    return values;
  }
  for (std::int64_t i = 0; i < tensor.count(); ++i) values.push_back(static_cast<std::int64_t>(tensor.real(i)));
  return values;
}

Shape permute(const Shape& shape, const std::vector<std::int64_t>& order) {
  Shape result;
  result.reserve(order.size());
  for (const std::int64_t axis : order) result.push_back(shape[static_cast<std::size_t>(axis)]);
  return result;
}

namespace {

/// One plane: `down` is the axis that is dense in the source, `along` the one that is dense in the result. In blocks, so
/// that what is read and what is written stay in the cache.
template <typename T>
void move_plane(const MovedAxis& down, const MovedAxis& along, const T* source, T* out) {
  constexpr std::int64_t kBlock = 32;
  for (std::int64_t first = 0; first < along.extent; first += kBlock) {
    const std::int64_t last = std::min(first + kBlock, along.extent);
    for (std::int64_t top = 0; top < down.extent; top += kBlock) {
      const std::int64_t bottom = std::min(top + kBlock, down.extent);
      for (std::int64_t y = top; y < bottom; ++y) {
        for (std::int64_t x = first; x < last; ++x) out[y * down.to + x] = source[x * along.from + y];
      }
    }
  }
}

template <typename T>
void move_elements(const std::vector<MovedAxis>& axes, const T* source, T* out) {
  const MovedAxis& along = axes.back();
  const auto dense = std::find_if(axes.begin(), axes.end(), [](const MovedAxis& axis) { return axis.from == 1; });
  HTPIPE_CHECK(dense != axes.end(), "no axis is dense");
  std::vector<MovedAxis> outer;
  for (auto axis = axes.begin(); axis + 1 != axes.end(); ++axis) {
    if (axis != dense) outer.push_back(*axis);
  }
  std::vector<std::int64_t> index(outer.size(), 0);
  for (;;) {
    if (along.from == 1) {
      std::copy_n(source, along.extent, out);
    } else {
      move_plane(*dense, along, source, out);
    }
    std::size_t axis = outer.size();
    while (axis > 0) {
      --axis;
      source += outer[axis].from;
      out += outer[axis].to;
      if (++index[axis] < outer[axis].extent) break;
      source -= outer[axis].from * outer[axis].extent;
      out -= outer[axis].to * outer[axis].extent;
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (outer.empty()) return;
  }
}

}  // namespace

Tensor transpose(const Tensor& tensor, const std::vector<std::int64_t>& order) {
  const Shape& from = tensor.shape();
  HTPIPE_CHECK(order.size() == from.size(), "transpose order has the wrong rank");
  TensorType type{tensor.dtype(), permute(from, order), tensor.type().encoding};
  if (type.encoding && !type.encoding->per_tensor()) {
    Encoding& encoding = *type.encoding;
    if (encoding.per_block()) {
      const Shape blocks = scale_shape(encoding, from);
      const auto scales = transpose(Tensor::from<float>({DType::kF32, blocks, {}}, encoding.scales), order);
      const auto zeros = transpose(Tensor::from<std::int32_t>({DType::kI32, blocks, {}}, encoding.zero_points), order);
      encoding.scales.assign(scales.data<float>().begin(), scales.data<float>().end());
      encoding.zero_points.assign(zeros.data<std::int32_t>().begin(), zeros.data<std::int32_t>().end());
    }
    const auto at = std::find(order.begin(), order.end(), encoding.axis);
    encoding.axis = static_cast<int>(at - order.begin());
  }
  Tensor result(std::move(type));
  const std::vector<MovedAxis> axes = moved_axes(from, order);
  const std::byte* source = tensor.bytes().data();
  std::byte* out = result.mutable_data<std::byte>().data();
  if (tensor.count() == 0) return result;
  switch (size_of(tensor.dtype())) {
    case 1:
      move_elements(axes, reinterpret_cast<const std::uint8_t*>(source), reinterpret_cast<std::uint8_t*>(out));
      break;
    case 2:
      move_elements(axes, reinterpret_cast<const std::uint16_t*>(source), reinterpret_cast<std::uint16_t*>(out));
      break;
    case 4:
      move_elements(axes, reinterpret_cast<const std::uint32_t*>(source), reinterpret_cast<std::uint32_t*>(out));
      break;
    default:
      HTPIPE_CHECK(size_of(tensor.dtype()) == 8, "elements of an unknown size");
      move_elements(axes, reinterpret_cast<const std::uint64_t*>(source), reinterpret_cast<std::uint64_t*>(out));
  }
  return result;
}

}  // namespace htpipe
