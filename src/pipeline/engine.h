// The engines that a model can be executed on, and what a graph has to become for each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "target/target.h"

namespace htpipe {

enum class Engine : std::uint8_t {
  kFloat,  ///< the reference: real numbers in float32
  kFp16,   ///< every result rounded to float16 as the chip rounds it
  kFixed,  ///< stored integers with the chip's arithmetic
  kHtp,    ///< Qualcomm's emulator of the chip
};

/// "float", "fp16", "fixed", "htp".
[[nodiscard]] std::string_view name_of(Engine engine);
[[nodiscard]] std::optional<Engine> parse_engine(std::string_view name);

/// True when any value of the graph has an encoding.
[[nodiscard]] bool has_encodings(const Graph& graph);

/// Rewrites an imported graph into what `engine` executes; returns notes for people. `target` may be null where the
/// chip makes no difference. With `optimise` off a float graph stays as it was imported.
/// Errors: no-encoding (an engine for integers, and a model in float), unsupported-form (an engine for real numbers, and
/// a model in integers), target-unsupported (float16 on a chip without it), usage (no target), those of the passes.
Result<std::vector<std::string>> prepare_for(Graph& graph, Engine engine, const Target* target, bool optimise = true);

}  // namespace htpipe
