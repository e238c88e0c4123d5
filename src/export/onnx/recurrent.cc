// LSTM, GRU and RNN, one direction each; and the rotary embedding.
#include <fmt/core.h>

#include <algorithm>

#include "export/onnx/operators.h"

namespace htpipe::onnx_export {
namespace {

Shape in_front(std::int64_t size, Shape shape) {
  shape.insert(shape.begin(), size);
  return shape;
}

/// Operand `i` as the only direction of ONNX's form; empty when it is absent.
std::string direction(NodeWriter& out, std::size_t i) {
  return out.has(i) ? out.reshaped(i, in_front(1, out.shape(i))) : std::string();
}

/// An initial state; the default is zeros.
std::string state(NodeWriter& out, std::size_t i) {
  const Tensor* tensor = out.constant(i);
  if (tensor != nullptr && !tensor->type().encoding &&
      std::all_of(tensor->bytes().begin(), tensor->bytes().end(),
                  [](std::byte byte) { return byte == std::byte{0}; })) {
    return {};
  }
  return direction(out, i);
}

/// `lengths` and the others are places of operands; results lose ONNX's axis of directions.
Status recurrent(NodeWriter& out, std::string_view op_type, std::size_t lengths, const std::vector<std::size_t>& states,
                 Settings settings) {
  const Attributes& attributes = out.attributes();
  settings.emplace_back("hidden_size", out.shape(2)[1]);
  if (attributes.text("direction") == "reverse") settings.emplace_back("direction", "reverse");
  if (attributes.real("clip") > 0.0F) settings.emplace_back("clip", attributes.real("clip"));
  const std::string input = out.in(0);
  const std::string input_weights = direction(out, 1);
  const std::string recurrent_weights = direction(out, 2);
  const std::string bias = direction(out, 3);
  Names inputs = {input, input_weights, recurrent_weights, bias,
                  out.has(lengths) ? out.cast(lengths, DType::kI32) : std::string()};
  for (const std::size_t i : states) inputs.push_back(state(out, i));
  Names results;
  const std::size_t count = out.node().results.size();
  for (std::size_t i = 0; i < count; ++i) results.push_back(out.wanted(i) ? out.name("directions") : std::string());
  if (results == Names(count)) results[0] = out.name("directions");
  out.writer().node(op_type, inputs, results, settings);
  for (std::size_t i = 0; i < count; ++i) {
    if (results[i].empty()) continue;
    out.writer().node("Squeeze", {results[i], out.integers("axes", {i == 0 ? 1 : 0})}, {out.out(i)});
  }
  return {};
}

}  // namespace

namespace write {

Status lstm(NodeWriter& out) {
  Settings settings;
  if (out.attributes().flag("input_forget")) settings.emplace_back("input_forget", std::int64_t{1});
  return recurrent(out, "LSTM", 7, {4, 5, 6}, std::move(settings));
}

Status gru(NodeWriter& out) {
  Settings settings;
  if (out.attributes().flag("linear_before_reset")) settings.emplace_back("linear_before_reset", std::int64_t{1});
  return recurrent(out, "GRU", 5, {4}, std::move(settings));
}

Status rnn(NodeWriter& out) {
  Settings settings;
  if (out.attributes().text("function") == "relu")
    settings.emplace_back("activations", std::vector<std::string>{"Relu"});
  return recurrent(out, "RNN", 5, {4}, std::move(settings));
}

Status rotary_embedding(NodeWriter& out) {
  const Shape& shape = out.shape();
  const std::int64_t size = shape.back();
  const std::int64_t asked = out.attributes().integer("rotary_embedding_dim");
  const std::int64_t dim = asked == 0 ? size : asked;
  const bool interleaved = out.attributes().flag("interleaved");
  const auto last = static_cast<std::int64_t>(out.rank()) - 1;
  if (dim == 0) {
    out.emit("Identity", {out.in(0)});
    return {};
  }
  std::string turned = out.in(0);
  std::string rest;
  if (dim < size) {
    turned = out.name("turned");
    rest = out.name("rest");
    out.writer().node("Split", {out.in(0), out.integers("sizes", {dim, size - dim})}, {turned, rest}, {{"axis", last}});
    out.behind("Concat", {rest}, {{"axis", last}});
  }
  // The angles, [batch or 1, positions, pairs], broadcast over the heads.
  Shape angles = out.shape(1);
  if (angles.size() == 3 && shape.size() == 4) angles.insert(angles.begin() + 1, 1);
  if (angles.size() == 3 && shape.size() == 2) angles.erase(angles.begin());
  Shape pairs = shape;
  pairs.back() = dim;
  const Shape joined = pairs;
  if (interleaved) {
    angles.push_back(1);
    pairs.back() = dim / 2;
    pairs.push_back(2);
    turned = out.inner("Reshape", {turned, out.integers("pairs", pairs)}, "paired");
  }
  const std::int64_t axis = interleaved ? last + 1 : last;
  const std::int64_t part = interleaved ? 1 : dim / 2;
  const std::string a = out.name("first");
  const std::string b = out.name("second");
  out.writer().node("Split", {turned, out.integers("halves", {part, part})}, {a, b}, {{"axis", axis}});
  const std::string cos = out.reshaped(1, angles);
  const std::string sin = out.reshaped(2, angles);
  const auto product = [&out](const std::string& x, const std::string& y) {
    return out.inner("Mul", {x, y}, "product");
  };
  const std::string ac = product(a, cos);
  const std::string bs = product(b, sin);
  const std::string first = out.inner("Sub", {ac, bs}, "first_turned");
  const std::string as = product(a, sin);
  const std::string bc = product(b, cos);
  const std::string second = out.inner("Add", {as, bc}, "second_turned");
  if (!interleaved) {
    out.emit("Concat", {first, second}, {{"axis", axis}});
    return {};
  }
  const std::string both = out.inner("Concat", {first, second}, "both", {{"axis", axis}});
  out.emit("Reshape", {both, out.integers("joined", joined)});
  return {};
}

}  // namespace write
}  // namespace htpipe::onnx_export
