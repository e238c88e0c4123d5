#include "import/pt2/import.h"

#include <fmt/core.h>

#include <map>
#include <string>

#include "import/pt2/aten_map.h"

namespace htpipe {
namespace pt2 {
namespace {

/// Where the user finds a node: module path and source line.
std::string place_of(const Node& node) {
  std::string text = node.name;
  if (!node.module.empty()) text += fmt::format(" in module {}", node.module);
  if (!node.source_file.empty()) text += fmt::format(" at {}:{}", node.source_file, node.source_line);
  return text;
}

/// All operators without a table entry, in one error.
Status check_operators(const Program& program) {
  std::map<std::string, std::vector<std::string>> unknown;
  for (const Node& node : program.nodes) {
    if (find_mapper(node.target) == nullptr) unknown[node.target].push_back(place_of(node));
  }
  if (unknown.empty()) return {};
  std::string targets;
  std::size_t count = 0;
  for (const auto& [target, places] : unknown) {
    targets += fmt::format("{}{}", targets.empty() ? "" : ", ", target);
    count += places.size();
  }
  Error error(Code::kUnsupportedOp, fmt::format("{} nodes use operators that are not imported: {}", count, targets));
  for (const auto& [target, places] : unknown) {
    for (const std::string& place : places) error.notes.push_back(fmt::format("{}: {}", target, place));
  }
  return fail(std::move(error));
}

/// A model exported in training mode updates its statistics: its graph means something else than inference.
Status check_mode(const Program& program) {
  for (const Node& node : program.nodes) {
    const Argument* training = node.input("training");
    if (training == nullptr || !(*training == Argument(true))) continue;
    return fail(Error(Code::kUnsupportedForm,
                      fmt::format("{} in training mode: call model.eval() before the export", node.target))
                    .at_node(node.name)
                    .with_note(place_of(node)));
  }
  return {};
}

class Importer {
 public:
  Importer(const Archive& archive, std::string name) : archive_(archive), graph_(std::move(name)) {}

  Result<Graph> run() {
    HTPIPE_CHECK_OK(check_mode(archive_.program));
    HTPIPE_CHECK_OK(check_operators(archive_.program));
    HTPIPE_CHECK_OK(add_inputs());
    for (const Node& node : archive_.program.nodes) HTPIPE_CHECK_OK(add(node));
    HTPIPE_CHECK_OK(set_outputs());
    HTPIPE_CHECK_OK(verify(graph_));
    return std::move(graph_);
  }

 private:
  Status add_inputs() {
    for (const InputSpec& spec : archive_.program.input_specs) {
      if (spec.kind == InputKind::kUserInput) {
        const auto meta = archive_.program.tensor_values.find(spec.name);
        if (meta == archive_.program.tensor_values.end()) {
          return fail(Error(Code::kUnsupportedForm, "an input that is no tensor").at_node(spec.name));
        }
        if (meta->second.dtype != DType::kF32) {
          return fail(Error(Code::kUnsupportedForm, fmt::format("an input of type {}: only float32 is imported yet",
                                                                name_of(meta->second.dtype)))
                          .at_node(spec.name));
        }
        values_[spec.name] = graph_.add_input(spec.name, {meta->second.dtype, meta->second.sizes, std::nullopt});
      } else if (const Tensor* data = archive_.data_of(spec)) {
        constants_[spec.name] = {spec.fqn, data};
      }
    }
    return {};
  }

  /// A value by name; weights become constants of the graph when they are first used. Half-precision weights are
  /// widened: the float graph computes in float32.
  Result<Value*> lookup(std::string_view name) {
    if (const auto at = values_.find(name); at != values_.end()) return at->second;
    const auto constant = constants_.find(name);
    if (constant == constants_.end()) return fail(Code::kUnsupportedForm, fmt::format("no value named {}", name));
    const auto& [fqn, data] = constant->second;
    Tensor tensor = *data;
    if (tensor.dtype() == DType::kF16 || tensor.dtype() == DType::kBF16 || tensor.dtype() == DType::kF64) {
      tensor =
          Tensor::from<float>({DType::kF32, tensor.shape(), std::nullopt}, std::span<const float>(to_floats(tensor)));
    }
    Value* value = graph_.add_constant(fqn, std::move(tensor));
    values_.emplace(std::string(name), value);
    return value;
  }

  Status add(const Node& node) {
    const Call::Lookup lookup_value = [this](std::string_view name) { return lookup(name); };
    Call call(node, graph_, lookup_value);
    auto value = find_mapper(node.target)(call);
    if (!value) {
      Error error = std::move(value.error());
      if (error.place.node.empty()) error.place.node = node.name;
      return fail(std::move(error).with_note(fmt::format("{}: {}", node.target, place_of(node))));
    }
    if (*value == nullptr) return {};
    const auto* output = node.outputs.size() == 1 ? std::get_if<TensorName>(&node.outputs.front()) : nullptr;
    if (output == nullptr) {
      return fail(Error(Code::kUnsupportedForm, fmt::format("{} has several results", node.target)).at_node(node.name));
    }
    const auto declared = archive_.program.tensor_values.find(output->name);
    if (declared != archive_.program.tensor_values.end() && declared->second.sizes != (*value)->type.shape) {
      return fail(
          Error(Code::kShapeMismatch, fmt::format("imported as {}, the model declares {}",
                                                  to_string((*value)->type.shape), to_string(declared->second.sizes)))
              .at_node(node.name));
    }
    values_[output->name] = *value;
    return {};
  }

  Status set_outputs() {
    std::vector<Value*> outputs;
    for (const OutputSpec& spec : archive_.program.output_specs) {
      if (spec.kind != OutputKind::kUserOutput) {
        return fail(Error(Code::kUnsupportedForm, "the model changes its own buffers or computes gradients"));
      }
      const auto* name = std::get_if<TensorName>(&spec.value);
      if (name == nullptr) return fail(Error(Code::kUnsupportedForm, "an output that is no tensor"));
      HTPIPE_TRY(Value * value, lookup(name->name));
      outputs.push_back(value);
    }
    graph_.set_outputs(std::move(outputs));
    return {};
  }

  const Archive& archive_;
  Graph graph_;
  std::map<std::string, Value*, std::less<>> values_;
  std::map<std::string, std::pair<std::string, const Tensor*>, std::less<>> constants_;
};

}  // namespace

Result<Graph> import_archive(const Archive& archive, std::string graph_name) {
  auto graph = Importer(archive, std::move(graph_name)).run();
  if (!graph && graph.error().place.file.empty()) graph.error().place.file = archive.file;
  return graph;
}

}  // namespace pt2

Result<Graph> import_pt2(const std::filesystem::path& path) {
  HTPIPE_TRY(const pt2::Archive archive, pt2::read_pt2(path));
  return pt2::import_archive(archive, path.stem().string());
}

}  // namespace htpipe
