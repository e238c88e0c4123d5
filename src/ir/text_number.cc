#include "ir/text_number.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace htpipe::text {
namespace {

Error bf16_error() { return Error(Code::kGraphSyntax, "a bf16 constant cannot be written out"); }

template <typename T>
void put(Tensor& tensor, std::int64_t index, T value) {
  tensor.mutable_data<T>()[static_cast<std::size_t>(index)] = value;
}

void put_integer(Tensor& tensor, std::int64_t index, std::int64_t value) {
  switch (size_of(tensor.dtype())) {
    case 8:
      put(tensor, index, value);
      break;
    case 4:
      put(tensor, index, static_cast<std::uint32_t>(value));
      break;
    case 2:
      put(tensor, index, static_cast<std::uint16_t>(value));
      break;
    default:
      put(tensor, index, static_cast<std::uint8_t>(value));
      break;
  }
}

bool holds(DType dtype, std::int64_t value) {
  if (dtype == DType::kI64) return true;
  if (dtype == DType::kBool) return value == 0 || value == 1;
  return value >= lowest(dtype) && value <= highest(dtype);
}

}  // namespace

Result<std::int64_t> parse_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return fail(Code::kGraphSyntax, fmt::format("'{}' is no integer", text));
  }
  return value;
}

Result<double> parse_double(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return fail(Code::kGraphSyntax, fmt::format("'{}' is no number", text));
  return value;
}

Result<float> parse_float(const std::string& text) {
  char* end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return fail(Code::kGraphSyntax, fmt::format("'{}' is no number", text));
  if (std::isinf(value) && text.find("inf") == std::string::npos) {
    return fail(Code::kGraphSyntax, fmt::format("'{}' is out of range", text));
  }
  return value;
}

Status store_element(Tensor& tensor, std::int64_t index, const std::string& text) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::kBF16) return fail(bf16_error());
  if (dtype == DType::kF64) {
    HTPIPE_TRY(const double value, parse_double(text));
    put(tensor, index, value);
  } else if (is_float(dtype)) {
    HTPIPE_TRY(const float value, parse_float(text));
    if (dtype == DType::kF32) {
      put(tensor, index, value);
    } else {
      put(tensor, index, to_f16(value));
    }
  } else {
    HTPIPE_TRY(const std::int64_t value, parse_integer(text));
    if (!holds(dtype, value)) {
      return fail(Code::kGraphSyntax, fmt::format("{} is out of range for {}", text, name_of(dtype)));
    }
    put_integer(tensor, index, value);
  }
  return {};
}

Status store_random(Tensor& tensor, std::int64_t index, std::uint32_t bits) {
  const DType dtype = tensor.dtype();
  const double unit = static_cast<double>(bits) / 2147483648.0 - 1.0;
  if (dtype == DType::kBF16) return fail(bf16_error());
  if (dtype == DType::kF64) {
    put(tensor, index, unit);
  } else if (dtype == DType::kF32) {
    put(tensor, index, static_cast<float>(unit));
  } else if (dtype == DType::kF16) {
    put(tensor, index, to_f16(static_cast<float>(unit)));
  } else if (dtype == DType::kBool) {
    put_integer(tensor, index, bits >> 31U);
  } else {
    const std::int64_t offset = lowest(dtype) < 0 ? 128 : 0;
    put_integer(tensor, index, static_cast<std::int64_t>(bits >> 24U) - offset);
  }
  return {};
}

}  // namespace htpipe::text
