#include "import/pt2/import.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>

#include "import/pt2/aten_map.h"
#include "import/pt2/memory.h"

namespace htpipe {
namespace pt2 {
namespace {

constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";

/// Where the user finds a node: module path and source line.
std::string place_of(const FallbackCandidate& node) {
  std::string text = node.node;
  if (!node.module.empty()) text += fmt::format(" in module {}", node.module);
  if (!node.file.empty()) text += fmt::format(" at {}:{}", node.file, node.line);
  return text;
}

/// Operators that run their graph as it stands here: gradient and autocast modes, checkpoints.
bool is_inlined(std::string_view target) {
  static constexpr std::array<std::string_view, 7> kNames = {"wrap_with_set_grad_enabled",
                                                             "wrap_with_autocast",
                                                             "wrap_activation_checkpoint",
                                                             "tag_activation_checkpoint",
                                                             "wrap",
                                                             "invoke_subgraph",
                                                             "strict_mode"};
  if (!target.starts_with(kHigherOrder)) return false;
  target.remove_prefix(kHigherOrder.size());
  return std::find(kNames.begin(), kNames.end(), target) != kNames.end();
}

/// Operators on sizes: their results are in the program as numbers already. Checks of the exporter have no result.
bool is_about_numbers(const Node& node) {
  static constexpr std::array<std::string_view, 10> kPrefixes = {"_operator.",
                                                                 "torch.sym_",
                                                                 "math.",
                                                                 "torch.ops.aten.sym_",
                                                                 "torch.ops.aten._assert_",
                                                                 "torch.ops.aten.sym_constrain_range",
                                                                 "torch.ops.aten._check",
                                                                 "torch.ops.aten.item",
                                                                 "torch.ops.aten._local_scalar_dense",
                                                                 "torch._check"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&node](std::string_view prefix) { return node.target.starts_with(prefix); });
}

/// All names of tensors that a node makes, in order.
std::vector<std::string> result_names(const Node& node) {
  std::vector<std::string> names;
  for (const Argument& output : node.outputs) {
    if (const auto* one = std::get_if<TensorName>(&output)) names.push_back(one->name);
    if (const auto* list = std::get_if<TensorNames>(&output)) {
      names.insert(names.end(), list->names.begin(), list->names.end());
    }
    if (std::holds_alternative<std::monostate>(output)) names.emplace_back();
  }
  return names;
}

/// The tensors of one graph by name. Graphs inside of it have their own.
struct Scope {
  const Body& body;
  std::map<std::string, Slot*, std::less<>> slots;
  std::map<std::string, std::string, std::less<>> broken;  ///< name -> why it has no value
};

class Importer {
 public:
  Importer(const Archive& archive, std::string name, const ImportOptions& options)
      : archive_(archive), options_(options), graph_(std::move(name)) {}

  Result<Imported> run(std::vector<FallbackCandidate>* candidates) {
    Scope scope{archive_.program, {}, {}};
    HTPIPE_CHECK_OK(add_inputs(scope));
    HTPIPE_CHECK_OK(add_body(scope));
    if (candidates != nullptr) *candidates = candidates_;
    if (!candidates_.empty()) return fail(error_of_candidates());
    HTPIPE_CHECK_OK(set_outputs(scope));
    remove_unused_constants(graph_);
    HTPIPE_CHECK_OK(verify(graph_));
    return Imported{std::move(graph_), std::move(warnings_)};
  }

 private:
  Error error_of_candidates() const {
    std::map<std::string, std::size_t> targets;
    bool unknown = false;
    for (const FallbackCandidate& candidate : candidates_) {
      ++targets[candidate.target];
      unknown = unknown || candidate.code == Code::kUnsupportedOp;
    }
    std::string list;
    for (const auto& [target, count] : targets) list += fmt::format("{}{}", list.empty() ? "" : ", ", target);
    const FallbackCandidate& first = candidates_.front();
    Error error = candidates_.size() == 1
                      ? Error(first.code, fmt::format("{}: {}", first.target, first.reason)).at_node(first.node)
                      : Error(unknown ? Code::kUnsupportedOp : first.code,
                              fmt::format("{} nodes cannot be imported: {}", candidates_.size(), list));
    error.hint = hint_;
    for (const FallbackCandidate& candidate : candidates_) {
      error.notes.push_back(
          fmt::format("fallback candidate: {}: {}: {}", candidate.target, place_of(candidate), candidate.reason));
    }
    return error;
  }

