#include "ops/pool.h"

#include <fmt/core.h>

#include <string>

namespace htpipe::ops {

std::vector<AttributeSpec> pool_attributes() {
  return {layout_attribute(),
          stride_attribute(),
          pad_attribute(),
          {"filter_size", std::vector<std::int64_t>{1, 1}, true, "[height, width]"},
          {"rounding_mode", std::string("floor"), false, "of the output size: floor or ceil"}};
}

std::vector<ParamLowering> pool_params() {
  return {{"filter_size", "filter_size", ParamKind::kU32List},
          {"stride", "stride", ParamKind::kU32List},
          {"pad_amount", "pad_amount", ParamKind::kU32Pairs},
          {"rounding_mode", "rounding_mode", ParamKind::kEnum, {{"floor", 0}, {"ceil", 1}}, true}};
}

Result<kernels::Window> pool_window(const NodeView& node) {
  const auto& size = node.attributes.integers("filter_size");
  const std::string& rounding = node.attributes.text("rounding_mode");
  if (size.size() != 2 || (rounding != "floor" && rounding != "ceil")) {
    return fail(Code::kUnsupportedForm, "filter_size needs two numbers and rounding_mode floor or ceil");
  }
  return make_window(node, size[0], size[1], false, rounding == "ceil");
}

Result<std::vector<TensorType>> infer_pool(const NodeView& node) {
  HTPIPE_TRY(const kernels::Window window, pool_window(node));
  return std::vector<TensorType>{window_result(node, window, window.channels)};
}

}  // namespace htpipe::ops
