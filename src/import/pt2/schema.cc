// Parses model.json and the payload configs. Nothing that was parsed leaves this file once there is an error.
#include "import/pt2/schema.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "import/pt2/schema_reader.h"

namespace htpipe::pt2 {
namespace {

constexpr std::int64_t kSchemaMajor = 8;

InputSpec read_input_spec(SchemaReader& in, const Spot& spot) {
  InputSpec spec;
  in.on_union(spot, [&](std::string_view kind, const Spot& member) {
    const auto weight = [&](InputKind input_kind, std::string_view fqn_key) {
      const Spot arg = in.field(member, "arg");
      spec.kind = input_kind;
      spec.name = in.text(arg, "name");
      spec.fqn = in.text(member, fqn_key);
    };
    if (kind == "user_input") {
      const Spot arg = in.field(member, "arg");
      spec.value = read_argument(in, arg);
      if (const auto* const tensor = std::get_if<TensorName>(&spec.value)) {
        spec.name = tensor->name;
        spec.value = std::monostate{};
      } else {
        spec.kind = InputKind::kConstant;
      }
    } else if (kind == "parameter") {
      weight(InputKind::kParameter, "parameter_name");
    } else if (kind == "buffer") {
      weight(InputKind::kBuffer, "buffer_name");
      const Spot persistent = in.field(member, "persistent");
      spec.persistent = in.boolean(persistent);
    } else if (kind == "tensor_constant") {
      weight(InputKind::kTensorConstant, "tensor_constant_name");
    } else if (kind == "custom_obj") {
      weight(InputKind::kCustomObject, "custom_obj_name");
    } else if (kind == "token") {
      const Spot arg = in.field(member, "arg");
      spec.kind = InputKind::kToken;
      spec.name = in.text(arg, "name");
    } else if (kind == "constant_input") {
      spec.kind = InputKind::kConstant;
      spec.name = in.text(member, "name");
      const Spot value = in.field(member, "value");
      spec.value = read_argument(in, value);
    } else {
      in.fail_at(member, "is of an unknown kind");
    }
  });
  return spec;
}

OutputSpec read_output_spec(SchemaReader& in, const Spot& spot) {
  struct Kind {
    std::string_view name;
    OutputKind kind;
    std::string_view changes;
  };
  constexpr std::array<Kind, 8> kKinds = {{
      {"user_output", OutputKind::kUserOutput, ""},
      {"loss_output", OutputKind::kLoss, ""},
      {"buffer_mutation", OutputKind::kBufferMutation, "buffer_name"},
      {"parameter_mutation", OutputKind::kParameterMutation, "parameter_name"},
      {"user_input_mutation", OutputKind::kUserInputMutation, "user_input_name"},
      {"gradient_to_parameter", OutputKind::kGradientToParameter, "parameter_name"},
      {"gradient_to_user_input", OutputKind::kGradientToUserInput, "user_input_name"},
      {"token", OutputKind::kToken, ""},
  }};
  OutputSpec spec;
  in.on_union(spot, [&](std::string_view kind, const Spot& member) {
    const auto* const row =
        std::find_if(kKinds.begin(), kKinds.end(), [kind](const Kind& candidate) { return candidate.name == kind; });
    if (row == kKinds.end()) return in.fail_at(member, "is of an unknown kind");
    spec.kind = row->kind;
    const Spot arg = in.field(member, "arg");
    // Only a user output may be something other than a tensor and is a union.
    spec.value =
        row->kind == OutputKind::kUserOutput ? read_argument(in, arg) : Argument(TensorName{in.text(arg, "name")});
    if (!row->changes.empty()) spec.changes = in.text(member, row->changes);
  });
  return spec;
}

void read_program(SchemaReader& in, const Spot& root, const Dimensions& dimensions, Program& result) {
  const Spot version = in.field(root, "schema_version");
  result.schema_major = in.integer(in.field(version, "major"));
  result.schema_minor = in.integer(in.field(version, "minor"));
  if (const auto torch = in.optional_field(root, "torch_version")) result.torch_version = in.text(*torch);
  if (in.ok() && result.schema_major != kSchemaMajor) {
    return in.fail_at(version,
                      fmt::format("the model has schema {}.{} (torch {}), supported is {}.x", result.schema_major,
                                  result.schema_minor, result.torch_version, kSchemaMajor),
                      Code::kPt2Version);
  }
  const Spot module = in.field(root, "graph_module");
  const Spot graph = in.field(module, "graph");
  bind_symbols(in, root, dimensions);
  read_body(in, graph, result);
  const Spot signature = in.field(module, "signature");
  const Spot input_specs = in.field(signature, "input_specs");
  result.input_specs =
      list_of<InputSpec>(in, input_specs, [&in](const Spot& item) { return read_input_spec(in, item); });
  const Spot output_specs = in.field(signature, "output_specs");
  result.output_specs =
      list_of<OutputSpec>(in, output_specs, [&in](const Spot& item) { return read_output_spec(in, item); });
  check_symbols(in, root);
  result.symbols = in.symbols;
}

Payload read_payload(SchemaReader& in, const Spot& spot) {
  Payload payload;
  payload.fqn = std::string(spot.key);
  payload.path_name = in.text(spot, "path_name");
  payload.is_parameter = in.boolean(in.field(spot, "is_param"));
  payload.pickled = in.boolean(in.field(spot, "use_pickle"));
  if (payload.pickled) return payload;
  const Spot meta = in.field(spot, "tensor_meta");
  payload.meta = read_tensor_meta(in, meta);
  return payload;
}

/// Parses `json` and calls `body` with its root.
template <typename Body>
Status read_json_text(std::string_view json, const Body& body) {
  if (json.empty()) return fail(Code::kJsonInvalid, "the text is empty");
  dom::parser parser;
  dom::element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root); error != simdjson::SUCCESS) {
    return fail(Code::kJsonInvalid, simdjson::error_message(error));
  }
  SchemaReader in;
  body(in, Spot{root});
  if (!in.ok()) return fail(in.take_error());
  return {};
}

}  // namespace

