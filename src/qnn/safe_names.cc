// The naming rule of the vendor's DLC writer.
#include "qnn/safe_names.h"

#include <set>
#include <variant>

namespace htpipe::qnn {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_safe(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; }

}  // namespace

std::string safe_name(std::string_view name) {
  std::string safe;
  if (!name.empty() && is_digit(name.front())) safe += '_';
  for (const char c : name) safe += is_safe(c) ? c : '_';
  return safe;
}

std::map<std::string, std::string> make_names_safe(GraphSpec& graph) {
  graph.name = safe_name(graph.name);
  std::set<std::string> taken;
  for (const OpSpec& op : graph.ops) {
    for (const ParamSpec& param : op.params) {
      if (std::holds_alternative<Tensor>(param.value)) taken.insert(safe_name(param_tensor_name(op, param)));
    }
  }
  std::map<std::string, std::string> renamed;
  for (TensorSpec& tensor : graph.tensors) {
    const std::string safe = safe_name(tensor.name);
    std::string unique = safe;
    for (int number = 2; !taken.insert(unique).second; ++number) unique = safe + "_" + std::to_string(number);
    renamed[tensor.name] = unique;
    tensor.name = unique;
  }
  for (OpSpec& op : graph.ops) {
    for (auto* names : {&op.inputs, &op.outputs}) {
      for (std::string& name : *names) {
        const auto at = renamed.find(name);
        if (at != renamed.end()) name = at->second;
      }
    }
  }
  return renamed;
}

std::string param_tensor_name(const OpSpec& op, const ParamSpec& param) { return op.name + "." + param.name; }

}  // namespace htpipe::qnn
