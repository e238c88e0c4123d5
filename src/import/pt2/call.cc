// Reading of ATen arguments; see aten_map.h.
#include <fmt/core.h>

#include "import/pt2/aten_map.h"

namespace htpipe::pt2 {
namespace {

tl::unexpected<Error> wrong(std::string_view name, std::string_view wanted) {
  return fail(Code::kUnsupportedForm, fmt::format("argument {} is no {}", name, wanted));
}

bool absent(const Argument* argument) {
  return argument == nullptr || std::holds_alternative<std::monostate>(*argument);
}

}  // namespace

Result<htpipe::Value*> Call::optional_tensor(std::string_view name) const {
  const Argument* argument = node_.input(name);
  if (absent(argument)) return nullptr;
  const auto* tensor = std::get_if<TensorName>(argument);
  if (tensor == nullptr) return wrong(name, "tensor");
  return lookup_(tensor->name);
}

Result<htpipe::Value*> Call::tensor(std::string_view name) const {
  HTPIPE_TRY(htpipe::Value * value, optional_tensor(name));
  if (value == nullptr) return wrong(name, "tensor");
  return value;
}

Result<std::vector<float>> Call::floats(std::string_view name) const {
  HTPIPE_TRY(const htpipe::Value* value, tensor(name));
  if (!value->is_constant() || !is_float(value->type.dtype)) return wrong(name, "constant float tensor");
  return to_floats(value->constant);
}

Result<std::int64_t> Call::integer(std::string_view name, std::optional<std::int64_t> fallback) const {
  const Argument* argument = node_.input(name);
  if (absent(argument)) {
    if (fallback) return *fallback;
    return wrong(name, "integer");
  }
  const auto* value = std::get_if<std::int64_t>(argument);
  if (value == nullptr) return wrong(name, "integer");
  return *value;
}

Result<double> Call::real(std::string_view name, std::optional<double> fallback) const {
  const Argument* argument = node_.input(name);
  if (absent(argument)) {
    if (fallback) return *fallback;
    return wrong(name, "number");
  }
  if (const auto* value = std::get_if<double>(argument)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(argument)) return static_cast<double>(*value);
  return wrong(name, "number");
}

Result<bool> Call::flag(std::string_view name, bool fallback) const {
  const Argument* argument = node_.input(name);
  if (absent(argument)) return fallback;
  const auto* value = std::get_if<bool>(argument);
  if (value == nullptr) return wrong(name, "truth value");
  return *value;
}

Result<std::vector<std::int64_t>> Call::integers(std::string_view name, std::size_t size,
                                                 std::vector<std::int64_t> fallback) const {
  const Argument* argument = node_.input(name);
  std::vector<std::int64_t> result;
  if (absent(argument)) {
    result = std::move(fallback);
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(argument)) {
    result = list->empty() ? std::move(fallback) : *list;
  } else if (const auto* one = std::get_if<std::int64_t>(argument)) {
    result = {*one};
  } else {
    return wrong(name, "list of integers");
  }
  if (size > 1 && result.size() == 1) result.assign(size, result.front());
  if (size != 0 && result.size() != size) return wrong(name, fmt::format("list of {} integers", size));
  return result;
}

Result<htpipe::Value*> Call::add(std::string_view op, Attributes attributes, std::vector<htpipe::Value*> operands,
                                 std::string_view suffix) {
  Source source;
  source.layer = node_.module;
  if (!node_.source_file.empty()) {
    // The folder of the machine that exported the model says nothing to a reader elsewhere.
    const std::size_t slash = node_.source_file.find_last_of('/');
    const std::string file = slash == std::string::npos ? node_.source_file : node_.source_file.substr(slash + 1);
    source.line = fmt::format("{}:{}", file, node_.source_line);
  }
  const std::string name = suffix.empty() ? node_.name : fmt::format("{}_{}", node_.name, suffix);
  HTPIPE_TRY(htpipe::Node * added,
             graph_.add_node(op, name, std::move(attributes), std::move(operands), std::move(source)));
  return added->result();
}

Result<htpipe::Value*> Call::constant(std::string_view suffix, Shape shape, const std::vector<float>& values) {
  TensorType type{DType::kF32, std::move(shape), std::nullopt};
  return graph_.add_constant(fmt::format("{}_{}", node_.name, suffix), Tensor::from<float>(std::move(type), values));
}

}  // namespace htpipe::pt2
