#include "check/memory.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace htpipe::check {
namespace {

constexpr double kGrowth = 4;         ///< times what a node reads, or the range of that, is an explosion
constexpr double kNotable = 1.0 / 8;  ///< of the peak: growth of less does not matter
constexpr std::size_t kMostNamed = 20;
// Of a context binary, beside its weights: measured on the models of docs/feasibility.md.
constexpr std::uint64_t kContextBase = 40960;
constexpr std::uint64_t kBytesPerNode = 2048;
constexpr std::uint64_t kDepthwiseCopies = 24;  ///< of depthwise weights before v73

std::uint64_t whole_tiles(std::int64_t channels) { return static_cast<std::uint64_t>((channels + 31) / 32 * 32); }

/// Bytes of an operand in the context: channels of weights fill tiles of 32.
std::uint64_t packed_bytes(const Node& node, std::size_t index, const Target& target) {
  const TensorType& type = node.operands[index]->type;
  const auto& operands = node.op->operands;
  const bool weight = index < operands.size() && operands[index].role == Role::kWeight;
  if (!weight || type.shape.size() < 2) return type.size_bytes();
  const std::int64_t outs = type.shape.back();
  const std::int64_t ins = type.shape[type.shape.size() - 2];
  const auto cells = static_cast<std::uint64_t>(type.count() / std::max<std::int64_t>(outs * ins, 1));
  if (node.is("DepthWiseConv2d")) {
    return cells * whole_tiles(outs) * size_of(type.dtype) * (target.htp_version < 73 ? kDepthwiseCopies : 1);
  }
  return cells * whole_tiles(ins) * whole_tiles(outs) * size_of(type.dtype);
}

/// Tensors of one chain pass through VTCM in tiles, so that about twice its size can be alive before any is written to
/// DDR.
std::uint64_t spill_of(const std::vector<LiveStep>& steps, std::uint64_t vtcm) {
  std::uint64_t most = 0;
  for (const LiveStep& step : steps) most = std::max(most, step.tiled);
  return most > 2 * vtcm ? most - 2 * vtcm : 0;
}

/// Before a conversion stands the user's own node.
Place place_of(const Node& node, const Graph& optimised) {
  const Value* own = optimised.find_value(node.name());
  const Node* named = own != nullptr && own->producer != nullptr ? own->producer : &node;
  return {node.name(), named->layer(), named->source.line};
}

void find_growth(const std::vector<LiveStep>& steps, const Subject& subject, MemoryReport& memory) {
  const auto notable = static_cast<std::uint64_t>(kNotable * static_cast<double>(memory.peak_activation_bytes));
  const bool calibrated = std::any_of(subject.optimised.values().begin(), subject.optimised.values().end(),
                                      [](const auto& value) { return value->type.encoding.has_value(); });
  for (const LiveStep& step : steps) {
    if (step.read > 0 && step.written >= notable) {
      const double factor = static_cast<double>(step.written) / static_cast<double>(step.read);
      if (factor >= kGrowth) {
        memory.growth.push_back({place_of(*step.node, subject.optimised), "size", factor, step.written});
      }
    }
    if (!calibrated || step.node->operands.empty() || step.node->operands[0] == nullptr) continue;  // made-up ranges
    const auto from = reach_of(step.node->operands[0]->type);
    const auto to = reach_of(step.node->result()->type);
    if (from && to && *from > 0 && *to >= 4 * kGrowth * *from) {
      memory.growth.push_back({place_of(*step.node, subject.optimised), "range", *to / *from, step.written});
    }
  }
  std::stable_sort(memory.growth.begin(), memory.growth.end(),
                   [](const Growth& a, const Growth& b) { return a.factor > b.factor; });
  if (memory.growth.size() > kMostNamed) memory.growth.resize(kMostNamed);
}

void find_pressure(const std::vector<LiveStep>& steps, const Subject& subject, MemoryReport& memory) {
  for (const LiveStep& step : steps) {
    if (memory.vtcm_bytes == 0 || step.working_set() <= memory.vtcm_bytes) continue;
    const double share = static_cast<double>(step.working_set()) / static_cast<double>(memory.vtcm_bytes);
    memory.pressure.push_back({place_of(*step.node, subject.optimised), step.read, step.written, step.weights, share});
  }
  std::stable_sort(memory.pressure.begin(), memory.pressure.end(),
                   [](const Pressure& a, const Pressure& b) { return a.share > b.share; });
}

/// What a step adds to its context: constants that no step before it has read.
std::vector<std::uint64_t> fresh_weights(const std::vector<LiveStep>& steps, const Target& target) {
  std::vector<std::uint64_t> bytes;
  std::set<const Value*> seen;
  for (const LiveStep& step : steps) {
    std::uint64_t sum = kBytesPerNode;
    for (std::size_t i = 0; i < step.node->operands.size(); ++i) {
      const Value* operand = step.node->operands[i];
      if (operand == nullptr || !operand->is_constant() || !seen.insert(operand).second) continue;
      sum += packed_bytes(*step.node, i, target);
    }
    bytes.push_back(sum);
  }
  return bytes;
}

/// Values that a later step reads, or that leave the graph, behind each step.
class Crossing {
 public:
  Crossing(const Graph& graph, const std::vector<LiveStep>& steps) {
    std::map<const Node*, std::size_t> at;
    for (std::size_t i = 0; i < steps.size(); ++i) at[steps[i].node] = i;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (const Value* result : steps[i].node->results) {
        std::size_t last = graph.is_output(result) ? steps.size() : i;
        for (const Node* user : result->users) last = std::max(last, at.at(user));
        if (last > i) spans_.push_back({result, i, last});
      }
    }
    bytes_.assign(steps.size() + 1, 0);
    for (const Span& span : spans_) {
      const auto size = static_cast<std::int64_t>(span.value->type.size_bytes());
      bytes_[span.first] += size;
      bytes_[span.last] -= size;
    }
    for (std::size_t i = 1; i < bytes_.size(); ++i) bytes_[i] += bytes_[i - 1];
  }

