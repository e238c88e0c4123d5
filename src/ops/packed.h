// Weights in the form that a kernel wants, made once and shared by every kernel that is prepared for the same constant.
// Invariant: what is shared is const, and keeps the bytes that it was made from.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <typeindex>
#include <utility>

#include "tensor/tensor.h"

namespace htpipe::ops {

/// The part of shared_packed that knows no types.
[[nodiscard]] std::shared_ptr<const void> shared_packed_bytes(const Tensor& weight, std::string_view kind,
                                                              std::type_index type,
                                                              const std::function<std::shared_ptr<const void>()>& make);

/// make() for `weight`, or what another kernel got for the same bytes, type and kind and still holds. `kind` names the
/// packing and all that it depends on besides the tensor (groups, layout, chip …). `weight` must be a constant of the
/// graph itself, not a copy of one, or nobody shares it. Thread-safe.
template <typename T, typename Make>
[[nodiscard]] std::shared_ptr<const T> shared_packed(const Tensor& weight, std::string_view kind, Make make) {
  return std::static_pointer_cast<const T>(shared_packed_bytes(
      weight, kind, typeid(T), [&]() -> std::shared_ptr<const void> { return std::make_shared<const T>(make()); }));
}

}  // namespace htpipe::ops
