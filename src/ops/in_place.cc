#include "ops/in_place.h"

#include "ops/registry.h"

namespace htpipe::ops {

bool keeps_bytes(const Node& node) { return node.op == &reshape(); }

bool may_overwrite(const Node& node, std::size_t operand) {
  if (node.op->layout != Layout::kElementwise || node.results.size() != 1) return false;
  const Value* value = node.operands[operand];
  if (value == nullptr || value->is_constant()) return false;
  const TensorType& result = node.result()->type;
  return value->type.shape == result.shape && size_of(value->type.dtype) == size_of(result.dtype);
}

}  // namespace htpipe::ops
