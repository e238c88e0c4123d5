#include "ops/to_attribute.h"

#include <fmt/core.h>

#include <string>

namespace htpipe::ops {

AttributeSpec to_attribute() { return {"to", std::string("u8"), true, "data type of the result"}; }

Result<std::vector<TensorType>> infer_to(const NodeView& node, bool from_float, bool to_float) {
  const auto dtype = parse_dtype(node.attributes.text("to"));
  if (!dtype || is_float(*dtype) != to_float || is_float(node.type(0).dtype) != from_float) {
    return fail(Code::kDtypeMismatch,
                fmt::format("from {} to {}", name_of(node.type(0).dtype), node.attributes.text("to")));
  }
  return std::vector<TensorType>{{*dtype, node.type(0).shape, std::nullopt}};
}

}  // namespace htpipe::ops
