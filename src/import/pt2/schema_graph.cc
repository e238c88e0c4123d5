// Graphs of the schema: nodes, values, and the numbers behind symbolic sizes.
#include <algorithm>
#include <tuple>

#include "import/pt2/schema_reader.h"

namespace htpipe::pt2 {
namespace {

constexpr int kDeepestGraph = 50;

Node read_node(SchemaReader& in, const Spot& spot) {
  Node result;
  result.target = in.text(spot, "target");
  const Spot inputs = in.field(spot, "inputs");
  in.for_each(inputs, [&](const Spot& item) {
    const Spot value = in.field(item, "arg");
    result.inputs.push_back({in.text(item, "name"), read_argument(in, value)});
  });
  const Spot outputs = in.field(spot, "outputs");
  result.outputs = read_arguments(in, outputs);
  if (const auto name = in.optional_field(spot, "name")) {
    result.name = in.text(*name);
  } else if (!result.outputs.empty()) {
    const auto* const first = std::get_if<TensorName>(&result.outputs.front());
    if (first != nullptr) result.name = first->name;
  }
  const Spot metadata = in.field(spot, "metadata");
  if (const auto trace = in.optional_field(metadata, "stack_trace")) {
    std::tie(result.source_file, result.source_line) = user_line(in.text(*trace));
  }
  if (const auto stack = in.optional_field(metadata, "nn_module_stack")) {
    result.module = innermost_module(in.text(*stack));
  }
  return result;
}

/// sym_int_values, sym_float_values and sym_bool_values: names of numbers.
void read_numbers(SchemaReader& in, const Spot& graph) {
  in.numbers.clear();
  const auto add = [&in](std::string_view name, Argument value) { in.numbers[std::string(name)] = std::move(value); };
  if (const auto integers = in.optional_field(graph, "sym_int_values")) {
    in.for_each_member(*integers, [&](const Spot& member) {
      if (const auto value = symbolic_integer(in, member)) add(member.key, *value);
    });
  }
  if (const auto reals = in.optional_field(graph, "sym_float_values")) {
    in.for_each_member(*reals, [&](const Spot& member) {
      in.on_union(member, [&](std::string_view kind, const Spot& value) {
        if (kind == "as_float") return add(member.key, in.number(value));
        if (kind != "as_expr") return;
        const std::string expression = in.text(value, "expr_str");
        if (const auto number = evaluate_real(expression, in.symbols, in.missing)) add(member.key, *number);
      });
    });
  }
  if (const auto truths = in.optional_field(graph, "sym_bool_values")) {
    in.for_each_member(*truths, [&](const Spot& member) {
      in.on_union(member, [&](std::string_view kind, const Spot& value) {
        if (kind == "as_bool") add(member.key, in.boolean(value));
      });
    });
  }
}

/// One axis of an input. Its size is an expression, or a number when it is not open.
struct Axis {
  std::string input;
  std::size_t axis;
  std::string expression;
  [[nodiscard]] std::string name() const { return fmt::format("{}.{}", input, axis); }
  [[nodiscard]] bool open() const { return expression.find_first_not_of("0123456789") != std::string::npos; }
};

std::vector<Axis> axes_of_inputs(SchemaReader& in, const Spot& root) {
  std::vector<Axis> axes;
  const Spot module = in.field(root, "graph_module");
  const Spot graph = in.field(module, "graph");
  const Spot values = in.field(graph, "tensor_values");
  const Spot signature = in.field(module, "signature");
  const Spot specs = in.field(signature, "input_specs");
  in.for_each(specs, [&](const Spot& spec) {
    in.on_union(spec, [&](std::string_view kind, const Spot& member) {
      if (kind != "user_input") return;
      const Spot argument = in.field(member, "arg");
      const auto tensor = in.optional_field(argument, "as_tensor");
      if (!tensor) return;
      const std::string name = in.text(*tensor, "name");
      const auto value = in.optional_field(values, name);
      if (!value) return;
      const Spot sizes = in.field(*value, "sizes");
      std::size_t axis = 0;
      in.for_each(sizes, [&](const Spot& size) {
        if (const auto expression = in.optional_field(size, "as_expr")) {
          axes.push_back({name, axis, in.text(*expression, "expr_str")});
        } else if (const auto number = in.optional_field(size, "as_int")) {
          axes.push_back({name, axis, std::to_string(in.integer(*number))});
        }
        ++axis;
      });
    });
  });
  return axes;
}

/// A number must lie in the range that the export found. Its lower end is 2 for every free size, which is no rule of the
/// model: 1 is let through, and the shapes of the graph tell whether it fits.
void check_ranges(SchemaReader& in, const Spot& root) {
  const auto ranges = in.optional_field(root, "range_constraints");
  if (!ranges) return;
  in.for_each_member(*ranges, [&](const Spot& member) {
    std::set<std::string> missing;
    const auto value = evaluate(member.key, in.symbols, missing);
    if (!value) return;
    const auto low = in.optional_field(member, "min_val");
    const auto high = in.optional_field(member, "max_val");
    const std::int64_t least = low ? in.integer(*low) : 0;
    if ((least > 2 && *value < least) || (high && *value > in.integer(*high))) {
      in.fail_at(member,
                 fmt::format("the export allows {} from {} to {}, not {}", member.key.substr(0, 200), least,
                             high ? std::to_string(in.integer(*high)) : "any size", *value),
                 Code::kDynamicShape, "Give a size in that range, or export with another dynamic_shapes.");
    }
  });
}

}  // namespace

void read_body(SchemaReader& in, const Spot& graph, Body& body) {
  int depth = 0;
  for (const Spot* at = &graph; at != nullptr; at = at->parent) depth += at->key == "graph" ? 1 : 0;
  if (depth > kDeepestGraph) return in.fail_at(graph, "graphs are nested too deep");
  read_numbers(in, graph);
  const Spot inputs = in.field(graph, "inputs");
  body.inputs = read_arguments(in, inputs);
  const Spot outputs = in.field(graph, "outputs");
  body.outputs = read_arguments(in, outputs);
  const Spot values = in.field(graph, "tensor_values");
  in.for_each_member(values, [&](const Spot& member) {
    const bool added = body.tensor_values.emplace(member.key, read_tensor_meta(in, member)).second;
    if (!added) in.fail_at(member, "occurs twice");
  });
  const Spot nodes = in.field(graph, "nodes");
  body.nodes = list_of<Node>(in, nodes, [&in](const Spot& item) { return read_node(in, item); });
}

void bind_symbols(SchemaReader& in, const Spot& root, const Dimensions& dimensions) {
  const std::vector<Axis> axes = axes_of_inputs(in, root);
  std::string known;
  for (const Axis& axis : axes) {
    if (axis.open())
      known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", axis.name(), readable(axis.expression));
  }
  for (const auto& [name, size] : dimensions) {
    bool used = false;
    for (const Axis& axis : axes) {
      if (axis.name() != name && !(name == "batch" && axis.axis == 0)) continue;
      if (const auto solved = solve(axis.expression, size, in.symbols)) in.symbols.insert(*solved);
      std::set<std::string> missing;
      const auto value = evaluate(axis.expression, in.symbols, missing);
      used = used || value == size;
      if (value != size && name != "batch") {
        return in.fail_at(root, fmt::format("{} is {} and cannot be {}", name, readable(axis.expression), size),
                          Code::kDynamicShape, "Give a size that fits the expression and the other dimensions.");
      }
    }
    if (!used) {
      std::set<std::string> symbols;
      for (const Axis& axis : axes) evaluate(axis.expression, {}, symbols);
      if (symbols.contains(name)) {
        const auto [at, added] = in.symbols.emplace(name, size);
        used = added || at->second == size;
      }
    }
    if (!used) {
      return in.fail_at(root,
                        fmt::format("no open dimension {:?}; {}", name.substr(0, 80),
                                    known.empty() ? "all sizes of this model are fixed" : "there are " + known),
                        Code::kDynamicShape, "Name an axis of an input (INPUT.AXIS=SIZE) or a symbol (SYMBOL=SIZE).");
    }
  }
  check_ranges(in, root);
}

void check_symbols(SchemaReader& in, const Spot& root) {
  std::string names;
  std::string example;
  const std::vector<Axis> axes = axes_of_inputs(in, root);
  for (const std::string& symbol : in.missing) {
    if (is_data_dependent(symbol)) continue;
    std::string places;
    for (const Axis& axis : axes) {
      std::set<std::string> symbols;
      evaluate(axis.expression, in.symbols, symbols);
      if (!symbols.contains(symbol)) continue;
      places += fmt::format("{}{}", places.empty() ? "" : ", ", axis.name());
      if (example.empty()) example = fmt::format("--dim {}=1", axis.name());
    }
    if (places.empty() && !example.empty()) continue;  // follows from another one, or only sizes of strides need it
    names += fmt::format("{}{} (axis {})", names.empty() ? "" : ", ", symbol, places.empty() ? "unknown" : places);
  }
  if (names.empty()) return;
  in.fail_at(root, fmt::format("open dimensions: {}", names), Code::kDynamicShape,
             fmt::format("Fix each by an option, for instance {} (in a pipeline file: source.dims).",
                         example.empty() ? "--dim batch=1" : example));
}

}  // namespace htpipe::pt2
