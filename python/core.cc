// The extension htpipe._core: models of ours for Python. The package's Python files are its only users.
// Invariant: no C++ exception and no Error leaves it but as htpipe.Error; long work runs without Python's lock.
#include <fmt/core.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/version.h"
#include "check/findings.h"
#include "exec/program.h"
#include "import/import_model.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/driver.h"
#include "target/target.h"

namespace nb = nanobind;

namespace htpipe {
namespace {

/// Any array in the memory of this computer, as it lies there.
using Array = nb::ndarray<nb::numpy, nb::ro, nb::c_contig, nb::device::cpu>;
using OwnArray = nb::ndarray<nb::numpy, nb::c_contig, nb::device::cpu>;
/// Arrays given by Python come as (dtype name, array), since numpy has no bfloat16.
using NamedArray = std::pair<std::string, Array>;

[[noreturn]] void raise(const Error& error) {
  const nb::object type = nb::module_::import_("htpipe._error").attr("Error");
  nb::dict place;
  place["file"] = error.place.file;
  place["line"] = error.place.line;
  place["node"] = error.place.node;
  place["pass"] = error.place.pass;
  place["target"] = error.place.target;
  nb::list notes;
  for (const std::string& note : error.notes) notes.append(note);
  const std::string code(word(error.code));
  const nb::object value = type(code, error.message, place, notes, error.next_step());
  PyErr_SetObject(type.ptr(), value.ptr());
  throw nb::python_error();
}

/// Runs `work` without Python's lock and gives back its value, or raises its error.
template <typename Work>
auto unlocked(Work work) {
  using Outcome = decltype(work());
  std::optional<Outcome> outcome;
  try {
    const nb::gil_scoped_release release;
    outcome.emplace(work());
  } catch (const BugError& error) {
    raise(Error(Code::kBug, error.what()));
  } catch (const std::bad_alloc&) {
    raise(Error(Code::kOutOfMemory, "an allocation failed"));
  } catch (const std::exception& error) {
    raise(Error(Code::kBug, error.what()));
  }
  if (!*outcome) raise(outcome->error());
  if constexpr (!std::is_void_v<typename Outcome::value_type>) return std::move(outcome->value());
}

/// The array type that carries a dtype; bf16 travels as the u16 of its bits.
nb::dlpack::dtype carrier_of(DType dtype) {
  const std::string_view name = name_of(dtype);
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  auto code = nb::dlpack::dtype_code::Float;
  if (name == "bool") {
    code = nb::dlpack::dtype_code::Bool;
  } else if (name == "bf16" || name.front() == 'u') {
    code = nb::dlpack::dtype_code::UInt;
  } else if (name.front() == 'i') {
    code = nb::dlpack::dtype_code::Int;
  }
  return {static_cast<std::uint8_t>(code), bits, 1};
}

/// An array as a tensor on the same memory.
Result<Tensor> view_of(const std::string& name, const std::string& dtype_name, const Array& array) {
  const std::optional<DType> dtype = parse_dtype(dtype_name);
  if (!dtype || array.dtype() != carrier_of(*dtype)) {
    return fail(Error(Code::kDtypeMismatch, fmt::format("an array cannot be given as {}", dtype_name)).at_node(name));
  }
  TensorType type{*dtype, {}, std::nullopt};
  for (std::size_t i = 0; i < array.ndim(); ++i) type.shape.push_back(static_cast<std::int64_t>(array.shape(i)));
  return Tensor(std::move(type), nullptr, static_cast<const std::byte*>(array.data()));
}

/// Copies an array, so that the graph does not depend on what Python does with it.
Result<Tensor> tensor_of(const std::string& name, const std::string& dtype_name, const Array& array) {
  HTPIPE_TRY(const Tensor view, view_of(name, dtype_name, array));
  Tensor tensor(view.type());
  const auto to = tensor.mutable_data<std::byte>();
  if (!to.empty()) std::memcpy(to.data(), view.bytes().data(), to.size());
  return tensor;
}

/// The tensor's memory as an array that Python may write to. Only for a tensor that nobody else holds.
OwnArray array_of(Tensor tensor) {
  auto* kept = new Tensor(std::move(tensor));
  const nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<Tensor*>(pointer); });
  std::vector<std::size_t> shape;
  for (const std::int64_t size : kept->shape()) shape.push_back(static_cast<std::size_t>(size));
  return OwnArray(kept->mutable_data<std::byte>().data(), shape.size(), shape.data(), owner, nullptr,
                  carrier_of(kept->dtype()));
}

