// Det: of small matrices, by minors.
#include <fmt/core.h>

#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

constexpr std::int64_t kLargest = 4;

/// Determinant of the rows from `row` on and the given columns; `element(row, column)` are the matrix's elements.
Result<Value*> minor_of(Call& call, const std::vector<Values>& elements, std::size_t row, const IntList& columns,
                        const std::string& name) {
  if (columns.size() == 1) return elements[row][static_cast<std::size_t>(columns[0])];
  Value* sum = nullptr;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    IntList others = columns;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const std::string here = fmt::format("{}_{}", name, columns[i]);
    HTPIPE_TRY(Value * inner, minor_of(call, elements, row + 1, others, here));
    Value* element = elements[row][static_cast<std::size_t>(columns[i])];
    HTPIPE_TRY(Value * product, call.binary("multiply", element, inner, here + "_product"));
    if (sum == nullptr) {
      sum = product;
    } else {
      HTPIPE_TRY(sum, call.binary(i % 2 == 0 ? "add" : "subtract", sum, product, here + "_sum"));
    }
  }
  return sum;
}

}  // namespace

Result<Values> det(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  const Shape& shape = input->type.shape;
  const std::int64_t rank = rank_of(input);
  if (rank < 2 || shape[shape.size() - 1] != shape[shape.size() - 2]) {
    return fail(Code::kOnnxInvalid, fmt::format("Det of {}", to_string(shape)));
  }
  const std::int64_t size = shape.back();
  if (size < 1 || size > kLargest) {
    return fail(Code::kUnsupportedForm, fmt::format("Det of a matrix of {} rows; up to {}", size, kLargest));
  }
  const Shape batch(shape.begin(), shape.end() - 2);
  std::vector<Values> elements;
  for (std::int64_t row = 0; row < size; ++row) {
    Values line;
    for (std::int64_t column = 0; column < size; ++column) {
      const std::string name = fmt::format("{}_{}", row, column);
      HTPIPE_TRY(Value * part, onnx_import::slice(call, input, rank - 2, row, row + 1, name + "_row"));
      HTPIPE_TRY(part, onnx_import::slice(call, part, rank - 1, column, column + 1, name + "_column"));
      HTPIPE_TRY(part, call.reshape(part, batch, name));
      line.push_back(part);
    }
    elements.push_back(std::move(line));
  }
  return one(minor_of(call, elements, 0, count_up(0, size), "minor"));
}

}  // namespace htpipe::onnx_import::map
