#include "pipeline/input_convert.h"

#include <fmt/core.h>

#include <cmath>

#include "quant/quantize.h"

namespace htpipe {
namespace {

/// Inputs that stand for real numbers.
bool is_real(const TensorType& type) { return is_float(type.dtype) || type.encoding.has_value(); }

Error about(Code code, const Port& port, std::string message) {
  return Error(code, fmt::format("input {}: {}", port.name, std::move(message)));
}

/// An element of an integer or bool tensor. Unsigned 64-bit numbers that no i64 holds are negative here.
std::int64_t integer_at(const Tensor& tensor, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  switch (tensor.dtype()) {
    case DType::kI64:
    case DType::kU64:
      return tensor.data<std::int64_t>()[at];
    default:
      return static_cast<std::int64_t>(tensor.real(i));
  }
}

Result<Tensor> convert_integers(const Tensor& given, const Port& port) {
  const DType to = port.type.dtype;
  Tensor result(port.type);
  for (std::int64_t i = 0; i < given.count(); ++i) {
    const std::int64_t value = integer_at(given, i);
    const bool wraps = given.dtype() == DType::kU64 && value < 0;
    const bool wide = to == DType::kI64 || to == DType::kU64;
    const bool fits = to == DType::kBool ? value == 0 || value == 1
                      : wide             ? !(to == DType::kU64 ? value < 0 : wraps)
                                         : !wraps && value >= lowest(to) && value <= highest(to);
    if (!fits) {
      return fail(
          about(Code::kDataDtype, port, fmt::format("{} at element {} does not fit into {}", value, i, name_of(to))));
    }
    std::byte* out = result.mutable_data<std::byte>().data() + static_cast<std::size_t>(i) * size_of(to);
    std::copy_n(reinterpret_cast<const std::byte*>(&value), size_of(to), out);  // little-endian, like all our targets
  }
  return result;
}

}  // namespace

Status check_convertible(const TensorType& given, const Port& port) {
  const TensorType& want = port.type;
  if (given.dtype == want.dtype) return {};
  const bool fits = is_real(want) ? is_float(given.dtype) : !is_float(given.dtype);
  if (fits) return {};
  const std::string also = is_real(want) && !is_float(want.dtype) ? fmt::format(" or {}", name_of(want.dtype)) : "";
  return fail(
      about(Code::kDataDtype, port,
            fmt::format("the data are {}, needs {}{}", name_of(given.dtype),
                        is_real(want) ? "real numbers" : "integers like " + std::string(name_of(want.dtype)), also)));
}

Result<Tensor> convert_input(const Tensor& given, const Port& port) {
  const TensorType& want = port.type;
  HTPIPE_CHECK_OK(check_convertible(given.type(), port));
  if (given.dtype() == want.dtype) return given.with_type(want);
  if (!is_real(want)) return convert_integers(given, port);
  if (want.dtype == DType::kF64) {
    Tensor result(want);
    for (std::int64_t i = 0; i < given.count(); ++i) {
      result.mutable_data<double>()[static_cast<std::size_t>(i)] = given.real(i);
    }
    return result;
  }
  if (want.encoding) {
    for (std::int64_t i = 0; i < given.count(); ++i) {
      if (std::isfinite(given.real(i))) continue;
      return fail(about(Code::kDataNotFinite, port, fmt::format("element {} is a NaN or an infinity", i)));
    }
  }
  if (want.dtype == DType::kBF16) {
    Tensor result(want);
    for (std::int64_t i = 0; i < given.count(); ++i) {
      result.mutable_data<std::uint16_t>()[static_cast<std::size_t>(i)] = to_bf16(static_cast<float>(given.real(i)));
    }
    return result;
  }
  return quant::store_as(given, want);
}

}  // namespace htpipe