struct ValueInfo {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
};

std::vector<ValueInfo> describe(const std::vector<Value*>& values) {
  std::vector<ValueInfo> infos;
  for (const Value* value : values) {
    infos.push_back({value->name, std::string(name_of(value->type.dtype)), value->type.shape});
  }
  return infos;
}

/// What an array must be to stand for an input.
Status check_input(const Value& input, const Tensor& tensor) {
  if (tensor.dtype() != input.type.dtype) {
    return fail(Error(Code::kDtypeMismatch,
                      fmt::format("input is {}, needs {}", name_of(tensor.dtype()), name_of(input.type.dtype)))
                    .at_node(input.name));
  }
  if (tensor.shape() == input.type.shape) return {};
  return fail(Error(Code::kShapeMismatch,
                    fmt::format("input is {}, needs {}", to_string(tensor.shape()), to_string(input.type.shape)))
                  .at_node(input.name));
}

/// A graph with the program that runs it, which is made at the first run.
class Model {
 public:
  explicit Model(ImportedModel model)
      : graph_(std::make_shared<const Graph>(std::move(model.graph))),
        format_(name_of(model.format)),
        producer_(std::move(model.producer)),
        warnings_(std::move(model.warnings)) {}

  static Model load(const std::string& path, const std::map<std::string, std::int64_t>& dims,
                    const std::map<std::string, Shape>& shapes, const std::map<std::string, NamedArray>& fix) {
    ImportOptions options;
    options.dims.insert(dims.begin(), dims.end());
    options.shapes.insert(shapes.begin(), shapes.end());
    for (const auto& [name, array] : fix) {
      auto tensor = tensor_of(name, array.first, array.second);
      if (!tensor) raise(tensor.error());
      options.fix.emplace(name, std::move(*tensor));
    }
    return Model(unlocked([&] { return import_model(path, options); }));
  }

  static Model parse(const std::string& text) {
    return Model(unlocked([&]() -> Result<ImportedModel> {
      HTPIPE_TRY(Graph graph, parse_graph(text));
      return ImportedModel{std::move(graph), ModelFormat::kText, {}, {}};
    }));
  }

  [[nodiscard]] std::string name() const { return graph_->name(); }
  [[nodiscard]] const std::string& format() const { return format_; }
  [[nodiscard]] const std::string& producer() const { return producer_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] std::vector<ValueInfo> inputs() const { return describe(graph_->inputs()); }
  [[nodiscard]] std::vector<ValueInfo> outputs() const { return describe(graph_->outputs()); }
  [[nodiscard]] std::size_t node_count() const { return graph_->nodes().size(); }
  [[nodiscard]] std::string text() const { return print(*graph_); }
  [[nodiscard]] std::string digest() const { return htpipe::digest(*graph_); }
  void verify() const {
    unlocked([this] { return htpipe::verify(*graph_); });
  }

  /// The graph after the passes, as another model; this one stays as it is.
  [[nodiscard]] std::pair<Model, std::vector<std::string>> optimise(const std::vector<std::string>& skip) const {
    std::vector<std::string> done;
    Graph graph = unlocked([&]() -> Result<Graph> {
      Graph copy = graph_->clone();
      PassOptions options;
      options.skip = skip;
      HTPIPE_TRY(const std::vector<PassRecord> records, run_passes(copy, options));
      for (const PassRecord& record : records) {
        for (const std::string& note : record.notes) done.push_back(record.name + ": " + note);
      }
      return copy;
    });
    return {Model(std::move(graph), *this), std::move(done)};
  }

