// The size of a context binary, estimated without asking the vendor's compiler.
// Invariant: the figures were fitted to what it makes of real models; docs/feasibility.md has the error that is left.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "ir/graph.h"
#include "target/target.h"

namespace htpipe::check {

/// The context of a run of nodes, which may grow at its end and shrink at its begin. A constant that several of its
/// nodes read counts once.
class ContextSize {
 public:
  explicit ContextSize(const Target& target) : htp_version_(target.htp_version) {}
  void add(const Node& node);
  /// A node that was added.
  void remove(const Node& node);
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Held {
    std::int64_t users = 0;
    std::uint64_t bytes = 0;
  };
  int htp_version_;
  std::unordered_map<const Value*, Held> held_;
  std::uint64_t bytes_ = 0;
};

/// Of a whole graph.
[[nodiscard]] std::uint64_t context_bytes(const Graph& graph, const Target& target);

}  // namespace htpipe::check
