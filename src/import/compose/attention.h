// Scaled dot-product attention out of products, a mask and a softmax. Both importers use it.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "import/builder.h"

namespace htpipe::compose {

struct Attention {
  Value* query = nullptr;  ///< [..., heads, L, E]
  Value* key = nullptr;    ///< [..., key heads, S, E]; heads is a multiple of key heads
  Value* value = nullptr;  ///< [..., key heads, S, V]
  /// Broadcasts to [..., heads, L, S]. bool: true takes part; float32: added to the scores. Null = no mask.
  Value* mask = nullptr;
  /// Row i sees columns up to i + causal_offset.
  bool causal = false;
  std::int64_t causal_offset = 0;
  std::optional<double> scale = {};  ///< of the scores; 1 / sqrt(E) when it is not given
  /// Bound of the scores before the mask: softcap * tanh(scores / softcap); 0 = none.
  double softcap = 0.0;
};

/// softmax(query @ key^T * scale + mask) @ value. A row in which nothing takes part gives zeros, as PyTorch has it.
/// Errors: shape-mismatch, unsupported-form.
Result<Value*> attend(Builder& builder, const Attention& attention, std::string_view suffix = {});

}  // namespace htpipe::compose