  [[nodiscard]] std::vector<OwnArray> run(const std::vector<NamedArray>& arrays) const {
    std::vector<Tensor> inputs;
    const auto& wanted = graph_->inputs();
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const std::string name = i < wanted.size() ? wanted[i]->name : fmt::format("input {}", i);
      auto tensor = view_of(name, arrays[i].first, arrays[i].second);
      if (!tensor) raise(tensor.error());
      inputs.push_back(std::move(*tensor));
    }
    std::vector<Tensor> outputs = unlocked([&] { return execute(inputs); });
    std::vector<OwnArray> results;
    for (Tensor& output : outputs) results.push_back(array_of(std::move(output)));
    return results;
  }

  /// JSON of the coverage report; `this` is the graph as imported, `optimised` the one after the passes.
  [[nodiscard]] std::string coverage(const Model& optimised, const std::string& target, const std::string& folder,
                                     const std::string& precision) const {
    return unlocked([&]() -> Result<std::string> {
      const auto wanted = parse_precision(precision);
      if (!wanted) return fail(Code::kUsage, fmt::format("no precision \"{}\"", precision));
      HTPIPE_TRY(const std::vector<Target> targets, load_targets(folder));
      HTPIPE_TRY(const Target found, find_target(target, targets));
      HTPIPE_TRY(const Coverage coverage, check::coverage_of(*graph_, *optimised.graph_, found, *wanted));
      return to_text(to_json(coverage));
    });
  }

 private:
  /// A program and memory to run it in; not copied with the model.
  struct Engine {
    Program program;
    Program::Workspace workspace;
    explicit Engine(Program made) : program(std::move(made)), workspace(program, thread_count()) {}
  };
  struct Shared {
    std::mutex mutex;
    std::unique_ptr<Engine> engine;
  };

  Model(Graph graph, const Model& origin)
      : graph_(std::make_shared<const Graph>(std::move(graph))),
        format_(origin.format_),
        producer_(origin.producer_),
        warnings_(origin.warnings_) {}

  [[nodiscard]] Result<std::vector<Tensor>> execute(const std::vector<Tensor>& inputs) const {
    const auto& wanted = graph_->inputs();
    if (inputs.size() != wanted.size()) {
      return fail(Code::kShapeMismatch, fmt::format("{} inputs given, {} needed", inputs.size(), wanted.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) HTPIPE_CHECK_OK(check_input(*wanted[i], inputs[i]));
    // Runs of one model follow each other: kernels use all cores themselves.
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->engine) {
      HTPIPE_TRY(Program program, Program::make(*graph_, 0));
      shared_->engine = std::make_unique<Engine>(std::move(program));
    }
    return shared_->engine->program.run(shared_->engine->workspace, inputs);
  }

  std::shared_ptr<const Graph> graph_;
  std::string format_;
  std::string producer_;
  std::vector<std::string> warnings_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace
}  // namespace htpipe

NB_MODULE(_core, module) {
  using htpipe::Model;
  using htpipe::ValueInfo;
  using namespace nb::literals;
  module.doc() = "The C++ part of htpipe. Use the functions of the package instead.";
  module.attr("version") = htpipe::kVersion;
  htpipe::register_all_ops();

  nb::class_<ValueInfo>(module, "ValueInfo", "Name, dtype and shape of an input or output.")
      .def_ro("name", &ValueInfo::name)
      .def_ro("dtype", &ValueInfo::dtype)
      .def_ro("shape", &ValueInfo::shape);

  nb::class_<Model>(module, "Model", "A graph and the program that runs it.")
      .def_static("load", &Model::load, "path"_a, "dims"_a, "shapes"_a, "fix"_a)
      .def_static("parse", &Model::parse, "text"_a)
      .def_prop_ro("name", &Model::name)
      .def_prop_ro("format", &Model::format)
      .def_prop_ro("producer", &Model::producer)
      .def_prop_ro("warnings", &Model::warnings)
      .def_prop_ro("inputs", &Model::inputs)
      .def_prop_ro("outputs", &Model::outputs)
      .def_prop_ro("node_count", &Model::node_count)
      .def("text", &Model::text)
      .def("digest", &Model::digest)
      .def("verify", &Model::verify)
      .def("optimise", &Model::optimise, "skip"_a)
      .def("run", &Model::run, "arrays"_a)
      .def("coverage", &Model::coverage, "optimised"_a, "target"_a, "targets_folder"_a, "precision"_a);

  module.def(
      "error_hints",
      [] {
        std::map<std::string, std::string> hints;
        for (const auto& row : htpipe::all_codes()) hints.emplace(row.word, row.next);
        return hints;
      },
      "Every code that an Error can have, with its next step.");
}
