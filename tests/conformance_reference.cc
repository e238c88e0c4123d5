#include "conformance_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "conformance_call.h"

namespace htpipe::conformance {
namespace {

/// Position of image n, channel c, row y, column x in a rank-4 tensor of either layout.
std::size_t pixel(const Shape& s, bool nhwc, Index n, Index c, Index y, Index x) {
  return at(nhwc ? ((n * s[1] + y) * s[2] + x) * s[3] + c : ((n * s[1] + c) * s[2] + y) * s[3] + x);
}

double activated(const Attributes& attributes, double x) {
  const std::string& name = attributes.text("activation");
  if (name == "relu") return std::max(x, 0.0);
  if (name == "relu6") return std::min(std::max(x, 0.0), 6.0);
  return x;
}

/// Calls body(n, channel, row, column) for every element of a rank-4 result.
template <typename Body>
void for_each_pixel(const Shape& s, bool nhwc, Body body) {
  for (Index n = 0; n < s[0]; ++n) {
    for (Index c = 0; c < s[nhwc ? 3 : 1]; ++c) {
      for (Index y = 0; y < s[nhwc ? 1 : 2]; ++y) {
        for (Index x = 0; x < s[nhwc ? 2 : 3]; ++x) body(n, c, y, x);
      }
    }
  }
}

Numbers convolution(const Call& call, bool depthwise) {
  const bool nhwc = call.nhwc();
  const Shape& in = call.shape(0);
  const Shape& w = call.shape(1);
  const Shape& out = call.out_shape();
  const auto& stride = call.attributes().integers("stride");
  const auto& pad = call.attributes().integers("pad_amount");
  const auto& dilation = call.attributes().integers("dilation");
  const Index height = in[nhwc ? 1 : 2];
  const Index width = in[nhwc ? 2 : 3];
  const Index channels = in[nhwc ? 3 : 1];
  const Index out_channels = out[nhwc ? 3 : 1];
  const Index groups = depthwise ? channels : call.attributes().integer("group");
  const Index per_group = channels / groups;
  Numbers result(at(element_count(out)));
  for_each_pixel(out, nhwc, [&](Index n, Index c, Index y, Index x) {
    double sum = call.in.size() > 2 && call.in[2] != nullptr ? (*call.in[2])[at(c)] : 0;
    const Index group = c / (out_channels / groups);
    for (Index kh = 0; kh < w[nhwc ? 0 : 2]; ++kh) {
      for (Index kw = 0; kw < w[nhwc ? 1 : 3]; ++kw) {
        const Index iy = y * stride[0] - pad[0] + kh * dilation[0];
        const Index ix = x * stride[1] - pad[2] + kw * dilation[1];
        if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
        for (Index i = 0; i < per_group; ++i) {
          const Index weight =
              nhwc ? ((kh * w[1] + kw) * w[2] + i) * w[3] + c : ((c * w[1] + i) * w[2] + kh) * w[3] + kw;
          sum += (*call.in[0])[pixel(in, nhwc, n, group * per_group + i, iy, ix)] * (*call.in[1])[at(weight)];
        }
      }
    }
    result[pixel(out, nhwc, n, c, y, x)] = activated(call.attributes(), sum);
  });
  return result;
}

Numbers pool(const Call& call, bool maximum) {
  const bool nhwc = call.nhwc();
  const Shape& in = call.shape(0);
  const Shape& out = call.out_shape();
  const auto& size = call.attributes().integers("filter_size");
  const auto& stride = call.attributes().integers("stride");
  const auto& pad = call.attributes().integers("pad_amount");
  Numbers result(at(element_count(out)));
  for_each_pixel(out, nhwc, [&](Index n, Index c, Index y, Index x) {
    double best = -INFINITY;
    double sum = 0;
    double cells = 0;
    for (Index iy = y * stride[0] - pad[0]; iy < y * stride[0] - pad[0] + size[0]; ++iy) {
      for (Index ix = x * stride[1] - pad[2]; ix < x * stride[1] - pad[2] + size[1]; ++ix) {
        if (iy < 0 || iy >= in[nhwc ? 1 : 2] || ix < 0 || ix >= in[nhwc ? 2 : 3]) continue;
        const double value = (*call.in[0])[pixel(in, nhwc, n, c, iy, ix)];
        best = std::max(best, value);
        sum += value;
        cells += 1;
      }
    }
    if (!maximum && call.attributes().flag("count_pad_for_edges")) cells = static_cast<double>(size[0] * size[1]);
    result[pixel(out, nhwc, n, c, y, x)] = maximum ? best : sum / cells;
  });
  return result;
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

double binary(const std::string& operation, double a, double b) {
  if (operation == "add") return a + b;
  if (operation == "subtract") return a - b;
  if (operation == "multiply") return a * b;
  if (operation == "maximum") return std::max(a, b);
  if (operation == "minimum") return std::min(a, b);
  ADD_FAILURE() << "no reference for " << operation;
  return NAN;
}

double neuron(const Attributes& attributes, double x) {
  const std::string& operation = attributes.text("operation");
  if (operation == "relu") return std::max(x, 0.0);
  if (operation == "relu_min_max") {
    return std::min(std::max(x, static_cast<double>(attributes.real("min_value"))),
                    static_cast<double>(attributes.real("max_value")));
  }
  if (operation == "sigmoid") return 1 / (1 + std::exp(-x));
  if (operation == "tanh") return (std::exp(2 * x) - 1) / (std::exp(2 * x) + 1);
  if (operation == "gelu") return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  if (operation == "hard_sigmoid") return std::min(std::max(x + 3, 0.0), 6.0) / 6;
  if (operation == "hard_swish") return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
  ADD_FAILURE() << "no reference for " << operation;
  return NAN;
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
  if (op == "Conv2d" || op == "DepthWiseConv2d") return convolution(call, op != "Conv2d");
  if (op == "PoolMax2d" || op == "PoolAvg2d") return pool(call, op == "PoolMax2d");
  if (op == "FullyConnected") return fully_connected(call);
  if (op == "MatMul") return mat_mul(call);
  if (op == "Concat") return concat(call);
  if (op == "Transpose") return transposed(call);
  if (op == "Batchnorm") return batchnorm(call);
  if (op == "Reshape") return *call.in[0];
  if (auto numbers = normalised(call)) return std::move(*numbers);
  Numbers result(at(element_count(call.out_shape())));
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (op == "ElementWiseBinary") {
      const Shape position = unravel(call.out_shape(), static_cast<Index>(i));
      const double a = (*call.in[0])[broadcast_index(call.shape(0), position)];
      const double b = (*call.in[1])[broadcast_index(call.shape(1), position)];
      result[i] = activated(call.attributes(), binary(call.attributes().text("operation"), a, b));
    } else if (op == "ElementWiseNeuron") {
      result[i] = neuron(call.attributes(), (*call.in[0])[i]);
    } else {
      ADD_FAILURE() << "no reference for " << op;
      break;
    }
  }
  return result;
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
    numbers[node->result()] = evaluate(call);
  }
  std::vector<std::vector<double>> outputs;
  for (const Value* output : graph.outputs()) outputs.push_back(numbers.at(output));
  return outputs;
}

}  // namespace htpipe::conformance