const Argument* Node::input(std::string_view argument) const {
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [argument](const NamedArgument& candidate) { return candidate.name == argument; });
  return found == inputs.end() ? nullptr : &found->value;
}

Result<Program> parse_program(std::string_view json, const Dimensions& dimensions) {
  Program program;
  HTPIPE_CHECK_OK(
      read_json_text(json, [&](SchemaReader& in, const Spot& root) { read_program(in, root, dimensions, program); }));
  return program;
}

Result<std::vector<Payload>> parse_payloads(std::string_view json) {
  std::vector<Payload> payloads;
  HTPIPE_CHECK_OK(read_json_text(json, [&payloads](SchemaReader& in, const Spot& root) {
    const Spot config = in.field(root, "config");
    in.for_each_member(config, [&](const Spot& member) { payloads.push_back(read_payload(in, member)); });
  }));
  return payloads;
}

std::pair<std::string, int> user_line(std::string_view stack_trace) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::array<std::string_view, 2> kOfTorch = {"site-packages/torch/", "dist-packages/torch/"};
  std::pair<std::string, int> user;
  while (!stack_trace.empty()) {
    std::string_view frame = stack_trace.substr(0, stack_trace.find('\n'));
    stack_trace.remove_prefix(std::min(frame.size() + 1, stack_trace.size()));
    frame.remove_prefix(std::min(frame.find_first_not_of(' '), frame.size()));
    const std::size_t end = frame.find(kLine);
    if (frame.substr(0, kFile.size()) != kFile || end == std::string_view::npos) continue;
    const std::string_view file = frame.substr(kFile.size(), end - kFile.size());
    const std::string_view digits = frame.substr(end + kLine.size());
    int line = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), line);
    const bool of_torch = std::any_of(kOfTorch.begin(), kOfTorch.end(), [file](std::string_view folder) {
      return file.find(folder) != std::string_view::npos;
    });
    if (line > 0 && !of_torch) user = {std::string(file), line};
  }
  return user;
}

std::string innermost_module(std::string_view nn_module_stack) {
  // "key,path,type;key,path,type": the path may hold a comma, the key and the type do not.
  const std::string_view last = nn_module_stack.substr(nn_module_stack.rfind(';') + 1);
  const std::size_t begin = last.find(',');
  const std::size_t end = last.rfind(',');
  if (begin == std::string_view::npos || begin == end) return {};
  return std::string(last.substr(begin + 1, end - begin - 1));
}

}  // namespace htpipe::pt2
