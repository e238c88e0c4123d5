#include "pipeline/engine.h"
#include "ir/encodings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "passes/driver.h"
#include "quant/from_qdq.h"
#include "quant/quantize.h"

namespace htpipe {
namespace {

constexpr std::array<std::pair<Engine, std::string_view>, 4> kNames = {
    {{Engine::kFloat, "float"}, {Engine::kFp16, "fp16"}, {Engine::kFixed, "fixed"}, {Engine::kHtp, "htp"}}};

using Notes = std::vector<std::string>;

/// True when the graph computes in float16: it was converted already.
bool is_half(const Graph& graph) {
  const auto& nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const auto& node) { return node->result()->type.dtype == DType::kF16; }) &&
         std::none_of(nodes.begin(), nodes.end(),
                      [](const auto& node) { return node->result()->type.dtype == DType::kF32; });
}

Result<Notes> to_half(Graph& graph) {
  if (is_half(graph)) return Notes{};
  HTPIPE_CHECK_OK(run_passes(graph));
  quant::QuantizeOptions options;
  options.default_precision = Precision::kFp16;
  HTPIPE_TRY(graph, quant::quantize(graph, {}, options));
  return Notes{};
}

Result<Notes> to_integers(Graph& graph) {
  if (!quant::is_qdq(graph)) return Notes{};
  HTPIPE_TRY(quant::StoredGraph stored, quant::from_qdq(std::move(graph)));
  graph = std::move(stored.graph);
  Notes notes;
  for (const std::string& kept : stored.kept) notes.push_back("stays in float: " + kept);
  return notes;
}

Error in_integers(std::string_view engine) {
  return Error(Code::kUnsupportedForm, fmt::format("the model is quantised, the engine {} takes real numbers", engine))
      .with_hint("Run it with --engine fixed or htp.");
}

}  // namespace

std::string_view name_of(Engine engine) {
  for (const auto& [value, name] : kNames) {
    if (value == engine) return name;
  }
  return "?";
}

std::optional<Engine> parse_engine(std::string_view name) {
  for (const auto& [value, text] : kNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

Result<std::vector<std::string>> prepare_for(Graph& graph, Engine engine, const Target* target, bool optimise) {
  const bool quantised = has_encodings(graph);
  if (target == nullptr && (engine == Engine::kFixed || engine == Engine::kHtp)) {
    return fail(Error(Code::kUsage, fmt::format("the engine {} needs to know the chip", name_of(engine)))
                    .with_hint("Give --target; htpipe targets lists them."));
  }
  switch (engine) {
    case Engine::kFloat:
      if (quantised && !quant::is_qdq(graph)) return fail(in_integers("float"));
      // In QDQ form the pairs are kept as they are: float32 with every value rounded as it will be stored.
      if (optimise && !quantised) HTPIPE_CHECK_OK(run_passes(graph));
      return Notes{};
    case Engine::kFp16:
      if (quantised) return fail(in_integers("fp16"));
      return to_half(graph);
    case Engine::kFixed:
      if (!quantised) {
        return fail(Error(Code::kNoEncoding, "the model is in float: nobody says how its values are stored")
                        .with_hint("Quantise it with htpipe run and give the model.dlc, or give an ONNX model with "
                                   "QuantizeLinear nodes; --engine fp16 needs neither."));
      }
      return to_integers(graph);
    case Engine::kHtp:
      if (quantised) return to_integers(graph);
      if (!target->supports_fp16) {
        return fail(Error(Code::kTargetUnsupported, "the model is in float, and the chip computes in integers only")
                        .for_target(target->id)
                        .with_hint("Quantise it with htpipe run and give the model.dlc."));
      }
      return to_half(graph);
  }
  return fail(Code::kBug, "an engine without a form");
}

}  // namespace htpipe
