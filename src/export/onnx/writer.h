// An ONNX graph under construction: nodes, initializers, names of values.
// Invariant: every name is unique; same calls, same message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

// The generated header stays inside this folder.
#include <onnx-ml.pb.h>

namespace htpipe::onnx_export {

using IntList = std::vector<std::int64_t>;
/// An attribute of an ONNX node.
using Setting = std::variant<std::int64_t, float, std::string, IntList, std::vector<std::string>>;
using Settings = std::vector<std::pair<std::string_view, Setting>>;
using Names = std::vector<std::string>;

/// ONNX's number of a data type.
[[nodiscard]] std::int32_t data_type_of(DType dtype);

/// An initializer whose bytes are written later, when it is known whether they go beside the model.
struct Payload {
  int index;  ///< of the initializer in the graph
  Tensor tensor;
  IntList perm;           ///< permutation of the axes on the way out; empty = none
  bool nibbles = false;   ///< two elements a byte, the first one low
  std::size_t bytes = 0;  ///< as it is written
};

class Writer {
 public:
  Writer(onnx::GraphProto& graph, std::int64_t opset) : graph_(graph), opset_(opset) {}

  [[nodiscard]] std::int64_t opset() const { return opset_; }
  /// Takes a name as it is; every name of the graph's values is taken first.
  void take(const std::string& name) { names_.insert(name); }
  /// `wanted`, or with a number behind it.
  std::string fresh(std::string_view wanted);

  void node(std::string_view op_type, const Names& inputs, const Names& outputs, const Settings& settings = {});
  /// Adds an initializer; a constant of at most 64 bytes that is there already is not written twice.
  std::string initializer(std::string_view wanted, const Tensor& tensor);
  /// An initializer under a name that was taken before.
  void initializer_named(const std::string& name, const Tensor& tensor, const IntList& perm = {});
  std::string integers(std::string_view wanted, const IntList& values);
  /// A scalar of the data type.
  std::string scalar(std::string_view wanted, double value, DType dtype);

  /// The name under which operators read a value: of plain numbers, also where the value is stored as integers.
  /// A constant becomes an initializer, and what is stored is dequantised, when it is first asked for.
  std::string real(const Value& value);
  /// The name of a value's stored integers; it has an encoding.
  std::string stored(const Value& value);
  /// `real` of a constant in another form; the file holds it in that form.
  std::string permuted(const Value& value, const IntList& perm);
  std::string reshaped(const Value& value, const Shape& shape);
  void bind_real(const Value& value, std::string name) { real_[&value] = std::move(name); }
  void bind_stored(const Value& value, std::string name) { stored_[&value] = std::move(name); }

  [[nodiscard]] const std::vector<Payload>& payloads() const { return payloads_; }

 private:
  onnx::GraphProto& graph_;
  std::int64_t opset_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::int64_t> suffixes_;
  std::unordered_map<std::string, std::string> small_;  ///< type and bytes of small constants: their names
  std::unordered_map<const Value*, std::string> real_;
  std::unordered_map<const Value*, std::string> stored_;
  std::unordered_map<std::string, std::string> formed_;  ///< constant and form: its name
  std::vector<Payload> payloads_;
};

}  // namespace htpipe::onnx_export
