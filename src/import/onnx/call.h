// One ONNX node on its way into the graph: reads its inputs and attributes, adds our nodes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/builder.h"
#include "import/onnx/model.h"

namespace htpipe::onnx_import {

using Values = std::vector<Value*>;

class Importer;

class Call : public Builder {
 public:
  Call(Importer& importer, const onnx::NodeProto& node, std::int64_t opset, Values inputs, Graph& graph,
       std::string name, Source source, std::vector<std::string>* warnings)
      : Builder(graph, std::move(name), std::move(source), warnings),
        importer_(importer),
        node_(node),
        opset_(opset),
        inputs_(std::move(inputs)) {}

  [[nodiscard]] const onnx::NodeProto& node() const { return node_; }
  /// Version of the operator's own domain.
  [[nodiscard]] std::int64_t opset() const { return opset_; }

  // --- inputs -------------------------------------------------------------------------------------------------------
  [[nodiscard]] std::size_t input_count() const { return inputs_.size(); }
  [[nodiscard]] bool has(std::size_t index) const { return index < inputs_.size() && inputs_[index] != nullptr; }
  /// Errors: onnx-invalid when it is missing.
  Result<Value*> input(std::size_t index) const;
  /// Null when it is missing or empty.
  [[nodiscard]] Value* optional_input(std::size_t index) const { return has(index) ? inputs_[index] : nullptr; }
  [[nodiscard]] const Values& inputs() const { return inputs_; }
  /// The same node with other inputs, for the mapper of an operator that it contains.
  [[nodiscard]] Call with_inputs(Values inputs, std::string_view suffix);
  /// The constant that an input is. Errors: onnx-invalid, needs-constant (the notes name the graph's inputs behind it).
  Result<Tensor> constant_input(std::size_t index) const;
  /// The same as integers.
  Result<std::vector<std::int64_t>> integers_input(std::size_t index) const;
  Result<std::vector<float>> floats_input(std::size_t index) const;

  /// Bits of a constant whose elements are narrower than their storage (INT4 in i8); 0 for all others.
  [[nodiscard]] int bits_of(const Value* value) const;
  void set_bits(const Value* value, int bits);

  // --- sequences, which exist only while a model is imported -----------------------------------------------------------
  /// A value that stands for a list of values.
  Value* make_sequence(Values elements);
  /// Errors: unsupported-form when the input is no sequence.
  Result<Values> sequence_input(std::size_t index) const;
  [[nodiscard]] bool is_sequence(const Value* value) const;

  // --- outputs ------------------------------------------------------------------------------------------------------
  [[nodiscard]] std::size_t output_count() const { return static_cast<std::size_t>(node_.output_size()); }
  /// Whether the node names this output; an unnamed one is wanted by nobody.
  [[nodiscard]] bool wants(std::size_t index) const {
    return index < output_count() && !node_.output(static_cast<int>(index)).empty();
  }

  // --- attributes: absent ones give the fallback; errors: onnx-invalid for a wrong type ------------------------------
  [[nodiscard]] const onnx::AttributeProto* attribute(std::string_view name) const;
  [[nodiscard]] bool has_attribute(std::string_view name) const { return attribute(name) != nullptr; }
  Result<std::int64_t> integer(std::string_view name, std::optional<std::int64_t> fallback = std::nullopt) const;
  Result<float> real(std::string_view name, std::optional<float> fallback = std::nullopt) const;
  Result<std::string> text(std::string_view name, std::optional<std::string> fallback = std::nullopt) const;
  Result<std::vector<std::int64_t>> ints(std::string_view name, std::vector<std::int64_t> fallback = {}) const;
  Result<std::vector<float>> reals(std::string_view name, std::vector<float> fallback = {}) const;
  Result<Tensor> tensor_attribute(std::string_view name) const;
  /// An axis attribute, counted from the front.
  Result<std::int64_t> axis(std::string_view name, std::optional<std::int64_t> fallback, std::size_t rank) const;

  /// Imports a graph attribute (branch of an If, body of a Loop) with values for its inputs; gives its outputs.
  Result<Values> subgraph(std::string_view attribute, const Values& inputs, std::string_view prefix);

 private:
  Importer& importer_;
  const onnx::NodeProto& node_;
  std::int64_t opset_;
  Values inputs_;
};

/// Adds our nodes for an ONNX node; gives a value for each of its outputs (trailing ones may be left out, and null
/// stands for one that nobody wants).
using Mapper = Result<Values> (*)(Call&);

/// The mapper of an operator; nullptr when there is none. "ai.onnx" is the empty domain.
[[nodiscard]] Mapper find_mapper(std::string_view domain, std::string_view op_type);

}  // namespace htpipe::onnx_import
