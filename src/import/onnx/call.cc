#include "import/onnx/call.h"

#include <fmt/format.h>

#include "import/onnx/importer.h"

namespace htpipe::onnx_import {
namespace {

tl::unexpected<Error> wrong_type(std::string_view name, std::string_view wanted) {
  return fail(Code::kOnnxInvalid, fmt::format("attribute {} is no {}", name, wanted));
}

tl::unexpected<Error> missing_attribute(std::string_view name) {
  return fail(Code::kOnnxInvalid, fmt::format("attribute {} is missing", name));
}

}  // namespace

Result<Value*> Call::input(std::size_t index) const {
  if (has(index)) return inputs_[index];
  return fail(Code::kOnnxInvalid, fmt::format("input {} of {} is missing", index, node_.op_type()));
}

Call Call::with_inputs(Values inputs, std::string_view suffix) {
  return {importer_,         node_,     opset_,
          std::move(inputs), graph(),   suffix.empty() ? name() : fmt::format("{}_{}", name(), suffix),
          source(),          warnings()};
}

Result<Tensor> Call::constant_input(std::size_t index) const {
  HTPIPE_TRY(const Value* value, input(index));
  if (value->is_constant()) return value->constant;
  const std::vector<std::string> inputs = importer_.inputs_behind(value);
  Error error(Code::kNeedsConstant,
              fmt::format("input {} of {} ({}) must be constant", index, node_.op_type(), value->name));
  for (const std::string& name : inputs) error.notes.push_back(fmt::format("it depends on the input {}", name));
  return fail(std::move(error));
}

Result<std::vector<std::int64_t>> Call::integers_input(std::size_t index) const {
  HTPIPE_TRY(const Tensor tensor, constant_input(index));
  return to_integers(tensor);
}

Result<std::vector<float>> Call::floats_input(std::size_t index) const {
  HTPIPE_TRY(const Tensor tensor, constant_input(index));
  return to_floats(tensor);
}

int Call::bits_of(const Value* value) const { return importer_.bits_of(value); }
void Call::set_bits(const Value* value, int bits) { importer_.set_bits(value, bits); }

Value* Call::make_sequence(Values elements) {
  Value* handle = integers("sequence", Shape{0}, {});
  importer_.set_sequence(handle, std::move(elements));
  return handle;
}

Result<Values> Call::sequence_input(std::size_t index) const {
  HTPIPE_TRY(const Value* value, input(index));
  const Values* elements = importer_.sequence_of(value);
  if (elements == nullptr) return fail(Code::kUnsupportedForm, fmt::format("input {} is no sequence", index));
  return *elements;
}

bool Call::is_sequence(const Value* value) const { return importer_.sequence_of(value) != nullptr; }

const onnx::AttributeProto* Call::attribute(std::string_view name) const {
  for (const auto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

Result<std::int64_t> Call::integer(std::string_view name, std::optional<std::int64_t> fallback) const {
  const auto* found = attribute(name);
  if (found == nullptr) {
    if (fallback) return *fallback;
    return missing_attribute(name);
  }
  if (!found->has_i()) return wrong_type(name, "integer");
  return found->i();
}

Result<float> Call::real(std::string_view name, std::optional<float> fallback) const {
  const auto* found = attribute(name);
  if (found == nullptr) {
    if (fallback) return *fallback;
    return missing_attribute(name);
  }
  if (!found->has_f()) return wrong_type(name, "float");
  return found->f();
}

Result<std::string> Call::text(std::string_view name, std::optional<std::string> fallback) const {
  const auto* found = attribute(name);
  if (found == nullptr) {
    if (fallback) return *fallback;
    return missing_attribute(name);
  }
  if (!found->has_s()) return wrong_type(name, "string");
  return found->s();
}

Result<std::vector<std::int64_t>> Call::ints(std::string_view name, std::vector<std::int64_t> fallback) const {
  const auto* found = attribute(name);
  if (found == nullptr) return fallback;
  if (found->type() != onnx::AttributeProto::INTS) return wrong_type(name, "list of integers");
  return std::vector<std::int64_t>(found->ints().begin(), found->ints().end());
}

Result<std::vector<float>> Call::reals(std::string_view name, std::vector<float> fallback) const {
  const auto* found = attribute(name);
  if (found == nullptr) return fallback;
  if (found->type() != onnx::AttributeProto::FLOATS) return wrong_type(name, "list of floats");
  return std::vector<float>(found->floats().begin(), found->floats().end());
}

Result<Tensor> Call::tensor_attribute(std::string_view name) const {
  const auto* found = attribute(name);
  if (found == nullptr) return missing_attribute(name);
  if (!found->has_t()) return wrong_type(name, "tensor");
  return importer_.model().tensor(found->t());
}

Result<std::int64_t> Call::axis(std::string_view name, std::optional<std::int64_t> fallback, std::size_t rank) const {
  HTPIPE_TRY(const std::int64_t given, integer(name, fallback));
  return normal_axis(given, rank);
}

Result<Values> Call::subgraph(std::string_view name, const Values& inputs, std::string_view prefix) {
  const auto* found = attribute(name);
  if (found == nullptr) return missing_attribute(name);
  if (!found->has_g()) return wrong_type(name, "graph");
  return importer_.subgraph(found->g(), inputs, fmt::format("{}{}", prefix, prefix.empty() ? "" : "/"));
}

}  // namespace htpipe::onnx_import
