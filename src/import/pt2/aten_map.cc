#include "import/pt2/aten_map.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "import/pt2/mappers.h"

namespace htpipe::pt2 {
namespace {

const std::map<std::string_view, Mapper>& table() {
  static const std::map<std::string_view, Mapper> mappers = {
#define HTPIPE_ATEN(target, mapper, argument) {target, Mapper(mapper, argument)},
#include "import/pt2/aten_map.inc"
#undef HTPIPE_ATEN
  };
  return mappers;
}

/// "relu.default" of "torch.ops.aten.relu.default"; empty for an operator of somebody else.
std::string_view inner_name(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.aten.";
  return target.substr(0, kPrefix.size()) == kPrefix ? target.substr(kPrefix.size()) : std::string_view();
}

/// The operator without its overload.
std::string_view stem(std::string_view name) { return name.substr(0, name.find('.')); }

bool ends_in_place(std::string_view name) { return name.ends_with('_') && !name.ends_with("__"); }

/// "relu.default" of "relu_.default".
std::string functional(std::string_view name) {
  std::string result(stem(name));
  if (ends_in_place(result)) result.pop_back();
  return result + std::string(name.substr(stem(name).size()));
}

}  // namespace

const Mapper* find_mapper(std::string_view target) {
  const std::string_view name = inner_name(target);
  if (name.empty()) return nullptr;
  const auto at = table().find(functional(name));
  return at == table().end() ? nullptr : &at->second;
}

bool is_in_place(std::string_view target) {
  const std::string_view name = stem(inner_name(target));
  if (name.starts_with("__i") && name.ends_with("__")) return true;
  return ends_in_place(name) && name != "detach_";
}

Sharing sharing_of(std::string_view target) {
  static constexpr std::array<std::string_view, 32> kViews = {"_reshape_alias",
                                                              "adjoint",
                                                              "alias",
                                                              "as_strided",
                                                              "broadcast_to",
                                                              "chunk",
                                                              "detach",
                                                              "detach_",
                                                              "diagonal",
                                                              "expand",
                                                              "expand_as",
                                                              "mH",
                                                              "mT",
                                                              "movedim",
                                                              "moveaxis",
                                                              "narrow",
                                                              "numpy_T",
                                                              "permute",
                                                              "select",
                                                              "slice",
                                                              "split",
                                                              "split_with_sizes",
                                                              "squeeze",
                                                              "swapaxes",
                                                              "swapdims",
                                                              "t",
                                                              "tensor_split",
                                                              "transpose",
                                                              "unbind",
                                                              "unsqueeze",
                                                              "view",
                                                              "unfold"};
  static constexpr std::array<std::string_view, 15> kMaybe = {
      "alpha_dropout",   "atleast_1d", "atleast_2d", "atleast_3d", "contiguous", "dropout", "feature_alpha_dropout",
      "feature_dropout", "flatten",    "ravel",      "reshape",    "reshape_as", "to",      "type_as",
      "unflatten"};
  const std::string_view name = stem(inner_name(target));
  if (name.empty()) return Sharing::kNone;
  const auto has = [name](const auto& list) { return std::find(list.begin(), list.end(), name) != list.end(); };
  if (has(kViews) || name == "view_as") return Sharing::kView;
  return has(kMaybe) ? Sharing::kMaybe : Sharing::kNone;
}

}  // namespace htpipe::pt2
