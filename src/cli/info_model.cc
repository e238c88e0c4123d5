// htpipe info for models: a .pt2 of torch.export or a graph's text form.
#include <fmt/core.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/io.h"
#include "check/findings.h"
#include "cli/import_args.h"
#include "cli/info.h"
#include "cli/table.h"
#include "exec/memory_plan.h"
#include "import/pt2/import.h"
#include "ir/text.h"
#include "passes/driver.h"

namespace htpipe::cli {
namespace {

/// What a .pt2 file says of itself, before it is imported.
void describe_archive(const pt2::Archive& archive, std::uint64_t file_bytes, Answer& answer) {
  const pt2::Program& program = archive.program;
  OpCounts aten;
  for (const pt2::Node& node : program.nodes) ++aten[node.target];
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : archive.weights) {
    elements += tensor.count();
    bytes += tensor.type().size_bytes();
  }
  Json& json = *answer.json;
  json["torch_version"] = program.torch_version;
  json["schema"] = fmt::format("{}.{}", program.schema_major, program.schema_minor);
  json["file_bytes"] = file_bytes;
  json["parameters"] = {{"tensors", archive.weights.size()}, {"elements", elements}, {"bytes", bytes}};
  json["aten_ops"] = counts_json(aten);
  answer.text += fmt::format("PyTorch exported program, {}, torch {}, schema {}.{}\n", human_bytes(file_bytes),
                             program.torch_version, program.schema_major, program.schema_minor);
  answer.text +=
      fmt::format("Parameters: {} in {} tensors, {}\n", grouped(elements), archive.weights.size(), human_bytes(bytes));
  answer.text += fmt::format("ATen operators: {}\n", counts_text(aten));
}

std::int64_t macs_of(const Graph& graph) {
  std::int64_t macs = 0;
  for (const auto& node : graph.nodes()) {
    if (!node->op->macs) continue;
    const NodeTypes types(*node);
    macs += node->op->macs(types.view(), types.results());
  }
  return macs;
}

Json values_json(const std::vector<Value*>& values) {
  Json list = Json::array();
  for (const Value* value : values) {
    list.push_back({{"name", value->name},
                    {"type", to_string(value->type)},
                    {"dtype", name_of(value->type.dtype)},
                    {"shape", value->type.shape}});
  }
  return list;
}

void describe_graph(const Graph& graph, Answer& answer) {
  OpCounts ops;
  for (const auto& node : graph.nodes()) ++ops[std::string(node->op->name)];
  std::uint64_t constant_bytes = 0;
  for (const auto& value : graph.values()) {
    if (value->is_constant()) constant_bytes += value->type.size_bytes();
  }
  const std::int64_t macs = macs_of(graph);
  Json& json = *answer.json;
  json["inputs"] = values_json(graph.inputs());
  json["outputs"] = values_json(graph.outputs());
  json["nodes"] = graph.nodes().size();
  json["ops"] = counts_json(ops);
  json["macs"] = macs;
  json["constant_bytes"] = constant_bytes;
  for (const Value* value : graph.inputs()) {
    answer.text += fmt::format("Input:  %{} {}\n", value->name, to_string(value->type));
  }
  for (const Value* value : graph.outputs()) {
    answer.text += fmt::format("Output: %{} {}\n", value->name, to_string(value->type));
  }
  answer.text += fmt::format("Graph: {} nodes, {} multiply-adds, {} of constants\n", graph.nodes().size(),
                             grouped(macs), human_bytes(constant_bytes));
  answer.text += fmt::format("Operators: {}\n", counts_text(ops));
}

/// What an execution takes besides the weights: the plan of the graph as the float engine runs it.
void describe_memory(const Graph& graph, Answer& answer) {
  Graph executed = graph.clone();
  // A graph that a pass fails on is planned as it is; running it will tell.
  if (!run_passes(executed)) executed = graph.clone();
  const MemoryPlan plan = plan_memory(executed);
  const double ratio =
      plan.live_bytes == 0 ? 1.0 : static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.live_bytes);
  (*answer.json)["memory"] = {{"activation_bytes", plan.arena_bytes},
                              {"lower_bound_bytes", plan.live_bytes},
                              {"ratio", ratio},
                              {"weight_bytes", (*answer.json)["constant_bytes"]}};
  answer.text += fmt::format("Activations: {} in one block, {:.2f} x the lower bound of {}\n",
                             human_bytes(plan.arena_bytes), ratio, human_bytes(plan.live_bytes));
}

