#include "import/onnx/onnx_map.h"

#include <map>
#include <utility>

namespace htpipe::onnx_import {

Mapper find_mapper(std::string_view domain, std::string_view op_type) {
  using Key = std::pair<std::string_view, std::string_view>;
  static const std::map<Key, Mapper> table = {
#define HTPIPE_ONNX(domain, op_type, mapper) {{domain, op_type}, map::mapper},
#include "import/onnx/onnx_ops.inc"
#undef HTPIPE_ONNX
  };
  const auto at = table.find(Key(domain == "ai.onnx" ? "" : domain, op_type));
  return at == table.end() ? nullptr : at->second;
}

}  // namespace htpipe::onnx_import