  /// Bytes that cross behind step `i`.
  [[nodiscard]] std::uint64_t bytes(std::size_t i) const { return static_cast<std::uint64_t>(bytes_[i]); }
  [[nodiscard]] std::vector<std::string> names(std::size_t i) const {
    std::vector<std::string> list;
    for (const Span& span : spans_) {
      if (span.first <= i && i < span.last) list.push_back(span.value->name);
    }
    return list;
  }

 private:
  struct Span {
    const Value* value;
    std::size_t first;
    std::size_t last;
  };

  std::vector<Span> spans_;
  std::vector<std::int64_t> bytes_;
};

/// Fewest pieces of at most `limit` bytes, and of these the ones that the fewest bytes cross. Source: shortest path over
/// the places of the cuts; the window of possible last cuts only moves forward, so each is looked at twice.
std::vector<Piece> split(const Subject& subject, const std::vector<LiveStep>& steps,
                         const std::vector<std::uint64_t>& weights, std::uint64_t limit) {
  const Crossing crossing(subject.assumed, steps);
  struct Best {
    std::uint64_t pieces = 0;
    std::uint64_t cost = 0;
    std::size_t from = 0;
  };
  std::vector<Best> best(steps.size() + 1);  // by number of steps that are in pieces
  std::vector<std::uint64_t> sum(steps.size() + 1, 0);
  for (std::size_t i = 0; i < steps.size(); ++i) sum[i + 1] = sum[i] + weights[i];
  const auto key = [&](std::size_t i) {
    return std::pair(best[i].pieces, best[i].cost + (i == 0 ? 0 : crossing.bytes(i - 1)));
  };
  std::deque<std::size_t> window;
  std::size_t oldest = 0;
  for (std::size_t end = 1; end <= steps.size(); ++end) {
    while (!window.empty() && key(window.back()) >= key(end - 1)) window.pop_back();
    window.push_back(end - 1);
    // A single node above the limit is a piece of its own: nothing smaller can be proposed.
    while (oldest + 1 < end && sum[end] - sum[oldest] > limit) ++oldest;
    while (window.front() < oldest) window.pop_front();
    const auto [pieces, cost] = key(window.front());
    best[end] = {pieces + 1, cost, window.front()};
  }
  std::vector<Piece> list;
  for (std::size_t end = steps.size(); end > 0; end = best[end].from) {
    Piece piece;
    piece.first = place_of(*steps[best[end].from].node, subject.optimised);
    piece.last = place_of(*steps[end - 1].node, subject.optimised);
    piece.context_bytes = sum[end] - sum[best[end].from];
    if (end < steps.size()) {
      piece.cut = crossing.names(end - 1);
      piece.cut_bytes = crossing.bytes(end - 1);
    }
    list.insert(list.begin(), std::move(piece));
  }
  return list;
}

