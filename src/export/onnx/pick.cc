// Operators that pick elements by indices, and those that find them.
#include <fmt/core.h>

#include "export/onnx/arithmetic.h"
#include "export/onnx/operators.h"

namespace htpipe::onnx_export {
namespace {

/// ScatterElements and ScatterND: a reduction needs an opset that has it.
Status scatter(NodeWriter& out, std::string_view op_type, const std::string& indices, Settings settings) {
  const std::string& reduction = out.attributes().text("reduction");
  const std::int64_t since = reduction == "none" ? 13 : reduction == "add" || reduction == "mul" ? 16 : 18;
  if (out.opset() < since) return out.refuse(fmt::format("the reduction {} needs opset {}", reduction, since));
  if (reduction != "none") settings.emplace_back("reduction", reduction);
  const DType wide = reduction == "none" ? out.dtype() : wide_type(out.dtype());
  out.computed_in(wide == out.dtype() ? out.result_dtype() : wide);
  const std::string data = out.cast(0, wide);
  out.emit(op_type, {data, indices, out.cast(2, wide)}, settings);
  return {};
}

Status arg(NodeWriter& out, std::string_view op_type) {
  const Attributes& attributes = out.attributes();
  Settings settings = {{"axis", attributes.integer("axis")}, {"keepdims", attributes.flag("keep_dims") ? 1 : 0}};
  if (attributes.flag("select_last")) settings.emplace_back("select_last_index", std::int64_t{1});
  const std::string input = out.cast(0, wide_type(out.dtype()));
  out.computed_in(DType::kI64);
  out.emit(op_type, {input}, settings);
  return {};
}

}  // namespace

namespace write {

Status gather(NodeWriter& out) {
  out.emit("Gather", {out.in(0), out.in(1)}, {{"axis", out.attributes().integer("axis")}});
  return {};
}

Status gather_elements(NodeWriter& out) {
  out.emit("GatherElements", {out.in(0), out.in(1)}, {{"axis", out.attributes().integer("axis")}});
  return {};
}

Status gather_nd(NodeWriter& out) {
  const std::int64_t batch_dims = out.attributes().integer("batch_dims");
  out.emit("GatherND", {out.in(0), out.cast(1, DType::kI64)},
           batch_dims == 0 ? Settings{} : Settings{{"batch_dims", batch_dims}});
  return {};
}

Status scatter_elements(NodeWriter& out) {
  return scatter(out, "ScatterElements", out.in(1), {{"axis", out.attributes().integer("axis")}});
}

Status scatter_nd(NodeWriter& out) { return scatter(out, "ScatterND", out.cast(1, DType::kI64), {}); }

Status argmax(NodeWriter& out) { return arg(out, "ArgMax"); }
Status argmin(NodeWriter& out) { return arg(out, "ArgMin"); }

Status top_k(NodeWriter& out) {
  const Attributes& attributes = out.attributes();
  const DType wide = wide_type(out.dtype());
  out.computed_in(wide == out.dtype() ? out.result_dtype() : wide);
  const std::string input = out.cast(0, wide);
  const std::string places = out.wanted(1) ? out.name("places") : std::string();
  // Sorted always: "any order" of another program would not be ours.
  out.writer().node("TopK", {input, out.integers("k", {attributes.integer("k")})}, {out.out(0), places},
                    {{"axis", attributes.integer("axis")}, {"largest", attributes.flag("largest") ? 1 : 0}});
  if (out.wanted(1)) {
    out.writer().node("Cast", {places}, {out.out(1)}, {{"to", std::int64_t{data_type_of(DType::kI32)}}});
  }
  return {};
}

Status one_hot(NodeWriter& out) {
  const Attributes& attributes = out.attributes();
  // Values are float or int64 in ONNX Runtime.
  const DType wanted = out.result_dtype();
  const DType dtype = wanted == DType::kI64 ? DType::kI64 : DType::kF32;
  Tensor values({dtype, {2}, std::nullopt});
  const float both[2] = {attributes.real("off_value"), attributes.real("on_value")};
  for (std::size_t i = 0; i < 2; ++i) {
    if (dtype == DType::kI64) {
      values.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(both[i]);
    } else {
      values.mutable_data<float>()[i] = both[i];
    }
  }
  const std::string indices = out.cast(0, DType::kI64);
  out.computed_in(dtype);
  out.emit("OneHot",
           {indices, out.scalar(static_cast<double>(attributes.integer("depth")), DType::kI64),
            out.writer().initializer(out.node().name() + "_values", values)},
           {{"axis", attributes.integer("axis")}});
  return {};
}

Status cumulative_sum(NodeWriter& out) {
  const Attributes& attributes = out.attributes();
  Settings settings;
  for (const char* flag : {"exclusive", "reverse"}) {
    if (attributes.flag(flag)) settings.emplace_back(flag, std::int64_t{1});
  }
  const bool half = out.dtype() == DType::kF16 || out.dtype() == DType::kBF16;
  const DType wide = half ? DType::kF32 : wide_type(out.dtype());
  out.computed_in(wide == out.dtype() ? out.result_dtype() : wide);
  out.emit("CumSum", {out.cast(0, wide), out.scalar(static_cast<double>(attributes.integer("axis")), DType::kI64)},
           settings);
  return {};
}

}  // namespace write
}  // namespace htpipe::onnx_export
