// Operators that make tensors out of numbers: their results are constants.
#include <fmt/core.h>

#include <cmath>

#include "import/pt2/mappers.h"

namespace htpipe::pt2 {
namespace {

constexpr std::int64_t kLargestConstant = std::int64_t{1} << 28;

Result<TensorMeta> declared_type(const Call& call) {
  const TensorMeta* meta = call.declared();
  if (meta == nullptr) return fail(Code::kUnsupportedForm, "a result whose type is not declared");
  if (element_count(meta->sizes) > kLargestConstant) return fail(Code::kUnsupportedForm, "a constant of this size");
  return *meta;
}

One filled(Call& call, double value) {
  HTPIPE_TRY(const TensorMeta meta, declared_type(call));
  const DType dtype = internal(meta.dtype);
  const auto count = static_cast<std::size_t>(element_count(meta.sizes));
  if (is_float(dtype)) return call.constant("value", meta.sizes, std::vector<float>(count, static_cast<float>(value)));
  if (std::isnan(value) || std::isinf(value)) return fail(Code::kUnsupportedForm, "an integer that is not finite");
  return call.integers_constant("value", meta.sizes, IntList(count, static_cast<std::int64_t>(value)), dtype);
}

One numbers(Call& call, const std::vector<double>& values) {
  HTPIPE_TRY(const TensorMeta meta, declared_type(call));
  const DType dtype = internal(meta.dtype);
  if (element_count(meta.sizes) != static_cast<std::int64_t>(values.size())) {
    return fail(Code::kShapeMismatch, fmt::format("{} numbers for {}", values.size(), to_string(meta.sizes)));
  }
  if (is_float(dtype)) return call.constant("value", meta.sizes, std::vector<float>(values.begin(), values.end()));
  IntList whole;
  for (const double value : values) whole.push_back(static_cast<std::int64_t>(value));
  return call.integers_constant("value", meta.sizes, whole, dtype);
}

}  // namespace

/// full, zeros, ones, empty and their kin.
One fill(Call& call) {
  const std::string_view name = call.argument();
  if (name == "zeros") return filled(call, 0.0);
  if (name == "ones") return filled(call, 1.0);
  // Integers of 64 bits do not all fit into a double.
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  const char* number = name == "scalar" ? "s" : name == "fill" ? "value" : "fill_value";
  if (call.is_tensor(number)) {
    HTPIPE_TRY(Value * value, call.tensor(number));
    HTPIPE_TRY(value, call.cast(value, dtype, "number"));
    HTPIPE_TRY(const TensorMeta meta, declared_type(call));
    if (value->type.count() != 1) return fail(Code::kUnsupportedForm, "a fill with several numbers");
    HTPIPE_TRY(value, call.reshape(value, {}, "scalar"));
    return call.broadcast(value, meta.sizes);
  }
  if (const Argument* argument = call.node().input(number)) {
    if (const auto* whole = std::get_if<std::int64_t>(argument); whole != nullptr && dtype == DType::kI64) {
      HTPIPE_TRY(const TensorMeta meta, declared_type(call));
      return call.integers_constant("value", meta.sizes,
                                    IntList(static_cast<std::size_t>(element_count(meta.sizes)), *whole), dtype);
    }
  }
  HTPIPE_TRY(const double value, call.real(number));
  return filled(call, value);
}

One arange(Call& call) {
  HTPIPE_TRY(const TensorMeta meta, declared_type(call));
  HTPIPE_TRY(const double start, call.real("start", 0.0));
  HTPIPE_TRY(const double step, call.real("step", 1.0));
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(meta.sizes); ++i) values.push_back(start + static_cast<double>(i) * step);
  return numbers(call, values);
}

One linspace(Call& call) {
  HTPIPE_TRY(const double start, call.real("start"));
  HTPIPE_TRY(const double end, call.real("end"));
  HTPIPE_TRY(const TensorMeta meta, declared_type(call));
  const std::int64_t steps = element_count(meta.sizes);
  std::vector<double> values;
  // From both ends towards the middle, as PyTorch does it, in the precision of the result.
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0.0;
  for (std::int64_t i = 0; i < steps; ++i) {
    values.push_back(i < steps / 2 || steps == 1 ? start + step * static_cast<double>(i)
                                                 : end - step * static_cast<double>(steps - 1 - i));
  }
  return numbers(call, values);
}

One eye(Call& call) {
  HTPIPE_TRY(const TensorMeta meta, declared_type(call));
  if (meta.sizes.size() != 2) return fail(Code::kUnsupportedForm, "eye of another rank");
  std::vector<double> values;
  for (std::int64_t row = 0; row < meta.sizes[0]; ++row) {
    for (std::int64_t column = 0; column < meta.sizes[1]; ++column) values.push_back(row == column ? 1.0 : 0.0);
  }
  return numbers(call, values);
}

One triangle_indices(Call& call) {
  HTPIPE_TRY(const std::int64_t rows, call.integer("row"));
  HTPIPE_TRY(const std::int64_t columns, call.integer("col"));
  HTPIPE_TRY(const std::int64_t offset, call.integer("offset", 0));
  if (rows < 0 || columns < 0 || (columns > 0 && rows > kLargestConstant / columns)) {
    return fail(Code::kUnsupportedForm, "a triangle of this size");
  }
  std::vector<double> first;
  std::vector<double> second;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      if (call.argument() == "lower" ? column - row > offset : column - row < offset) continue;
      first.push_back(static_cast<double>(row));
      second.push_back(static_cast<double>(column));
    }
  }
  first.insert(first.end(), second.begin(), second.end());
  return numbers(call, first);
}

/// copy: the second tensor in the type and shape of the first.
One copy(Call& call) {
  HTPIPE_TRY(Value * source, call.tensor("src"));
  HTPIPE_TRY(const TensorMeta meta, declared_type(call));
  HTPIPE_TRY(source, call.cast(source, internal(meta.dtype), "typed"));
  return call.broadcast(source, meta.sizes);
}

}  // namespace htpipe::pt2