  void add_candidate(const Node& node, Code code, std::string reason, std::string hint = {}) {
    candidates_.push_back(
        {node.name, node.target, node.module, node.source_file, node.source_line, code, std::move(reason)});
    if (hint_.empty()) hint_ = std::move(hint);
  }

  Status add_inputs(Scope& scope) {
    for (const InputSpec& spec : archive_.program.input_specs) {
      if (spec.kind == InputKind::kConstant) {
        // None and defaults are of no interest.
        if (!spec.name.empty() && !std::holds_alternative<std::monostate>(spec.value)) {
          warnings_.push_back(fmt::format("input {} is a number or text that the export has fixed", spec.name));
        }
        continue;
      }
      const auto meta = archive_.program.tensor_values.find(spec.name);
      if (spec.kind == InputKind::kUserInput) {
        if (meta == archive_.program.tensor_values.end() || !meta->second.problem.empty()) {
          const std::string why = meta == archive_.program.tensor_values.end() ? "is no tensor" : meta->second.problem;
          return fail(Error(Code::kUnsupportedForm, fmt::format("an input that cannot be imported: {}", why))
                          .at_node(spec.name));
        }
        const DType dtype = meta->second.dtype;
        if (const auto fixed = options_.fix.find(spec.name); fixed != options_.fix.end()) {
          HTPIPE_TRY(Value * constant, fixed_input(spec.name, meta->second, fixed->second));
          scope.slots[spec.name] = memory_.add(constant, meta->second, "input " + spec.name);
          continue;
        }
        Value* value = graph_.add_input(spec.name, {dtype, meta->second.sizes, std::nullopt});
        if (internal(dtype) != dtype) {
          const std::string to(name_of(internal(dtype)));
          HTPIPE_TRY(const htpipe::Node* cast,
                     graph_.add_node("Cast", fmt::format("{}_{}", spec.name, to), {{"to", to}}, {value}));
          value = cast->result();
        }
        scope.slots[spec.name] = memory_.add(value, meta->second, "input " + spec.name);
      } else if (const Tensor* data = archive_.data_of(spec)) {
        if (meta == archive_.program.tensor_values.end() || !meta->second.problem.empty()) {
          scope.broken[spec.name] = meta == archive_.program.tensor_values.end() ? "no type" : meta->second.problem;
          continue;
        }
        // The value comes when it is first used.
        Slot* slot = memory_.add(nullptr, meta->second,
                                 (spec.kind == InputKind::kParameter ? "parameter " : "buffer ") + spec.fqn);
        weights_[slot] = {spec.fqn, data};
        scope.slots[spec.name] = slot;
      } else {
        scope.broken[spec.name] = "a Python object";
      }
    }
    return {};
  }

  /// An input that the caller gives a value once and for all.
  Result<Value*> fixed_input(const std::string& name, const TensorMeta& meta, const Tensor& tensor) {
    if (tensor.shape() != meta.sizes || tensor.dtype() != meta.dtype) {
      return fail(Error(Code::kShapeMismatch,
                        fmt::format("the value for the input is {}, the model takes {}", to_string(tensor.type()),
                                    to_string(TensorType{meta.dtype, meta.sizes, {}})))
                      .at_node(name));
    }
    return graph_.add_constant(name, computed(tensor));
  }

  /// In the type in which the float graph computes.
  static Tensor computed(const Tensor& tensor) {
    if (internal(tensor.dtype()) == tensor.dtype()) return tensor;
    return Tensor::from<float>({DType::kF32, tensor.shape(), std::nullopt}, std::span<const float>(to_floats(tensor)));
  }

