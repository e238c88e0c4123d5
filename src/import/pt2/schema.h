// What models/model.json of a torch.export archive says, as plain structs: schema 8.x of torch/_export/serde/schema.py.
// Invariant: every shape here is a list of known, non-negative numbers, or its TensorMeta says why it is not.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "import/pt2/symbols.h"
#include "tensor/tensor.h"

namespace htpipe::pt2 {

/// A tensor value by name: a key of Program::tensor_values.
struct TensorName {
  std::string name;
  bool operator==(const TensorName&) const = default;
};
/// A list of tensors (`Tensor[]`).
struct TensorNames {
  std::vector<std::string> names;
  bool operator==(const TensorNames&) const = default;
};
/// A list of tensors with gaps (`Tensor?[]`).
struct OptionalTensorNames {
  std::vector<std::optional<std::string>> names;
  bool operator==(const OptionalTensorNames&) const = default;
};
/// An argument without meaning for the result on one device: as_device, as_layout, as_memory_format.
struct Ignored {
  std::string kind;
  bool operator==(const Ignored&) const = default;
};
/// A graph as an argument of a higher-order operator (`with torch.no_grad():` and the like).
struct Body;
using Subgraph = std::shared_ptr<const Body>;
/// An argument that has no counterpart here (as_custom_obj, as_complex, a size that depends on the data …); an error
/// only where it is used.
struct Unsupported {
  std::string kind;
  bool operator==(const Unsupported&) const = default;
};

/// One argument. std::monostate is None; DType is torch's ScalarType.
using Argument = std::variant<std::monostate, TensorName, TensorNames, OptionalTensorNames, bool, std::int64_t, double,
                              std::string, std::vector<bool>, std::vector<std::int64_t>, std::vector<double>,
                              std::vector<std::string>, DType, Ignored, Unsupported, Subgraph>;

struct NamedArgument {
  std::string name;  ///< name in the operator's schema, e.g. "stride"
  Argument value;
};

struct Node {
  std::string name;    ///< unique in the graph where torch wrote one, else the first output's
  std::string target;  ///< e.g. "torch.ops.aten.conv2d.default"
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  std::string module;       ///< path of the innermost module, e.g. "block1.conv1"; empty when unknown
  std::string source_file;  ///< innermost line of the user's model code; empty when unknown
  int source_line = 0;

  /// nullptr when the argument was not given (the schema's default holds).
  [[nodiscard]] const Argument* input(std::string_view argument) const;
};

/// Type and memory layout of a tensor value; strides and offset count elements.
struct TensorMeta {
  DType dtype = DType::kF32;
  Shape sizes;
  std::vector<std::int64_t> strides;
  std::int64_t storage_offset = 0;
  /// Why the type is not known: "its shape depends on the data (u0)", "data type complex64 …". Then the rest means nothing.
  std::string problem = {};
};

/// Nodes in order, with the values that they take and give.
struct Body {
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<Node> nodes;
  std::map<std::string, TensorMeta, std::less<>> tensor_values;
};

enum class InputKind { kUserInput, kParameter, kBuffer, kTensorConstant, kConstant, kCustomObject, kToken };

/// What an input of the graph is, in the order of Program::inputs.
struct InputSpec {
  InputKind kind = InputKind::kUserInput;
  std::string name;        ///< value name; empty for a constant without one
  std::string fqn;         ///< parameter, buffer or constant: its key in the archive's weights or constants
  bool persistent = true;  ///< buffer only: part of the state dict
  Argument value;          ///< kConstant only: a Python number, string or None that was fixed by the export
};

enum class OutputKind {
  kUserOutput,
  kLoss,
  kBufferMutation,
  kParameterMutation,
  kUserInputMutation,
  kGradientToParameter,
  kGradientToUserInput,
  kToken
};

struct OutputSpec {
  OutputKind kind = OutputKind::kUserOutput;
  Argument value;
  std::string changes;  ///< mutation or gradient: the FQN or input it goes to
};

/// An exported program.
struct Program : Body {
  std::int64_t schema_major = 0;
  std::int64_t schema_minor = 0;
  std::string torch_version;
  SymbolValues symbols;  ///< what the caller fixed
  std::vector<InputSpec> input_specs;
  std::vector<OutputSpec> output_specs;
};

/// Where a weight's bytes are, from data/weights/…_config.json or data/constants/…_config.json.
struct Payload {
  std::string fqn;
  std::string path_name;  ///< file beside the config, e.g. "weight_0"; several FQNs may share one
  bool is_parameter = false;
  bool pickled = false;  ///< a Python object or tensor subclass; `meta` may be missing then
  std::optional<TensorMeta> meta;
};

/// Parses model.json; `dimensions` gives symbolic sizes their numbers.
/// Errors: json-invalid; json-shape with the JSON path; pt2-version (schema major other than 8); dynamic-shape: a symbol
/// without a number (all are named, with the axes of the inputs that they stand for), a number out of the range that the
/// export allowed, or a dimension that the model does not have.
Result<Program> parse_program(std::string_view json, const Dimensions& dimensions = {});

/// Parses a payload config. Errors: as parse_program.
Result<std::vector<Payload>> parse_payloads(std::string_view json);

/// The innermost frame of a Python stack trace that is not PyTorch's own: file and line, or {"", 0}.
[[nodiscard]] std::pair<std::string, int> user_line(std::string_view stack_trace);
/// The innermost module path of an nn_module_stack, e.g. "block1.conv1".
[[nodiscard]] std::string innermost_module(std::string_view nn_module_stack);

}  // namespace htpipe::pt2
