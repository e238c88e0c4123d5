// GridSample and RoiAlign.
#include <fmt/core.h>

#include "export/onnx/operators.h"

namespace htpipe::onnx_export::write {

Status grid_sample(NodeWriter& out) {
  const Attributes& attributes = out.attributes();
  const bool image = out.rank() == 4;
  const std::int64_t since = image ? 16 : 20;
  if (out.opset() < since) return out.refuse(fmt::format("needs opset {}, not {}", since, out.opset()));
  std::string mode = attributes.text("mode");
  if (out.opset() >= 20 && mode == "bilinear") mode = "linear";
  if (out.opset() >= 20 && mode == "bicubic") mode = "cubic";
  const std::string input = channel_first_input(out);
  out.emit("GridSample", {input, out.in(1)},
           {{"mode", mode},
            {"padding_mode", attributes.text("padding_mode")},
            {"align_corners", attributes.flag("align_corners") ? 1 : 0}});
  return {};
}

Status roi_align(NodeWriter& out) {
  const Attributes& attributes = out.attributes();
  const bool aligned = attributes.flag("aligned");
  if (aligned && out.opset() < 16) return out.refuse(fmt::format("aligned boxes need opset 16, not {}", out.opset()));
  const IntList& size = attributes.integers("output_size");
  Settings settings = {{"mode", attributes.text("mode")},
                       {"output_height", size[0]},
                       {"output_width", size[1]},
                       {"sampling_ratio", std::max<std::int64_t>(attributes.integer("sampling_ratio"), 0)},
                       {"spatial_scale", attributes.real("spatial_scale")}};
  if (out.opset() >= 16) {
    settings.emplace_back("coordinate_transformation_mode", aligned ? "half_pixel" : "output_half_pixel");
  }
  const std::string input = channel_first_input(out);
  const std::string boxes = out.in(1);
  out.emit("RoiAlign", {input, boxes, out.cast(2, DType::kI64)}, settings);
  return {};
}

}  // namespace htpipe::onnx_export::write