  /// A weight becomes a constant of the graph when it is first used, under the first of its names. Other float types
  /// are brought to float32, in which the float graph computes.
  Value* weight(Slot* slot) {
    const auto& [fqn, data] = weights_.at(slot);
    const auto key = std::make_tuple(data->bytes().data(), data->dtype(), data->shape());
    if (data->count() > 0) {
      if (const auto known = shared_.find(key); known != shared_.end()) return known->second;
    }
    Value* value = graph_.add_constant(fqn, computed(*data));
    if (data->count() > 0) shared_[key] = value;
    return value;
  }

  Result<Value*> read(Scope& scope, std::string_view name, Call& call) {
    const auto at = scope.slots.find(name);
    if (at == scope.slots.end()) {
      const auto why = scope.broken.find(name);
      return fail(Code::kUnsupportedForm, why == scope.broken.end() ? fmt::format("no value named {}", name)
                                                                    : fmt::format("takes {}: {}", name, why->second));
    }
    if (at->second->value == nullptr) at->second->value = weight(at->second);
    return Memory::read(at->second, call);
  }

  /// A model that was exported in training mode updates its statistics: its graph means something else than inference.
  static Status check_mode(const Node& node) {
    const Argument* training = node.input("training");
    const Argument* statistics = node.input("running_mean");
    if (training == nullptr || statistics == nullptr || !(*training == Argument(true)) ||
        std::holds_alternative<std::monostate>(*statistics)) {
      return {};
    }
    return fail(Error(Code::kUnsupportedForm,
                      fmt::format("{} in training mode: call model.eval() before the export", node.target))
                    .at_node(node.name));
  }

  Status add_body(Scope& scope) {
    for (const Node& node : scope.body.nodes) {
      HTPIPE_CHECK_OK(check_mode(node));
      const std::size_t before = candidates_.size();
      const Status status = is_inlined(node.target) ? add_graph(scope, node) : add_node(scope, node);
      if (!status) {
        const Error& error = status.error();
        std::string reason = error.message;
        for (const std::string& note : error.notes) reason += fmt::format(" ({})", note);
        add_candidate(node, error.code, std::move(reason), error.hint);
      }
      if (candidates_.size() > before) stand_in(scope, node);
    }
    return {};
  }

  /// Values for the results of a node that cannot be imported, so that the nodes behind it are looked at too. The graph is
  /// thrown away at the end.
  void stand_in(Scope& scope, const Node& node) {
    for (const std::string& name : result_names(node)) {
      if (name.empty() || scope.slots.contains(name)) continue;
      const auto meta = scope.body.tensor_values.find(name);
      if (meta == scope.body.tensor_values.end()) continue;
      if (!meta->second.problem.empty()) {
        scope.broken[name] = meta->second.problem;
        continue;
      }
      Value* value =
          graph_.add_input(graph_.unique_name(name), {internal(meta->second.dtype), meta->second.sizes, std::nullopt});
      scope.slots[name] = memory_.add(value, meta->second);
    }
  }

  /// A higher-order operator that runs its graph: its nodes become part of the outer graph.
  Status add_graph(Scope& scope, const Node& node) {
    const Body* body = nullptr;
    std::vector<const Argument*> arguments;
    for (const NamedArgument& input : node.inputs) {
      if (const auto* graph = std::get_if<Subgraph>(&input.value)) {
        if (body == nullptr) body = graph->get();
      } else if (body != nullptr) {
        arguments.push_back(&input.value);
      }
    }
    if (body == nullptr) return fail(Code::kUnsupportedOp, "a higher-order operator without a graph");
    Scope inner{*body, {}, {}};
    // invoke_subgraph has an identifier in front of its operands.
    if (arguments.size() == body->inputs.size() + 1 && std::holds_alternative<std::string>(*arguments.front())) {
      arguments.erase(arguments.begin());
    }
    if (arguments.size() != body->inputs.size()) return fail(Code::kUnsupportedForm, "operands and graph differ");
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto* from = std::get_if<TensorName>(arguments[i]);
      const auto* to = std::get_if<TensorName>(&body->inputs[i]);
      if (from == nullptr || to == nullptr) continue;
      if (const auto slot = scope.slots.find(from->name); slot != scope.slots.end()) {
        inner.slots[to->name] = slot->second;
      } else {
        const auto why = scope.broken.find(from->name);
        inner.broken[to->name] = why == scope.broken.end() ? "no value" : why->second;
      }
    }
    HTPIPE_CHECK_OK(add_body(inner));
    const std::vector<std::string> names = result_names(node);
    if (names.size() > body->outputs.size()) return fail(Code::kUnsupportedForm, "results and graph differ");
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto* from = std::get_if<TensorName>(&body->outputs[i]);
      if (from == nullptr || names[i].empty()) continue;
      if (const auto slot = inner.slots.find(from->name); slot != inner.slots.end()) {
        scope.slots[names[i]] = slot->second;
      } else {
        scope.broken[names[i]] = "it could not be imported";
      }
    }
    return {};
  }

