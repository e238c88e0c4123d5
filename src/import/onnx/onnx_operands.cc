#include "import/onnx/onnx_operands.h"

#include <fmt/core.h>

#include "import/onnx/onnx_helpers.h"

namespace htpipe::onnx_import {
namespace {

constexpr std::int64_t kNumpyOpset = 7;  ///< from here on operators broadcast as numpy does

}  // namespace

Result<Operands> two_operands(Call& call) {
  HTPIPE_TRY(Value * a, call.input(0));
  HTPIPE_TRY(Value * b, call.input(1));
  const bool standard = call.node().domain().empty() || call.node().domain() == "ai.onnx";
  if (!standard || call.opset() >= kNumpyOpset) return Operands{a, b};
  HTPIPE_TRY(const std::int64_t broadcast, call.integer("broadcast", 0));
  const std::int64_t rank = rank_of(a);
  const std::int64_t own = rank_of(b);
  if (broadcast == 0) {
    if (a->type.shape != b->type.shape) {
      return fail(Code::kShapeMismatch,
                  fmt::format("{} and {} without broadcast", to_string(a->type.shape), to_string(b->type.shape)));
    }
    return Operands{a, b};
  }
  HTPIPE_TRY(const std::int64_t axis, call.integer("axis", rank - own));
  const std::int64_t first = axis < 0 ? axis + rank : axis;
  if (first < 0 || first + own > rank) return fail(Code::kOnnxInvalid, fmt::format("axis {} of rank {}", axis, rank));
  Shape shape = b->type.shape;
  shape.insert(shape.end(), static_cast<std::size_t>(rank - own - first), 1);
  HTPIPE_TRY(b, call.reshape(b, std::move(shape), "aligned"));
  return Operands{a, b};
}

}  // namespace htpipe::onnx_import
