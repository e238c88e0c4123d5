// What the rules of advice are written with.
// Invariant: a rule fires by what a graph is, never by what its nodes are called.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/advice.h"
#include "check/memory.h"
#include "check/subject.h"

namespace htpipe::check {

class Adviser {
 public:
  Adviser(const Subject& subject, const MemoryReport& memory);

  const Subject& subject;
  const MemoryReport& memory;
  /// Whether the optimised graph carries encodings of a calibration; those of the assumed graph are made up otherwise.
  bool calibrated = false;

  /// Adds what rule `id` of the table says, at `node` (null = the whole graph). `detail` is what was found here.
  void add(std::string_view id, const Node* node, std::string detail, std::optional<Gain> gain = std::nullopt);

  /// Multiply-adds of a node.
  [[nodiscard]] static std::int64_t macs_of(const Node& node);
  /// Whether so many multiply-adds of one node are a share that is worth words.
  [[nodiscard]] bool is_heavy(std::int64_t macs) const { return macs > 0 && macs * 100 >= macs_; }

  [[nodiscard]] std::vector<Advice> take();

 private:
  std::int64_t macs_ = 0;
  std::vector<Advice> list_;
};

/// Bytes of `value` as the chip would store it.
[[nodiscard]] std::uint64_t stored_bytes_of(const Value& value, const Subject& subject);

void advise_convolutions(Adviser& adviser);
void advise_operators(Adviser& adviser);
void advise_types(Adviser& adviser);
void advise_interface(Adviser& adviser);
void advise_memory(Adviser& adviser);

}  // namespace htpipe::check
