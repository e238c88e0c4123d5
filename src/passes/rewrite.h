// The moves that passes share: what a node is, and how a value takes another's place without losing a name.
// Invariant: an output of the graph keeps its name through every function here.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace htpipe::passes {

/// "Conv2d %conv1 (layer block.conv)", for notes.
[[nodiscard]] std::string describe(const Node& node);

/// True when all operands and results are float32 without encodings.
[[nodiscard]] bool is_plain_float(const Node& node);
/// True when an operand or a result carries an encoding.
[[nodiscard]] bool is_quantised(const Node& node);

/// The one element of a float32 constant; nullopt for anything else.
[[nodiscard]] std::optional<float> scalar_of(const Value* value);

/// Whether a value is a float32 constant without infinities and NaN.
[[nodiscard]] bool is_finite_constant(const Value* value);

/// Index of the first operand with that role; nullopt when the operator has none.
[[nodiscard]] std::optional<std::size_t> operand_with(const OpDef& op, Role role);

/// The node that makes `value` when `value` serves exactly one use and is no output of the graph; else nullptr.
[[nodiscard]] Node* single_use_producer(const Graph& graph, const Value* value);

/// The nodes in order. A pass walks over this copy, because rewriting changes the graph's own list.
[[nodiscard]] std::vector<Node*> node_list(const Graph& graph);

/// `consumer` is now part of `producer`: the producer's result takes the name, the users and the place among the
/// outputs of the consumer's result; the consumer and constants that nobody else uses disappear.
void absorb(Graph& graph, Node& producer, Node* consumer);

/// `made`, which computes the same as `old`, takes its users, its name and its place among the outputs; `old`, and
/// constants that nobody else uses, disappear.
void take_place(Graph& graph, Node& made, Node* old);

/// Lets the users of the result of `node` take `value` instead and removes `node`. An output's name moves to `value`.
/// False, and nothing is changed, when that cannot be: `value` is itself an input, an output or a constant.
[[nodiscard]] bool bypass(Graph& graph, Node* node, Value* value);

/// Removes a constant without users.
void erase_unused(Graph& graph, Value* constant);
/// Removes a node without users, and constants that only it used.
void erase_unused(Graph& graph, Node* node);

/// Sets the types of the results by the operator's rule, after its operands or attributes changed.
Status infer_again(Node& node);

/// The node that stands behind `node`; nullptr for the last.
[[nodiscard]] const Node* next_node(const Graph& graph, const Node& node);

}  // namespace htpipe::passes
