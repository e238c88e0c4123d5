// What the attention operators of ONNX and com.microsoft share: heads, masks, the cache of keys and values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "import/onnx/onnx_helpers.h"

namespace htpipe::onnx_import {

/// [batch, length, heads * size] as [batch, heads, length, size]; data with heads stays. Errors: shape-mismatch.
Result<Value*> split_heads(Builder& builder, Value* value, std::int64_t heads, std::string_view suffix);
/// The way back.
Result<Value*> join_heads(Builder& builder, Value* value, std::string_view suffix = {});

/// Which keys a query sees: those not after `right` and not before `left` positions of its own, which is
/// `offset` + its row. Negative: no bound.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;
  std::int64_t offset = 0;
};
/// [rows, columns], true where a key is seen; null for a window without bounds.
/// Errors: unsupported-form for a mask that is too large.
Result<Value*> window_mask(Builder& builder, const Window& window, std::int64_t rows, std::int64_t columns,
                           std::string_view suffix);

/// Both masks together: bool ones by "and", others by adding; either may be null.
Result<Value*> both_masks(Builder& builder, Value* a, Value* b, std::string_view suffix);
/// A bool mask as what is added to scores: 0 and `masked`. Others stay.
Result<Value*> additive_mask(Builder& builder, Value* mask, float masked, std::string_view suffix);

struct Heads {
  Value* query = nullptr;  ///< [batch, heads, rows, size]
  Value* key = nullptr;    ///< [batch, key heads, columns, size]
  Value* value = nullptr;  ///< [batch, key heads, columns, value size]
  Value* mask = nullptr;   ///< broadcasts to [batch, heads, rows, columns]; bool, or added to the scores
  std::optional<double> scale = {};
  double softcap = 0.0;
};
/// Attention in float32, given back in the type of the query.
Result<Value*> attend_heads(Builder& builder, const Heads& heads, std::string_view suffix = {});

}  // namespace htpipe::onnx_import
