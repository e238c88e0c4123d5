// The rules of a QNN graph.
#include "qnn/spec_check.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "qnn/safe_names.h"
#include "tensor/block_expansion.h"

namespace htpipe::qnn {
namespace {

tl::unexpected<Error> invalid(const std::string& where, std::string message) {
  return fail(Error(Code::kGraphInvalid, std::move(message)).at_node(where));
}

bool usable_name(std::string_view name) { return !name.empty() && name.find('\0') == std::string_view::npos; }

Status check_type(const std::string& name, const TensorType& type) {
  if (type.shape.size() > 16) return invalid(name, fmt::format("rank {} is absurd", type.shape.size()));
  std::uint64_t bytes = size_of(type.dtype);
  for (const std::int64_t dimension : type.shape) {
    if (dimension < 0 || dimension > std::numeric_limits<std::uint32_t>::max()) {
      return invalid(name, fmt::format("shape {} has a dimension outside 32 bits", to_string(type.shape)));
    }
    if (dimension != 0 && bytes > std::numeric_limits<std::uint32_t>::max() / static_cast<std::uint64_t>(dimension)) {
      return invalid(name, fmt::format("shape {} needs 4 GiB or more, the API's limit", to_string(type.shape)));
    }
    bytes *= static_cast<std::uint64_t>(dimension);
  }
  if (!type.encoding) return {};
  const Encoding& encoding = *type.encoding;
  if (!is_integer(type.dtype)) return invalid(name, fmt::format("{} cannot have an encoding", name_of(type.dtype)));
  if (encoding.bits < 1 || static_cast<std::size_t>(encoding.bits) > 8 * size_of(type.dtype)) {
    return invalid(name, fmt::format("encoding has {} bits in {} storage", encoding.bits, name_of(type.dtype)));
  }
  // Narrow values in wide storage exist for 8-bit storage only; elsewhere it is a forgotten field.
  if (size_of(type.dtype) > 1 && static_cast<std::size_t>(encoding.bits) != 8 * size_of(type.dtype)) {
    return invalid(name, fmt::format("encoding has {} bits in {} storage", encoding.bits, name_of(type.dtype)));
  }
  std::size_t count = 1;
  if (encoding.per_block()) {
    if (static_cast<std::size_t>(encoding.axis) >= type.shape.size()) {
      return invalid(name, fmt::format("encoding axis {} of rank {}", encoding.axis, type.shape.size()));
    }
    const std::int64_t scales = element_count(scale_shape(encoding, type.shape));
    if (static_cast<std::int64_t>(encoding.scales.size()) != scales ||
        encoding.zero_points.size() != encoding.scales.size()) {
      return invalid(name, fmt::format("encoding has {} scales where {} are needed", encoding.scales.size(), scales));
    }
    const auto expansion = block_expansion(type);
    if (!expansion) return invalid(name, expansion.error().message);
    return {};
  }
  if (encoding.axis >= 0) {
    if (static_cast<std::size_t>(encoding.axis) >= type.shape.size()) {
      return invalid(name, fmt::format("encoding axis {} of rank {}", encoding.axis, type.shape.size()));
    }
    count = static_cast<std::size_t>(type.shape[static_cast<std::size_t>(encoding.axis)]);
  }
  if (encoding.scales.size() != count || encoding.zero_points.size() != count) {
    return invalid(name, fmt::format("encoding has {} scales and {} zero points where {} are needed",
                                     encoding.scales.size(), encoding.zero_points.size(), count));
  }
  for (const float scale : encoding.scales) {
    if (!std::isfinite(scale) || scale <= 0) return invalid(name, fmt::format("encoding has the scale {}", scale));
  }
  for (const std::int32_t zero : encoding.zero_points) {
    if (zero == std::numeric_limits<std::int32_t>::min()) return invalid(name, "encoding has an absurd zero point");
  }
  return {};
}

}  // namespace

Status check(const TensorSpec& tensor) {
  if (!usable_name(tensor.name)) return invalid(tensor.name, "a tensor has no usable name");
  HTPIPE_CHECK_OK(check_type(tensor.name, tensor.type));
  if (tensor.role == TensorRole::kStatic) {
    if (tensor.data.empty()) return invalid(tensor.name, "a static tensor has no data");
    if (tensor.data.type().size_bytes() != tensor.type.size_bytes() || tensor.data.dtype() != tensor.type.dtype) {
      return invalid(tensor.name, fmt::format("data is {}{}, declared is {}{}", name_of(tensor.data.dtype()),
                                              to_string(tensor.data.shape()), name_of(tensor.type.dtype),
                                              to_string(tensor.type.shape)));
    }
  }
  return {};
}

namespace {

Status check_names(const GraphSpec& graph) {
  std::map<std::string, std::string> in_dlc;
  const auto add = [&in_dlc](const std::string& name) -> Status {
    const auto [other, fresh] = in_dlc.emplace(safe_name(name), name);
    if (fresh) return {};
    return invalid(
        name, fmt::format("the tensors {} and {} have the same name in a DLC, {}", other->second, name, other->first));
  };
  for (const TensorSpec& tensor : graph.tensors) HTPIPE_CHECK_OK(add(tensor.name));
  for (const OpSpec& op : graph.ops) {
    for (const ParamSpec& param : op.params) {
      if (std::holds_alternative<Tensor>(param.value)) HTPIPE_CHECK_OK(add(param_tensor_name(op, param)));
    }
  }
  return {};
}

}  // namespace

Status check(const GraphSpec& graph) {
  if (!usable_name(graph.name)) return fail(Code::kGraphInvalid, "the graph has no usable name");
  if (graph.ops.empty()) return fail(Code::kGraphInvalid, fmt::format("graph {} has no operator", graph.name));
  std::set<std::string_view> tensors;
  std::set<std::string_view> ready;  // inputs, statics and what earlier operators produced
  for (const TensorSpec& tensor : graph.tensors) {
    HTPIPE_CHECK_OK(check(tensor));
    if (!tensors.insert(tensor.name).second) return invalid(tensor.name, "two tensors have this name");
    if (tensor.role == TensorRole::kInput || tensor.role == TensorRole::kStatic) ready.insert(tensor.name);
  }
  std::set<std::string_view> ops;
  for (const OpSpec& op : graph.ops) {
    if (!usable_name(op.name) || !usable_name(op.type))
      return invalid(op.name, "an operator has no usable name or type");
    if (!ops.insert(op.name).second) return invalid(op.name, "two operators have this name");
    for (const ParamSpec& param : op.params) {
      if (!usable_name(param.name)) return invalid(op.name, "a parameter has no usable name");
      if (const auto* tensor = std::get_if<Tensor>(&param.value)) {
        if (tensor->empty()) return invalid(op.name, fmt::format("parameter {} has no data", param.name));
        HTPIPE_CHECK_OK(check_type(op.name + "." + param.name, tensor->type()));
      }
    }
    for (const std::string& input : op.inputs) {
      if (tensors.count(input) == 0) return invalid(op.name, fmt::format("input {} is no tensor of the graph", input));
      if (ready.count(input) == 0) return invalid(op.name, fmt::format("input {} is not produced before", input));
    }
    if (op.outputs.empty()) return invalid(op.name, "an operator has no output");
    for (const std::string& output : op.outputs) {
      const auto known = tensors.find(output);
      if (known == tensors.end()) return invalid(op.name, fmt::format("output {} is no tensor of the graph", output));
      if (!ready.insert(*known).second) return invalid(op.name, fmt::format("output {} is already produced", output));
    }
  }
  for (const TensorSpec& tensor : graph.tensors) {
    if (ready.count(tensor.name) == 0) return invalid(tensor.name, "no operator produces this tensor");
  }
  return check_names(graph);
}

}  // namespace htpipe::qnn
