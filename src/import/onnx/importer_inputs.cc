// Inputs of an ONNX model: their types, with the sizes that the user gave, and those that become constants.
#include <fmt/format.h>

#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "import/onnx/importer.h"

namespace htpipe::onnx_import {

Result<TensorType> Importer::input_type(const onnx::ValueInfoProto& info, std::vector<std::string>& open) const {
  if (!info.type().has_tensor_type()) {
    return fail(Error(Code::kUnsupportedForm, "an input that is no tensor").at_node(info.name()));
  }
  const auto& declared = info.type().tensor_type();
  const auto dtype = dtype_of(declared.elem_type());
  if (!dtype || narrow_bits(declared.elem_type()) != 0) {
    return fail(Error(Code::kUnsupportedForm, fmt::format("an input of type {}", data_type_name(declared.elem_type())))
                    .at_node(info.name()));
  }
  TensorType type{*dtype, {}, std::nullopt};
  if (const auto given = options_.shapes.find(info.name()); given != options_.shapes.end()) {
    type.shape = given->second;
    return type;
  }
  if (!declared.has_shape()) {
    open.push_back(fmt::format("{} (its shape: --shape {}=...)", info.name(), info.name()));
    return type;
  }
  for (int axis = 0; axis < declared.shape().dim_size(); ++axis) {
    const auto& dimension = declared.shape().dim(axis);
    const std::string place = fmt::format("{}.{}", info.name(), axis);
    auto given = options_.dims.find(place);
    if (given == options_.dims.end() && dimension.has_dim_param()) given = options_.dims.find(dimension.dim_param());
    if (given != options_.dims.end()) {
      type.shape.push_back(given->second);
    } else if (dimension.has_dim_value() && dimension.dim_value() >= 0) {
      type.shape.push_back(dimension.dim_value());
    } else {
      const bool named = dimension.has_dim_param() && !dimension.dim_param().empty();
      open.push_back(named ? fmt::format("{} (axis {} of {})", dimension.dim_param(), axis, info.name()) : place);
      type.shape.push_back(0);
    }
  }
  return type;
}

Result<Value*> Importer::fixed_input(const onnx::ValueInfoProto& info, const Tensor& tensor) {
  const auto dtype = dtype_of(info.type().tensor_type().elem_type());
  if (!dtype) return fail(Error(Code::kUnsupportedForm, "an input that is no tensor of numbers").at_node(info.name()));
  Builder builder(graph_, info.name(), {}, &warnings_);
  return builder.cast(builder.constant("", tensor), *dtype, "cast");
}

Status Importer::add_inputs() {
  std::vector<std::string> open;
  std::unordered_set<std::string> fixed;
  for (const auto& info : model_.proto().graph().input()) {
    if (const auto given = options_.fix.find(info.name()); given != options_.fix.end()) {
      HTPIPE_TRY(Value * value, fixed_input(info, given->second));
      scopes_.back().values[info.name()] = value;
      fixed.insert(info.name());
      continue;
    }
    if (find(info.name()) != nullptr) continue;  // an initializer; older files list them as inputs too
    HTPIPE_TRY(TensorType type, input_type(info, open));
    if (open.empty()) scopes_.back().values[info.name()] = graph_.add_input(info.name(), std::move(type));
  }
  for (const auto& [name, tensor] : options_.fix) {
    if (fixed.count(name) == 0) {
      return fail(Code::kUsage, fmt::format("--fix {}: the model has no input of that name", name));
    }
  }
  HTPIPE_CHECK_OK(check_names());
  if (open.empty()) return {};
  Error error(Code::kDynamicShape, fmt::format("{} dimensions have no size: {}", open.size(), fmt::join(open, ", ")));
  error.hint = "Give each a size: --dim NAME=SIZE, or --dim INPUT.AXIS=SIZE.";
  return fail(std::move(error));
}

/// Refuses sizes for what the model does not have: a misspelt name would leave the declared size in place.
Status Importer::check_names() const {
  std::set<std::string> inputs;
  std::set<std::string> dimensions;
  std::vector<std::string> named;
  for (const auto& info : model_.proto().graph().input()) {
    inputs.insert(info.name());
    const auto& shape = info.type().tensor_type().shape();
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      dimensions.insert(fmt::format("{}.{}", info.name(), axis));
      const std::string& name = shape.dim(axis).dim_param();
      if (!name.empty() && dimensions.insert(name).second) named.push_back(name);
    }
  }
  for (const auto& [name, size] : options_.dims) {
    if (dimensions.contains(name)) continue;
    return fail(Error(Code::kUsage, fmt::format("--dim {}: the model has no dimension of that name", name))
                    .with_hint(named.empty()
                                   ? std::string("None has a name; give INPUT.AXIS=SIZE.")
                                   : fmt::format("There are {}; or give INPUT.AXIS=SIZE.", fmt::join(named, ", "))));
  }
  for (const auto& [name, shape] : options_.shapes) {
    if (inputs.contains(name)) continue;
    return fail(Error(Code::kUsage, fmt::format("--shape {}: the model has no input of that name", name))
                    .with_hint(fmt::format("There are {}.", fmt::join(inputs, ", "))));
  }
  return {};
}

}  // namespace htpipe::onnx_import
