#include "conformance_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "conformance_call.h"
#include "conformance_reference_movement.h"

namespace htpipe::conformance {
namespace {

double activated(const Attributes& attributes, double x) {
  const std::string& name = attributes.text("activation");
  if (name == "relu") return std::max(x, 0.0);
  if (name == "relu6") return std::min(std::max(x, 0.0), 6.0);
  return x;
}

Numbers fully_connected(const Call& call) {
  const Index k = call.shape(1)[1];
  const Index m = call.shape(1)[0];
  Numbers result(at(element_count(call.out_shape())));
  for (Index i = 0; i < static_cast<Index>(result.size()); ++i) {
    double sum = call.in.size() > 2 && call.in[2] != nullptr ? (*call.in[2])[at(i % m)] : 0;
    for (Index j = 0; j < k; ++j) sum += (*call.in[0])[at(i / m * k + j)] * (*call.in[1])[at(i % m * k + j)];
    result[at(i)] = activated(call.attributes(), sum);
  }
  return result;
}

/// Element of `shape` at the last axes of `position`; axes of size 1 repeat.
std::size_t broadcast_index(const Shape& shape, const Shape& position) {
  Index index = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const Index p = position[position.size() - shape.size() + axis];
    index = index * shape[axis] + (shape[axis] == 1 ? 0 : p);
  }
  return at(index);
}

/// The spatial part of a shape or a position, and its channel.
Shape spatial(const Shape& s, bool nhwc) {
  return nhwc ? Shape(s.begin() + 1, s.end() - 1) : Shape(s.begin() + 2, s.end());
}
Index channel(const Shape& s, bool nhwc) { return nhwc ? s.back() : s[1]; }
Shape position_of(Index n, Index c, const Shape& place, bool nhwc) {
  Shape position = {n};
  if (!nhwc) position.push_back(c);
  position.insert(position.end(), place.begin(), place.end());
  if (nhwc) position.push_back(c);
  return position;
}

/// Calls body(cell) for every position in a box.
template <typename Body>
void for_each_position(const Shape& box, Body body) {
  for (Index i = 0; i < element_count(box); ++i) body(unravel(box, i));
}

bool inside(const Shape& place, const Shape& box) {
  for (std::size_t axis = 0; axis < box.size(); ++axis) {
    if (place[axis] < 0 || place[axis] >= box[axis]) return false;
  }
  return true;
}

/// Where cell `cell` of the window at `place` lies in the image.
Shape window_cell(const Attributes& attributes, const Shape& place, const Shape& cell) {
  const auto& stride = attributes.integers("stride");
  const auto& pad = attributes.integers("pad_amount");
  const bool dilated = attributes.find("dilation") != nullptr;
  Shape result(place.size());
  for (std::size_t i = 0; i < place.size(); ++i) {
    const Index step = dilated ? attributes.integers("dilation")[i] : 1;
    result[i] = place[i] * stride[i] - pad[2 * i] + cell[i] * step;
  }
  return result;
}

double bias_of(const Call& call, Index c) {
  return call.in.size() > 2 && call.in[2] != nullptr ? (*call.in[2])[at(c)] : 0;
}

/// Conv2d, Conv3d and DepthWiseConv2d.
Numbers convolution(const Call& call, bool depthwise) {
  const bool nhwc = call.nhwc();
  const Shape& in = call.shape(0);
  const Shape& w = call.shape(1);
  const Shape kernel = nhwc ? Shape(w.begin(), w.end() - 2) : Shape(w.begin() + 2, w.end());
  const Index out_channels = channel(call.out_shape(), nhwc);
  const Index groups = depthwise ? channel(in, nhwc) : call.attributes().integer("group");
  const Index per_group = channel(in, nhwc) / groups;
  Numbers result(at(element_count(call.out_shape())));
  for (Index out = 0; out < static_cast<Index>(result.size()); ++out) {
    const Shape to = unravel(call.out_shape(), out);
    const Index c = channel(to, nhwc);
    const Index group = c / (out_channels / groups);
    double sum = bias_of(call, c);
    for_each_position(kernel, [&](const Shape& cell) {
      const Shape place = window_cell(call.attributes(), spatial(to, nhwc), cell);
      if (!inside(place, spatial(in, nhwc))) return;
      for (Index i = 0; i < per_group; ++i) {
        Shape weight = cell;
        weight.insert(nhwc ? weight.end() : weight.begin(), {nhwc ? i : c, nhwc ? c : i});
        sum += (*call.in[0])[broadcast_index(in, position_of(to[0], group * per_group + i, place, nhwc))] *
               (*call.in[1])[broadcast_index(w, weight)];
      }
    });
    result[at(out)] = activated(call.attributes(), sum);
  }
  return result;
}

/// TransposeConv2d and TransposeConv3d: every input element adds its multiple of the weights to the result.
Numbers transposed_convolution(const Call& call) {
  const bool nhwc = call.nhwc();
  const Shape& in = call.shape(0);
  const Shape& w = call.shape(1);
  const Shape& out = call.out_shape();
  const Shape kernel = nhwc ? Shape(w.begin(), w.end() - 2) : Shape(w.begin() + 2, w.end());
  const Index groups = call.attributes().integer("group");
  const Index per_group = channel(out, nhwc) / groups;
  Numbers result(at(element_count(out)));
  for (Index i = 0; i < element_count(in); ++i) {
    const Shape from = unravel(in, i);
    const Index c = channel(from, nhwc);
    const Index group = c / (channel(in, nhwc) / groups);
    for_each_position(kernel, [&](const Shape& cell) {
      const Shape place = window_cell(call.attributes(), spatial(from, nhwc), cell);
      if (!inside(place, spatial(out, nhwc))) return;
      for (Index o = 0; o < per_group; ++o) {
        Shape weight = cell;
        weight.insert(nhwc ? weight.end() : weight.begin(), {c, o});
        result[broadcast_index(out, position_of(from[0], group * per_group + o, place, nhwc))] +=
            (*call.in[0])[at(i)] * (*call.in[1])[broadcast_index(w, weight)];
      }
    });
  }
  for (Index i = 0; i < static_cast<Index>(result.size()); ++i) {
    double& x = result[at(i)];
    x = activated(call.attributes(), x + bias_of(call, channel(unravel(out, i), nhwc)));
  }
  return result;
}

/// A mean counts the cells in the image, or those in the image with its padding.
Numbers pool(const Call& call, const std::string& kind) {
  const bool nhwc = call.nhwc();
  const Shape& in = call.shape(0);
  const auto& size = call.attributes().integers("filter_size");
  const auto& pad = call.attributes().integers("pad_amount");
  const bool count_padding = kind == "PoolAvg" && call.attributes().flag("count_pad_for_edges");
  Numbers result(at(element_count(call.out_shape())));
  for (Index i = 0; i < static_cast<Index>(result.size()); ++i) {
    const Shape to = unravel(call.out_shape(), i);
    double best = -INFINITY;
    double sum = 0;
    double squares = 0;
    double cells = 0;
    for_each_position(Shape(size.begin(), size.end()), [&](const Shape& cell) {
      const Shape place = window_cell(call.attributes(), spatial(to, nhwc), cell);
      Shape shifted = place;
      Shape padded = spatial(in, nhwc);
      for (std::size_t axis = 0; axis < place.size(); ++axis) {
        shifted[axis] += pad[2 * axis];
        padded[axis] += pad[2 * axis] + pad[2 * axis + 1];
      }
      const bool real = inside(place, spatial(in, nhwc));
      if (real || (count_padding && inside(shifted, padded))) cells += 1;
      if (!real) return;
      const double value = (*call.in[0])[broadcast_index(in, position_of(to[0], channel(to, nhwc), place, nhwc))];
      best = std::max(best, value);
      sum += value;
      squares += value * value;
    });
    result[at(i)] = kind == "PoolMax" ? best : kind == "PoolAvg" ? sum / cells : std::sqrt(squares / cells);
  }
  return result;
}

Numbers mat_mul(const Call& call) {
  const bool turn_a = call.attributes().flag("transpose_in0");
  const bool turn_b = call.attributes().flag("transpose_in1");
  const Shape& a = call.shape(0);
  const Index steps = a[a.size() - (turn_a ? 2 : 1)];
  Numbers result(at(element_count(call.out_shape())));
  for (Index i = 0; i < static_cast<Index>(result.size()); ++i) {
    Shape left = unravel(call.out_shape(), i);
    Shape right = left;
    double sum = 0;
    for (Index k = 0; k < steps; ++k) {
      const std::size_t last = left.size() - 1;
      const Shape position = unravel(call.out_shape(), i);
      left[last - 1] = turn_a ? k : position[last - 1];
      left[last] = turn_a ? position[last - 1] : k;
      right[last - 1] = turn_b ? position[last] : k;
      right[last] = turn_b ? k : position[last];
      sum += (*call.in[0])[broadcast_index(a, left)] * (*call.in[1])[broadcast_index(call.shape(1), right)];
    }
    result[at(i)] = sum;
  }
  return result;
}

Numbers concat(const Call& call) {
  const auto axis = at(call.attributes().integer("axis"));
  Numbers result(at(element_count(call.out_shape())));
  Index offset = 0;
  for (std::size_t operand = 0; operand < call.in.size(); ++operand) {
    for (Index i = 0; i < element_count(call.shape(operand)); ++i) {
      Shape position = unravel(call.shape(operand), i);
      position[axis] += offset;
      result[broadcast_index(call.out_shape(), position)] = (*call.in[operand])[at(i)];
    }
    offset += call.shape(operand)[axis];
  }
  return result;
}

Numbers transposed(const Call& call) {
  const auto& perm = call.attributes().integers("perm");
  Numbers result(at(element_count(call.out_shape())));
  for (Index i = 0; i < static_cast<Index>(result.size()); ++i) {
    const Shape to = unravel(call.out_shape(), i);
    Shape from(to.size());
    for (std::size_t axis = 0; axis < to.size(); ++axis) from[at(perm[axis])] = to[axis];
    result[at(i)] = (*call.in[0])[broadcast_index(call.shape(0), from)];
  }
  return result;
}

Numbers batchnorm(const Call& call) {
  const Shape& shape = call.shape(0);
  const std::size_t axis = call.nhwc() ? shape.size() - 1 : 1;
  Numbers result(call.in[0]->size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto channel = at(unravel(shape, static_cast<Index>(i))[axis]);
    result[i] = (*call.in[0])[i] * (*call.in[1])[channel] + (*call.in[2])[channel];
  }
  return result;
}

Numbers evaluate(const Call& call) {
  const std::string op(call.node.op->name);
  if (op == "Conv2d" || op == "Conv3d" || op == "DepthWiseConv2d") return convolution(call, op == "DepthWiseConv2d");
  if (op.rfind("TransposeConv", 0) == 0) return transposed_convolution(call);
  if (op.find("Pool") != std::string::npos) return pool(call, op.substr(0, op.size() - 2));
  if (op == "FullyConnected") return fully_connected(call);
  if (op == "MatMul") return mat_mul(call);
  if (op == "Concat") return concat(call);
  if (op == "Transpose") return transposed(call);
  if (op == "Batchnorm") return batchnorm(call);
  if (op == "Reshape") return *call.in[0];
  if (auto numbers = normalised(call)) return std::move(*numbers);
  if (auto numbers = elementwise(call)) return std::move(*numbers);
  ADD_FAILURE() << "no reference for " << op;
  return Numbers(at(element_count(call.out_shape())));
}

Numbers numbers_of(const Tensor& tensor) {
  Numbers numbers(at(tensor.count()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = tensor.real(static_cast<Index>(i));
  return numbers;
}

}  // namespace

std::vector<std::vector<double>> reference(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::map<const Value*, Numbers> numbers;
  for (std::size_t i = 0; i < inputs.size(); ++i) numbers[graph.inputs()[i]] = numbers_of(inputs[i]);
  for (const auto& value : graph.values()) {
    if (value->is_constant()) numbers[value.get()] = numbers_of(value->constant);
  }
  for (const auto& node : graph.nodes()) {
    Call call{*node, {}};
    for (const Value* operand : node->operands) call.in.push_back(operand == nullptr ? nullptr : &numbers.at(operand));
    auto results = moved(*node, call.in);
    if (!results) results = {{evaluate(call)}};
    for (std::size_t i = 0; i < results->size(); ++i) numbers[node->results[i]] = std::move((*results)[i]);
  }
  std::vector<std::vector<double>> outputs;
  for (const Value* output : graph.outputs()) outputs.push_back(numbers.at(output));
  return outputs;
}

}  // namespace htpipe::conformance