Json to_json(const Place& place) { return {{"node", place.node}, {"layer", place.layer}, {"line", place.line}}; }

Json to_json(const Piece& piece) {
  return {{"first", to_json(piece.first)},
          {"last", to_json(piece.last)},
          {"context_bytes", piece.context_bytes},
          {"cut", piece.cut},
          {"cut_bytes", piece.cut_bytes}};
}

}  // namespace

std::optional<double> reach_of(const TensorType& type) {
  if (!type.encoding || type.encoding->per_channel() || type.encoding->scales.empty()) return std::nullopt;
  const double scale = static_cast<double>(type.encoding->scale());
  const double zero = type.encoding->zero_point();
  const bool is_signed = type.dtype == DType::kI8 || type.dtype == DType::kI16;
  const double steps = std::ldexp(1.0, type.encoding->bits);
  const double low = is_signed ? -steps / 2 : 0;
  return scale * std::max(std::abs(low - zero), std::abs(low + steps - 1 - zero));
}

MemoryReport estimate_memory(const Subject& subject, std::uint64_t largest_context) {
  MemoryReport memory;
  for (const auto& value : subject.assumed.values()) {
    if (!value->is_constant()) continue;
    memory.weight_bytes += value->type.size_bytes();
    memory.weight_bytes_of[std::string(name_of(value->type.dtype))] += value->type.size_bytes();
  }
  const std::vector<LiveStep> steps = live_sets(subject.assumed);
  const auto peak = std::max_element(steps.begin(), steps.end(),
                                     [](const LiveStep& a, const LiveStep& b) { return a.live < b.live; });
  if (peak == steps.end()) return memory;
  memory.peak_activation_bytes = peak->live;
  memory.peak = place_of(*peak->node, subject.optimised);
  memory.vtcm_bytes = static_cast<std::uint64_t>(subject.target.vtcm_mb) << 20;
  memory.spill_bytes = spill_of(steps, memory.vtcm_bytes);
  find_pressure(steps, subject, memory);
  find_growth(steps, subject, memory);
  const std::vector<std::uint64_t> weights = fresh_weights(steps, subject.target);
  memory.context_bytes = std::accumulate(weights.begin(), weights.end(), kContextBase);
  if (memory.context_bytes > largest_context) {
    memory.pieces = split(subject, steps, weights, largest_context - kContextBase);
  }
  return memory;
}

Json to_json(const MemoryReport& memory) {
  Json json = {{"weight_bytes", memory.weight_bytes},
               {"weight_bytes_of", memory.weight_bytes_of},
               {"context_bytes", memory.context_bytes},
               {"peak_activation_bytes", memory.peak_activation_bytes},
               {"peak", to_json(memory.peak)},
               {"vtcm_bytes", memory.vtcm_bytes},
               {"spill_bytes", memory.spill_bytes},
               {"pressure", Json::array()},
               {"growth", Json::array()},
               {"pieces", Json::array()}};
  for (const Pressure& one : memory.pressure) {
    Json row = to_json(one.place);
    row.update({{"read", one.read}, {"written", one.written}, {"weights", one.weights}, {"share", one.share}});
    json["pressure"].push_back(std::move(row));
  }
  for (const Growth& one : memory.growth) {
    Json row = to_json(one.place);
    row.update({{"what", one.what}, {"factor", one.factor}, {"written", one.written}});
    json["growth"].push_back(std::move(row));
  }
  for (const Piece& piece : memory.pieces) json["pieces"].push_back(to_json(piece));
  return json;
}

}  // namespace htpipe::check
