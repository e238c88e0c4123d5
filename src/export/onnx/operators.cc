#include "export/onnx/operators.h"

#include <map>

namespace htpipe::onnx_export {

NodeFunction find_function(std::string_view op) {
  static const std::map<std::string_view, NodeFunction> table = {
#define HTPIPE_WRITER(op, function) {op, write::function},
#include "export/onnx/operator_list.inc"
#undef HTPIPE_WRITER
  };
  const auto at = table.find(op);
  return at == table.end() ? nullptr : at->second;
}

}  // namespace htpipe::onnx_export