  Status add_node(Scope& scope, const Node& node) {
    const std::vector<std::string> names = result_names(node);
    if (names.empty() && is_about_numbers(node)) {
      for (const Argument& output : node.outputs) {
        if (const auto* problem = std::get_if<Unsupported>(&output)) {
          return fail(Code::kUnsupportedForm, "its result is " + problem->kind);
        }
      }
      return {};
    }
    const Mapper* mapper = find_mapper(node.target);
    if (mapper == nullptr) return fail(Code::kUnsupportedOp, "not imported");
    for (const std::string& name : names) {
      const auto meta = scope.body.tensor_values.find(name);
      if (meta != scope.body.tensor_values.end() && !meta->second.problem.empty()) {
        return fail(Code::kUnsupportedForm, meta->second.problem);
      }
    }
    Call* current = nullptr;
    const Call::Lookup lookup = [&](std::string_view name) { return read(scope, name, *current); };
    Call call(node, scope.body, graph_, lookup, mapper->argument, &warnings_);
    current = &call;
    Values results;
    if (mapper->one != nullptr) {
      HTPIPE_TRY(Value * value, mapper->one(call));
      if (value != nullptr) results = {value};
    } else {
      HTPIPE_TRY(results, mapper->many(call));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty()) continue;
      Value* value = i < results.size() ? results[i] : nullptr;
      HTPIPE_CHECK_OK(bind(scope, node, names[i], value, call));
    }
    return {};
  }

  /// Gives a result its name. Its type must be the declared one.
  Status bind(Scope& scope, const Node& node, const std::string& name, Value* value, Call& call) {
    const auto meta = scope.body.tensor_values.find(name);
    if (value == nullptr) {
      if (meta != scope.body.tensor_values.end()) scope.broken[name] = "this result is not imported";
      return {};
    }
    if (meta == scope.body.tensor_values.end()) return {};  // nobody uses it
    const TensorMeta& declared = meta->second;
    if (declared.sizes != value->type.shape) {
      return fail(Code::kShapeMismatch, fmt::format("imported as {}, the model declares {}",
                                                    to_string(value->type.shape), to_string(declared.sizes)));
    }
    HTPIPE_TRY(value, call.cast(value, internal(declared.dtype), "typed"));
    Slot* first = nullptr;
    if (!node.inputs.empty()) {
      if (const auto* tensor = std::get_if<TensorName>(&node.inputs.front().value)) {
        const auto at = scope.slots.find(tensor->name);
        if (at != scope.slots.end()) first = at->second;
      }
    }
    if (first != nullptr && is_in_place(node.target)) {
      if (first->meta.sizes != declared.sizes) {
        return fail(Code::kUnsupportedForm, "an operator that changes the shape of a tensor in place");
      }
      if (value != first->value) HTPIPE_CHECK_OK(Memory::write(first, value));
      scope.slots[name] = first;
      return {};
    }
    const Sharing sharing = first != nullptr ? sharing_of(node.target) : Sharing::kNone;
    scope.slots[name] = sharing == Sharing::kNone
                            ? memory_.add(value, declared)
                            : memory_.add_view(value, declared, first, sharing == Sharing::kMaybe);
    return {};
  }

  Status set_outputs(Scope& scope) {
    Values outputs;
    const Node end{"output", "output", {}, {}, "", "", 0};
    const Call::Lookup none = [](std::string_view) -> Result<Value*> { return nullptr; };
    Call call(end, scope.body, graph_, none, {}, &warnings_);
    for (const OutputSpec& spec : archive_.program.output_specs) {
      if (spec.kind == OutputKind::kToken) continue;
      if (spec.kind != OutputKind::kUserOutput) {
        return fail(Error(Code::kUnsupportedForm,
                          fmt::format("the model changes its own buffers, its inputs, or computes gradients ({})",
                                      spec.changes))
                        .with_hint("Return the new contents as an output instead, and give the old ones as an input."));
      }
      const auto* name = std::get_if<TensorName>(&spec.value);
      if (name == nullptr) {
        if (!std::holds_alternative<std::monostate>(spec.value)) {
          warnings_.push_back(fmt::format("the output behind {} others is no tensor and is left out", outputs.size()));
        }
        continue;
      }
      HTPIPE_TRY(Value * value, read(scope, name->name, call));
      const DType dtype = scope.slots.find(name->name)->second->meta.dtype;
      if (dtype != value->type.dtype) {
        const std::string to(name_of(dtype));
        HTPIPE_TRY(const htpipe::Node* cast,
                   graph_.add_node("Cast", fmt::format("{}_{}", name->name, to), {{"to", to}}, {value}));
        value = cast->result();
      }
      outputs.push_back(value);
    }
    if (outputs.empty()) return fail(Code::kUnsupportedForm, "the model has no output that is a tensor");
    // One value is one output; an input that is handed back is copied.
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      Value* value = outputs[i];
      const bool twice = std::find(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), value) !=
                         outputs.begin() + static_cast<std::ptrdiff_t>(i);
      const bool input = value->producer == nullptr;
      if (!twice && !input) continue;
      HTPIPE_TRY(const htpipe::Node* copy,
                 graph_.add_node("Reshape", value->name + "_out", {{"shape", value->type.shape}}, {value}));
      outputs[i] = copy->result();
    }
    graph_.set_outputs(std::move(outputs));
    return {};
  }

  const Archive& archive_;
  const ImportOptions& options_;
  Graph graph_;
  std::vector<std::string> warnings_;
  Memory memory_;
  std::map<const Slot*, std::pair<std::string, const Tensor*>> weights_;
  std::map<std::tuple<const std::byte*, DType, Shape>, Value*> shared_;
  std::vector<FallbackCandidate> candidates_;
  std::string hint_;
};

}  // namespace

