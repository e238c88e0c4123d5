// Reading of ATen arguments; see call.h. Building of nodes is in call_nodes.cc.
#include "import/pt2/call.h"

#include <fmt/core.h>

#include <algorithm>

namespace htpipe::pt2 {
namespace {

tl::unexpected<Error> wrong(std::string_view name, std::string_view wanted, const Argument* argument = nullptr) {
  if (argument != nullptr) {
    if (const auto* problem = std::get_if<Unsupported>(argument)) {
      return fail(Code::kUnsupportedForm, fmt::format("argument {} is {}", name, problem->kind));
    }
  }
  return fail(Code::kUnsupportedForm, fmt::format("argument {} is no {}", name, wanted));
}

bool absent(const Argument* argument) {
  return argument == nullptr || std::holds_alternative<std::monostate>(*argument);
}

Source source_of(const Node& node) {
  Source source;
  source.layer = node.module;
  if (!node.source_file.empty()) {
    // The folder of the machine that exported the model says nothing to a reader elsewhere.
    const std::size_t slash = node.source_file.find_last_of('/');
    const std::string file = slash == std::string::npos ? node.source_file : node.source_file.substr(slash + 1);
    source.line = fmt::format("{}:{}", file, node.source_line);
  }
  return source;
}

/// A name, counting on through lists: results are numbered as the program uses them.
const std::string* result_name(const Node& node, std::size_t index) {
  for (const Argument& output : node.outputs) {
    if (const auto* list = std::get_if<TensorNames>(&output)) {
      if (index < list->names.size()) return &list->names[index];
      index -= list->names.size();
    } else {
      if (index == 0) {
        const auto* one = std::get_if<TensorName>(&output);
        return one != nullptr ? &one->name : nullptr;
      }
      --index;
    }
  }
  return nullptr;
}

}  // namespace

Call::Call(const Node& node, const Body& body, Graph& graph, const Lookup& lookup, std::string_view argument,
           std::vector<std::string>* warnings)
    : node_(node),
      body_(body),
      builder_(graph, node.name, source_of(node), warnings),
      lookup_(lookup),
      argument_(argument) {}

bool Call::has(std::string_view name) const { return !absent(node_.input(name)); }

bool Call::is_tensor(std::string_view name) const {
  const Argument* argument = node_.input(name);
  return argument != nullptr && std::holds_alternative<TensorName>(*argument);
}

Result<Value*> Call::optional_tensor(std::string_view name) const {
  const Argument* argument = node_.input(name);
  if (absent(argument)) return nullptr;
  const auto* tensor = std::get_if<TensorName>(argument);
  if (tensor == nullptr) return wrong(name, "tensor", argument);
  return lookup_(tensor->name);
}

Result<Value*> Call::tensor(std::string_view name) const {
  HTPIPE_TRY(Value * value, optional_tensor(name));
  if (value == nullptr) return wrong(name, "tensor");
  return value;
}

Result<Values> Call::tensors(std::string_view name) const {
  const Argument* argument = node_.input(name);
  const auto* list = argument != nullptr ? std::get_if<TensorNames>(argument) : nullptr;
  if (list == nullptr) {
    if (argument != nullptr && std::holds_alternative<IntList>(*argument) && std::get<IntList>(*argument).empty()) {
      return Values{};
    }
    return wrong(name, "list of tensors", argument);
  }
  Values values;
  for (const std::string& tensor : list->names) {
    HTPIPE_TRY(Value * value, lookup_(tensor));
    values.push_back(value);
  }
  return values;
}

Result<Values> Call::optional_tensors(std::string_view name) const {
  const Argument* argument = node_.input(name);
  const auto* list = argument != nullptr ? std::get_if<OptionalTensorNames>(argument) : nullptr;
  if (list == nullptr) return tensors(name);
  Values values;
  for (const auto& tensor : list->names) {
    Value* value = nullptr;
    if (tensor) {
      HTPIPE_TRY(value, lookup_(*tensor));
    }
    values.push_back(value);
  }
  return values;
}

Result<Value*> Call::tensor_or_number(std::string_view name) {
  const Argument* argument = node_.input(name);
  if (argument != nullptr) {
    if (const auto* number = std::get_if<std::int64_t>(argument)) {
      return scalar(static_cast<double>(*number), DType::kI64, name);
    }
    if (const auto* number = std::get_if<double>(argument)) return scalar(*number, DType::kF32, name);
    if (const auto* truth = std::get_if<bool>(argument)) return scalar(*truth ? 1 : 0, DType::kBool, name);
  }
  return tensor(name);
}

Result<std::vector<float>> Call::floats(std::string_view name) const {
  HTPIPE_TRY(const Value* value, tensor(name));
  if (!value->is_constant() || !is_float(value->type.dtype)) return wrong(name, "constant float tensor");
  return to_floats(value->constant);
}

Result<std::int64_t> Call::integer(std::string_view name, std::optional<std::int64_t> fallback) const {
  const Argument* argument = node_.input(name);
  if (absent(argument)) {
    if (fallback) return *fallback;
    return wrong(name, "integer");
  }
  if (const auto* value = std::get_if<bool>(argument)) return *value ? 1 : 0;
  const auto* value = std::get_if<std::int64_t>(argument);
  if (value == nullptr) return wrong(name, "integer", argument);
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
  if (const auto* value = std::get_if<bool>(argument)) return *value ? 1.0 : 0.0;
  return wrong(name, "number", argument);
}

Result<bool> Call::flag(std::string_view name, bool fallback) const {
  const Argument* argument = node_.input(name);
  if (absent(argument)) return fallback;
  const auto* value = std::get_if<bool>(argument);
  if (value == nullptr) return wrong(name, "truth value", argument);
  return *value;
}

Result<std::string> Call::text(std::string_view name, std::string_view fallback) const {
  const Argument* argument = node_.input(name);
  if (absent(argument)) return std::string(fallback);
  const auto* value = std::get_if<std::string>(argument);
  if (value == nullptr) return wrong(name, "text", argument);
  return *value;
}

Result<IntList> Call::integers(std::string_view name, std::size_t size, IntList fallback) const {
  const Argument* argument = node_.input(name);
  IntList result;
  if (absent(argument)) {
    result = std::move(fallback);
  } else if (const auto* list = std::get_if<IntList>(argument)) {
    result = list->empty() ? std::move(fallback) : *list;
  } else if (const auto* one = std::get_if<std::int64_t>(argument)) {
    result = {*one};
  } else {
    return wrong(name, "list of integers", argument);
  }
  if (size > 1 && result.size() == 1) result.assign(size, result.front());
  if (size != 0 && result.size() != size) return wrong(name, fmt::format("list of {} integers", size));
  return result;
}

Result<std::vector<double>> Call::reals(std::string_view name) const {
  const Argument* argument = node_.input(name);
  if (absent(argument)) return std::vector<double>{};
  if (const auto* list = std::get_if<std::vector<double>>(argument)) return *list;
  HTPIPE_TRY(const IntList whole, integers(name, 0));
  return std::vector<double>(whole.begin(), whole.end());
}

Result<DType> Call::dtype(std::string_view name) const {
  const Argument* argument = node_.input(name);
  const auto* dtype = argument != nullptr ? std::get_if<DType>(argument) : nullptr;
  if (dtype == nullptr) return wrong(name, "data type", argument);
  return *dtype;
}

Result<std::int64_t> Call::axis(std::string_view name, std::size_t rank, std::optional<std::int64_t> fallback) const {
  HTPIPE_TRY(std::int64_t axis, integer(name, fallback));
  const auto axes = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (axis < 0) axis += axes;
  if (axis < 0 || axis >= axes) return wrong(name, fmt::format("axis of {}", axes));
  return axis;
}

Result<IntList> Call::axes(std::string_view name, std::size_t rank) const {
  HTPIPE_TRY(IntList list, integers(name, 0));
  if (list.empty()) {
    for (std::size_t i = 0; i < rank; ++i) list.push_back(static_cast<std::int64_t>(i));
    return list;
  }
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  for (std::int64_t& axis : list) {
    if (axis < 0) axis += count;
    if (axis < 0 || axis >= count) return wrong(name, fmt::format("list of axes of {}", count));
  }
  std::sort(list.begin(), list.end());
  if (std::adjacent_find(list.begin(), list.end()) != list.end()) return wrong(name, "list of different axes");
  if (rank == 0) list.clear();
  return list;
}

const TensorMeta* Call::declared(std::size_t result) const {
  const std::string* name = result_name(node_, result);
  if (name == nullptr) return nullptr;
  const auto at = body_.tensor_values.find(*name);
  return at == body_.tensor_values.end() ? nullptr : &at->second;
}

const TensorMeta* Call::declared_argument(std::string_view name) const {
  const Argument* argument = node_.input(name);
  const auto* tensor = argument != nullptr ? std::get_if<TensorName>(argument) : nullptr;
  if (tensor == nullptr) return nullptr;
  const auto at = body_.tensor_values.find(tensor->name);
  return at == body_.tensor_values.end() ? nullptr : &at->second;
}

bool is_contiguous(const TensorMeta& meta) {
  std::int64_t expected = 1;
  for (std::size_t axis = meta.sizes.size(); axis-- > 0;) {
    if (meta.sizes[axis] != 1 && meta.strides[axis] != expected) return false;
    expected *= meta.sizes[axis];
  }
  return meta.storage_offset == 0;
}

bool Call::used(std::size_t index) const {
  // Results that nobody takes have no name, or no type.
  return declared(index) != nullptr;
}

Result<DType> Call::result_dtype() const {
  const TensorMeta* meta = declared();
  if (meta == nullptr) return fail(Code::kUnsupportedForm, "a result whose type is not declared");
  return internal(meta->dtype);
}

}  // namespace htpipe::pt2
