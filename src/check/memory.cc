#include "check/memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "check/context_size.h"
#include "ir/encodings.h"

namespace htpipe::check {
namespace {

constexpr double kGrowth = 4;         ///< times what a node reads, or the range of that, is an explosion
constexpr double kNotable = 1.0 / 8;  ///< of the peak: growth of less does not matter
constexpr std::size_t kMostNamed = 20;
/// Tensors of one chain pass through VTCM in tiles, so that about twice its size can be alive before any is written to
/// DDR. What is written then is what does not fit, at least a quarter of the tiles.
std::uint64_t spill_of(const std::vector<LiveStep>& steps, std::uint64_t vtcm) {
  std::uint64_t tiled = 0;
  std::uint64_t live = 0;
  for (const LiveStep& step : steps) {
    tiled = std::max(tiled, step.tiled);
    live = std::max(live, step.live);
  }
  if (tiled <= 2 * vtcm) return 0;
  return std::max(live > vtcm ? live - vtcm : 0, tiled / 4);
}

/// "i8", "i8 of 4 bits".
std::string storage_word(const TensorType& type) {
  std::string word(name_of(type.dtype));
  if (type.encoding && type.encoding->bits < 8) word += fmt::format(" of {} bits", type.encoding->bits);
  return word;
}

/// Before a conversion stands the user's own node.
Place place_of(const Node& node, const Graph& optimised) {
  const Value* own = optimised.find_value(node.name());
  const Node* named = own != nullptr && own->producer != nullptr ? own->producer : &node;
  return {node.name(), named->layer(), named->source.line};
}

/// Stretches of nodes with much more alive than usual, each named where most is.
void find_live_growth(const std::vector<LiveStep>& steps, std::uint64_t notable, const Subject& subject,
                      MemoryReport& memory) {
  std::vector<std::uint64_t> sorted;
  for (const LiveStep& step : steps) sorted.push_back(step.live);
  if (sorted.empty()) return;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const auto usual = static_cast<double>(*middle);
  const LiveStep* most = nullptr;  // of the current stretch
  const auto end_stretch = [&] {
    if (most == nullptr) return;
    const double factor = static_cast<double>(most->live) / usual;
    memory.growth.push_back({place_of(*most->node, subject.optimised), "live set", factor, most->live});
    most = nullptr;
  };
  for (const LiveStep& step : steps) {
    if (usual <= 0 || step.live < notable || static_cast<double>(step.live) < kGrowth * usual) {
      end_stretch();
    } else if (most == nullptr || step.live > most->live) {
      most = &step;
    }
  }
  end_stretch();
}

void find_growth(const std::vector<LiveStep>& steps, const Subject& subject, MemoryReport& memory) {
  const auto notable = static_cast<std::uint64_t>(kNotable * static_cast<double>(memory.peak_activation_bytes));
  const bool calibrated = has_encodings(subject.optimised);
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
  find_live_growth(steps, notable, subject, memory);
  std::stable_sort(memory.growth.begin(), memory.growth.end(),
                   [](const Growth& a, const Growth& b) { return a.factor > b.factor; });
  if (memory.growth.size() > kMostNamed) memory.growth.resize(kMostNamed);
}

void find_pressure(const std::vector<LiveStep>& steps, const Subject& subject, MemoryReport& memory) {
  for (const LiveStep& step : steps) {
    if (memory.vtcm_bytes == 0 || step.working_set() <= memory.vtcm_bytes) continue;
    const double share = static_cast<double>(step.working_set()) / static_cast<double>(memory.vtcm_bytes);
    memory.pressure.push_back({place_of(*step.node, subject.optimised), step.read, step.written, step.weights, share,
                               tiling_of(step.node->op->name), least_piece(*step.node, step.working_set())});
  }
  std::stable_sort(memory.pressure.begin(), memory.pressure.end(),
                   [](const Pressure& a, const Pressure& b) { return a.share > b.share; });
}

/// Values that a later step reads, behind each step.
class Crossing {
 public:
  explicit Crossing(const std::vector<LiveStep>& steps) {
    std::map<const Node*, std::size_t> at;
    for (std::size_t i = 0; i < steps.size(); ++i) at[steps[i].node] = i;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (const Value* result : steps[i].node->results) {
        std::size_t last = i;
        for (const Node* user : result->users) last = std::max(last, at.at(user));
        if (last > i) spans_.push_back({result, i, last});
      }
    }
    bytes_.assign(steps.size() + 1, 0);
    for (const Span& span : spans_) {
      const auto size = static_cast<std::int64_t>(stored_bytes(span.value->type));
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
std::vector<Piece> split(const Subject& subject, const std::vector<LiveStep>& steps, std::uint64_t limit) {
  const Crossing crossing(steps);
  struct Best {
    std::uint64_t pieces = 0;
    std::uint64_t cost = 0;
    std::size_t from = 0;
  };
  std::vector<Best> best(steps.size() + 1);  // by number of steps that are in pieces
  const auto key = [&](std::size_t i) {
    return std::pair(best[i].pieces, best[i].cost + (i == 0 ? 0 : crossing.bytes(i - 1)));
  };
  std::deque<std::size_t> window;
  std::size_t oldest = 0;
  ContextSize size(subject.target);  // of the steps from `oldest` to `end`
  for (std::size_t end = 1; end <= steps.size(); ++end) {
    while (!window.empty() && key(window.back()) >= key(end - 1)) window.pop_back();
    window.push_back(end - 1);
    // A single node above the limit is a piece of its own: nothing smaller can be proposed.
    size.add(*steps[end - 1].node);
    while (oldest + 1 < end && size.bytes() > limit) size.remove(*steps[oldest++].node);
    while (window.front() < oldest) window.pop_front();
    const auto [pieces, cost] = key(window.front());
    best[end] = {pieces + 1, cost, window.front()};
  }
  std::vector<Piece> list;
  for (std::size_t end = steps.size(); end > 0; end = best[end].from) {
    Piece piece;
    piece.first = place_of(*steps[best[end].from].node, subject.optimised);
    piece.last = place_of(*steps[end - 1].node, subject.optimised);
    ContextSize own(subject.target);
    for (std::size_t i = best[end].from; i < end; ++i) own.add(*steps[i].node);
    piece.context_bytes = own.bytes();
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
    const std::uint64_t bytes = stored_bytes(value->type);
    memory.weight_bytes += bytes;
    memory.weight_bytes_of[storage_word(value->type)] += bytes;
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
  memory.context_bytes = context_bytes(subject.assumed, subject.target);
  if (memory.context_bytes > largest_context) memory.pieces = split(subject, steps, largest_context);
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
    row.update({{"read", one.read},
                {"written", one.written},
                {"weights", one.weights},
                {"share", one.share},
                {"tiling", name_of(one.tiling)},
                {"least", one.least}});
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