void describe_coverage(const Coverage& coverage, Answer& answer, Json& list) {
  answer.text +=
      fmt::format("\n{} in {}: {:.1f} % of {} nodes run on the HTP ({} native, {} rewritten, {} unsupported)\n",
                  coverage.target, name_of(coverage.precision), coverage.percent(), coverage.total(), coverage.native,
                  coverage.rewritten, coverage.unsupported);
  Table table({"node", "operator", "layer", "", "why"});
  for (const NodeVerdict& node : coverage.nodes) {
    if (node.support == Support::kNative) continue;
    table.add({node.node, node.op, node.layer, std::string(name_of(node.support)), node.reason});
  }
  if (!table.empty()) answer.text += table.text("  ");
  list.push_back(to_json(coverage));
}

Status add_coverage(const Graph& graph, const Arguments& arguments, Answer& answer) {
  if (arguments.targets.empty()) return {};
  const auto precision = parse_precision(arguments.precision);
  if (!precision) return fail(Code::kUsage, fmt::format("no precision \"{}\"", arguments.precision));
  std::vector<Target> targets;
  for (const std::string& spelling : arguments.targets) {
    HTPIPE_TRY(Target target, find_target(spelling));
    targets.push_back(std::move(target));
  }
  Graph optimised = graph.clone();
  HTPIPE_CHECK_OK(run_passes(optimised));
  Json list = Json::array();
  for (const Target& target : targets) {
    HTPIPE_TRY(const Coverage coverage, check::coverage_of(graph, optimised, target, *precision));
    describe_coverage(coverage, answer, list);
  }
  (*answer.json)["coverage"] = std::move(list);
  return {};
}

/// Stands in for a constant whose bytes are not in the file: only its type is shown. Absurd sizes are refused.
Tensor unknown_constant(std::string_view /*sha*/, const TensorType& type) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  std::int64_t count = 1;
  for (const std::int64_t size : type.shape) {
    if (size < 1 || size > kLargest / count) return {};
    count *= size;
  }
  return Tensor(type);
}

/// Takes over the graph of a model file, or says in the answer why there is none.
Status take(Result<ImportedModel> imported, bool described, const Arguments& arguments, Answer& answer,
            std::optional<Graph>& graph) {
  // An archive whose graph cannot be imported is still described, unless the graph is what was asked for.
  if (!imported && (!described || arguments.graph || arguments.dependencies || !arguments.targets.empty())) {
    return fail(std::move(imported.error()));
  }
  Json& json = *answer.json;
  json["importable"] = imported.has_value();
  if (!imported) {
    const Error& error = imported.error();
    json["import_error"] = {
        {"code", word(error.code)}, {"message", error.summary()}, {"hint", error.next_step()}, {"notes", error.notes}};
    answer.text += fmt::format("Cannot be imported: {}\n", error.summary());
    answer.text += fmt::format("  next: {}\n", error.next_step());
    return {};
  }
  json["warnings"] = imported->warnings;
  for (const std::string& warning : imported->warnings) answer.text += fmt::format("Warning: {}\n", warning);
  graph = std::move(imported->graph);
  return {};
}

}  // namespace

Result<Answer> info_model(const Arguments& arguments, ModelFormat format) {
  const std::filesystem::path path = arguments.subject;
  const bool is_text = format == ModelFormat::kText;
  HTPIPE_TRY(const ImportOptions options, import_options(arguments));
  Answer answer;
  (*answer.json)["file"] = path.string();
  (*answer.json)["format"] = name_of(format);
  std::optional<Graph> graph;
  std::string text;
  if (is_text) {
    HTPIPE_TRY(text, read_text(path));
    auto parsed = parse_graph(text, unknown_constant);
    if (!parsed) {
      parsed.error().place.file = path.string();
      return fail(std::move(parsed.error()));
    }
    graph = std::move(*parsed);
    answer.text += "Graph text\n";
  } else {
    if (format == ModelFormat::kPt2) {
      HTPIPE_TRY(const auto file, MappedFile::open(path));
      HTPIPE_TRY(const pt2::Archive archive, pt2::read_pt2(file, {true, pt2::dimensions_of(options)}));
      describe_archive(archive, file->bytes().size(), answer);
    } else {
      answer.text += "ONNX model\n";
    }
    HTPIPE_CHECK_OK(take(import_model(path, options), format == ModelFormat::kPt2, arguments, answer, graph));
    if (!graph) return answer;
  }
  if (arguments.graph) {
    // The file itself: its constants are only digests here.
    answer.text = is_text ? text : print(*graph);
    (*answer.json)["graph"] = answer.text;
  } else if (arguments.dependencies) {
    const auto layers = layer_dependencies(*graph);
    answer.text = to_dot(layers, graph->name());
    (*answer.json)["layers"] = to_json(layers);
  } else {
    describe_graph(*graph, answer);
    describe_memory(*graph, answer);
    HTPIPE_CHECK_OK(add_coverage(*graph, arguments, answer));
  }
  answer.brief = answer.text;
  return answer;
}

}  // namespace htpipe::cli
