#include "ir/op.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"

namespace htpipe {
namespace {

std::vector<const OpDef*>& table() {
  static std::vector<const OpDef*> ops;
  return ops;
}

}  // namespace

const AttributeSpec* OpDef::attribute(std::string_view attribute_name) const {
  for (const AttributeSpec& spec : attributes) {
    if (spec.name == attribute_name) return &spec;
  }
  return nullptr;
}

void register_ops(std::vector<const OpDef*> ops) {
  std::sort(ops.begin(), ops.end(), [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  table() = std::move(ops);
}

const std::vector<const OpDef*>& registered_ops() { return table(); }

const OpDef* find_op(std::string_view name) {
  const auto& ops = table();
  HTPIPE_CHECK(!ops.empty(), "operators are not registered: call register_all_ops() first");
  const auto at = std::lower_bound(ops.begin(), ops.end(), name,
                                   [](const OpDef* op, std::string_view text) { return op->name < text; });
  return at != ops.end() && (*at)->name == name ? *at : nullptr;
}

Result<Attributes> complete(const OpDef& op, const Attributes& given) {
  Attributes result;
  for (const AttributeSpec& spec : op.attributes) {
    const Attribute* value = given.find(spec.name);
    if (value == nullptr) {
      if (spec.required) return fail(Code::kUnsupportedForm, fmt::format("{} needs attribute {}", op.name, spec.name));
      result.set(spec.name, spec.default_value);
    } else if (value->index() != spec.default_value.index()) {
      return fail(Code::kUnsupportedForm, fmt::format("attribute {} of {} has the wrong type", spec.name, op.name));
    } else {
      result.set(spec.name, *value);
    }
  }
  for (const auto& [name, value] : given.items()) {
    if (op.attribute(name) == nullptr) {
      return fail(Code::kUnsupportedForm, fmt::format("{} has no attribute {}", op.name, name));
    }
  }
  return result;
}

}  // namespace htpipe
