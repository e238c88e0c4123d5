#include "check/tiling.h"

#include <algorithm>

#include "check/live_sets.h"

namespace htpipe::check {
namespace {

struct TilingRow {
  std::string_view op;
  Tiling tiling;
};

constexpr TilingRow kTilings[] = {
#define HTPIPE_TILING(op, tiling) {op, Tiling::tiling},
#include "check/tiling.inc"
#undef HTPIPE_TILING
};

constexpr std::uint64_t kChannels = 32;  ///< that the matrix unit takes at once

const TilingRow* row_of(std::string_view op) {
  for (const TilingRow& row : kTilings) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

std::uint64_t size_of_axis(const TensorType& type, std::size_t axis) {
  return axis < type.shape.size() ? static_cast<std::uint64_t>(std::max<std::int64_t>(type.shape[axis], 1)) : 1;
}

/// `part` of `whole` equal pieces of a tensor, rounded up.
std::uint64_t share(const TensorType& type, std::uint64_t part, std::uint64_t whole) {
  if (part >= whole) return stored_bytes(type);
  return (stored_bytes(type) * part + whole - 1) / whole;
}

/// Elements along the axes that a node takes at once.
std::uint64_t row_length(const Node& node, const TensorType& type) {
  const std::size_t rank = type.shape.size();
  if (const Attribute* axis = node.attributes.find("axis")) {
    const auto* at = std::get_if<std::int64_t>(axis);
    if (at != nullptr && *at >= 0) return size_of_axis(type, static_cast<std::size_t>(*at));
  }
  if (const Attribute* axes = node.attributes.find("axes")) {
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(axes)) {
      std::uint64_t length = 1;
      for (const std::int64_t at : *list) length *= at < 0 ? 1 : size_of_axis(type, static_cast<std::size_t>(at));
      return length;
    }
  }
  return rank == 0 ? 1 : size_of_axis(type, rank - 1);
}

/// Lines of the operand of a window operator that one line of its result needs. Channel-last: axis 1 is the height.
std::uint64_t window_lines(const Node& node, const TensorType& in, const TensorType& out) {
  std::uint64_t window = 1;
  if (node.operands.size() > 1 && node.operands[1] != nullptr && node.operands[1]->type.shape.size() >= 4) {
    window = size_of_axis(node.operands[1]->type, 0);
  }
  const auto first = [&](std::string_view name, std::uint64_t otherwise) {
    const Attribute* found = node.attributes.find(name);
    const auto* list = found == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(found);
    return list == nullptr || list->empty() ? otherwise : static_cast<std::uint64_t>(list->front());
  };
  window = (first("filter_size", window) - 1) * first("dilation", 1) + 1;
  const std::uint64_t step = (size_of_axis(in, 1) + size_of_axis(out, 1) - 1) / size_of_axis(out, 1);
  return std::max(window, step);
}

bool is_parameter(const Node& node, std::size_t operand) { return node.operands[operand]->is_constant(); }

std::uint64_t least_of(const Node& node, Tiling tiling) {
  const TensorType& out = node.result()->type;
  const std::size_t rank = out.shape.size();
  const std::uint64_t channels = rank == 0 ? 1 : size_of_axis(out, rank - 1);
  const std::uint64_t images = size_of_axis(out, 0);
  std::uint64_t least = 0;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Value* operand = node.operands[i];
    if (operand == nullptr) continue;
    const TensorType& type = operand->type;
    const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(type.count(), 1));
    const std::size_t last = type.shape.empty() ? 0 : type.shape.size() - 1;
    switch (tiling) {
      case Tiling::kElement:
        least += share(type, size_of_axis(type, last), count);
        break;
      case Tiling::kRow:
        least += is_parameter(node, i) ? stored_bytes(type) : share(type, row_length(node, type), count);
        break;
      case Tiling::kWindow:
        least += is_parameter(node, i)
                     ? share(type, kChannels, channels)
                     : share(type, window_lines(node, type, out), size_of_axis(type, 1) * size_of_axis(type, 0));
        break;
      case Tiling::kProduct:
        // Rows of the first operand, columns of the second; biases are small.
        least += i == 0 ? share(type, kChannels * size_of_axis(type, last), count) : share(type, kChannels, channels);
        break;
      case Tiling::kWhole:
        break;
    }
  }
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(out.count(), 1));
  switch (tiling) {
    case Tiling::kWindow:
      return least + share(out, std::min(kChannels, channels), channels * size_of_axis(out, 1) * images);
    case Tiling::kProduct:
      return least + share(out, kChannels * kChannels, count);
    case Tiling::kRow:
      return least + share(out, row_length(node, out), count);
    default:
      return least + share(out, channels, count);
  }
}

}  // namespace

std::string_view name_of(Tiling tiling) {
  switch (tiling) {
    case Tiling::kElement:
      return "element";
    case Tiling::kRow:
      return "row";
    case Tiling::kWindow:
      return "window";
    case Tiling::kProduct:
      return "product";
    case Tiling::kWhole:
      break;
  }
  return "whole";
}

Tiling tiling_of(std::string_view op) {
  const TilingRow* row = row_of(op);
  return row == nullptr ? Tiling::kWhole : row->tiling;
}

bool has_tiling(std::string_view op) { return row_of(op) != nullptr; }

std::uint64_t least_piece(const Node& node, std::uint64_t whole) {
  const Tiling tiling = tiling_of(node.op->name);
  if (tiling == Tiling::kWhole || node.operands.empty()) return whole;
  return std::min(whole, least_of(node, tiling));
}

}  // namespace htpipe::check