Dimensions dimensions_of(const ImportOptions& options) {
  Dimensions dimensions(options.dims.begin(), options.dims.end());
  for (const auto& [input, shape] : options.shapes) {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      dimensions.insert({fmt::format("{}.{}", input, axis), shape[axis]});
    }
  }
  return dimensions;
}

Result<Imported> import_archive(const Archive& archive, std::string graph_name, const ImportOptions& options,
                                std::vector<FallbackCandidate>* candidates) {
  auto imported = Importer(archive, std::move(graph_name), options).run(candidates);
  if (!imported && imported.error().place.file.empty()) imported.error().place.file = archive.file;
  return imported;
}

Result<Graph> import_archive(const Archive& archive, std::string graph_name) {
  HTPIPE_TRY(Imported imported, import_archive(archive, std::move(graph_name), {}));
  return std::move(imported.graph);
}

}  // namespace pt2

Result<Imported> import_pt2(const std::filesystem::path& path, const ImportOptions& options) {
  HTPIPE_TRY(const pt2::Archive archive, pt2::read_pt2(path, {true, pt2::dimensions_of(options)}));
  return pt2::import_archive(archive, path.stem().string(), options);
}

Result<Graph> import_pt2(const std::filesystem::path& path) {
  HTPIPE_TRY(Imported imported, import_pt2(path, {}));
  return std::move(imported.graph);
}

}  // namespace htpipe
