// Advice about types, ranges and what they cost in accuracy.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "check/advice/adviser.h"

namespace htpipe::check {
namespace {

constexpr double kFarApart = 16;       ///< times the range: four of eight bits are lost
constexpr std::int64_t kSteps8 = 256;  ///< of a probability in 8 bits
constexpr double kLargeShare = 0.25;   ///< of all weights

bool converts(const Node& node) {
  return node.is("Convert") || node.is("Quantize") || node.is("Dequantize") || node.is("Cast");
}

/// Ratio of the largest to the smallest range of a node's operands, constants aside; 0 when fewer than two have one.
double spread_of(const Node& node) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  int ranges = 0;
  for (const Value* operand : node.operands) {
    if (operand == nullptr || operand->is_constant()) continue;
    const auto reach = reach_of(operand->type);
    if (!reach || *reach <= 0) continue;
    low = std::min(low, *reach);
    high = std::max(high, *reach);
    ++ranges;
  }
  return ranges < 2 ? 0 : high / low;
}

void about_ranges(Adviser& adviser, const Node& node) {
  const bool sum = node.is("ElementWiseBinary") &&
                   (node.attributes.text("operation") == "add" || node.attributes.text("operation") == "subtract");
  if (!sum && !node.is("Concat")) return;
  if (size_of(node.result()->type.dtype) != 1) return;
  const double spread = spread_of(node);
  if (spread < kFarApart) return;
  adviser.add(sum ? "add-ranges" : "concat-ranges", &node, fmt::format("{:.3g} times apart", spread));
}

void about_conversions(Adviser& adviser) {
  const Subject& subject = adviser.subject;
  std::int64_t count = 0;
  double bytes = 0;
  const Node* first = nullptr;
  for (const auto& node : subject.assumed.nodes()) {
    if (!converts(*node) || node->operands.empty() || node->operands[0] == nullptr) continue;
    ++count;
    bytes += static_cast<double>(node->operands[0]->type.size_bytes() + node->result()->type.size_bytes());
    if (first == nullptr) first = node.get();
  }
  if (count == 0) return;
  const Value* own = subject.optimised.find_value(first->name());
  const Node* at = own != nullptr ? own->producer : nullptr;
  adviser.add("converts", at, fmt::format("{}, the first at {}", count, first->name()),
              Gain{bytes, "bytes read and written"});
}

void about_precision(Adviser& adviser) {
  const Target& target = adviser.subject.target;
  if (adviser.calibrated) return;  // the model has types of its own
  if (adviser.subject.precision == Precision::kInt16 && target.htp_version < 73) {
    adviser.add("int16-old-chip", nullptr, target.arch());
  }
  if (adviser.subject.precision == Precision::kFp16 && !target.supports_fp16) {
    adviser.add("fp16-missing", nullptr, target.arch());
  }
}

void about_softmax(Adviser& adviser, const Node& node) {
  const Value* stored = adviser.subject.assumed.find_value(node.name());
  if (stored == nullptr || size_of(stored->type.dtype) != 1) return;
  const Shape& shape = node.operands[0]->type.shape;
  std::int64_t axis = node.attributes.integer("axis");
  if (axis < 0) axis += static_cast<std::int64_t>(shape.size());
  const std::int64_t length = shape[static_cast<std::size_t>(axis)];
  if (length <= 2 * kSteps8) return;
  adviser.add("softmax-long", &node, fmt::format("{} elements", length));
}

void about_embedding(Adviser& adviser, const Node& node) {
  const Value& table = *node.operands[0];
  const auto bytes = static_cast<double>(stored_bytes_of(table, adviser.subject));
  if (!table.is_constant() || bytes < kLargeShare * static_cast<double>(adviser.memory.weight_bytes)) return;
  if (bytes < 1 << 20) return;
  adviser.add("embedding-large", &node, to_string(table.type), Gain{bytes, "bytes of weights"});
}

}  // namespace

void advise_types(Adviser& adviser) {
  about_precision(adviser);
  about_conversions(adviser);
  const Node* norm = nullptr;
  const Node* floating = nullptr;
  std::size_t norms = 0;
  std::size_t floats = 0;
  const Node* ranked = nullptr;
  std::size_t rank = 4;
  for (const auto& node : adviser.subject.optimised.nodes()) {
    if (adviser.calibrated) about_ranges(adviser, *node);
    if (node->is("Softmax")) about_softmax(adviser, *node);
    if (node->is("Gather")) about_embedding(adviser, *node);
    const Value* stored = adviser.subject.assumed.find_value(node->name());
    const bool is_norm = node->is("LayerNorm") || node->is("RmsNorm");
    if (is_norm && stored != nullptr && size_of(stored->type.dtype) == 1) {
      if (norms++ == 0) norm = node.get();
    }
    const bool is_float32 = node->result()->type.dtype == DType::kF32 || node->result()->type.dtype == DType::kF16;
    if (adviser.calibrated && is_float32 && !converts(*node)) {
      if (floats++ == 0) floating = node.get();
    }
    if (!node->is("Reshape") && node->result()->type.shape.size() > rank) {
      rank = node->result()->type.shape.size();
      ranked = node.get();
    }
  }
  if (norm != nullptr) adviser.add("layer-norm-int8", norm, fmt::format("{}", norms));
  if (floating != nullptr) adviser.add("float-island", floating, fmt::format("{}", floats));
  if (ranked != nullptr) adviser.add("rank-above-four", ranked, fmt::format("rank {}", rank));
}

}  // namespace htpipe::check
