// One case of tests/conformance: a small graph, the ranges of its inputs and what may differ between engines.
//
//   # case: stride2_pad                    begins a case; the file's stem and this word name it
//   # range: x=-1..1 y=0..3                of values; inputs without one take -1..1, others what calibration sees
//   # engines: int8 int16_v75              prefixes of engine names; without the line, all that fit;
//                                         in front of the first case: of the cases without such a line
//   # bound: int16 steps=1 equal=0.99      what is allowed instead of equality; the reason stands in the documentation
//                                         in front of the first case: of all cases
//   # repeats: 5                           with other ranges, weights and inputs each time; 3 without the line
//   # spread: 1000                         largest ratio between the scales of a weight's channels; 4 without the line
//   # weight_bits: 4                      or 16, of layers with 16-bit activations
//   # weights: per_tensor                 or asymmetric
//   # block: 32                           input channels that share a scale of 4-bit weights
//   # activations: signed
//   # precision: y=int16                   of nodes and inputs that differ from the engine's
//   graph @g(%x: f32[1,8,8,3]) -> (%y) { ... }
//
// A graph whose inputs have an encoding is taken as it stands ("stored"); only its encodings vary between repeats.
// Invariant: the same file gives the same cases, bit for bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "quant/quantize.h"

namespace htpipe::conformance {

/// What two engines may differ by.
struct Bound {
  std::int64_t steps = 0;
  double equal = 1;  ///< least share of equal elements
};

/// Portable random numbers: the standard's distributions differ between libraries, its generators do not.
class Random {
 public:
  explicit Random(std::uint32_t seed) : generator_(seed) {}
  [[nodiscard]] std::uint32_t bits() { return static_cast<std::uint32_t>(generator_()); }
  [[nodiscard]] double uniform(double low, double high) { return low + (high - low) * bits() / 4294967296.0; }

 private:
  std::mt19937 generator_;
};

struct Case {
  std::string name;  ///< file/case
  int repeat = 0;
  Graph graph;
  bool stored = false;
  quant::Ranges ranges;  ///< of inputs, and of further values that the header names
  std::vector<std::string> engines;
  std::map<std::string, Bound> bounds;  ///< by prefix of engine names
  int weight_bits = 8;
  quant::WeightScale weight_scale = quant::WeightScale::kChannel;
  std::int64_t weight_block = 0;
  bool signed_activations = false;
  quant::PrecisionMap precisions;
  std::uint32_t seed = 0;

  [[nodiscard]] std::string label() const { return name + "#" + std::to_string(repeat); }
  [[nodiscard]] bool runs_on(const std::string& engine) const;
  /// The bound of the longest prefix of `engine`.
  [[nodiscard]] Bound bound(const std::string& engine) const;
};

/// tests/conformance/*.htir, sorted.
[[nodiscard]] std::vector<std::filesystem::path> files();
/// All cases of a file with all their repeats. Errors: data-format with the line, those of the graph.
Result<std::vector<Case>> read(const std::filesystem::path& path);

/// Random inputs. Floats lie in the input's range and are binary16 numbers; integers are all codes alike.
[[nodiscard]] std::vector<Tensor> inputs_of(const Graph& graph, const quant::Ranges& ranges, std::uint32_t seed);
/// A range for every value: those of the header, else what the float graph computes from a few inputs, widened or
/// narrowed at random so that some values are clipped.
Result<quant::Ranges> all_ranges(const Case& test);

/// Lines "file/case reason" of tests/conformance/ignore_<engine>.txt. Errors: data-format for a line without a reason.
Result<std::map<std::string, std::string>> ignored(const std::string& engine);

}  // namespace htpipe::conformance
