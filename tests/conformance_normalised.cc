// Plain loops for Softmax, the normalising operators and Resize: for every element, all elements that belong with it are
// looked for by their positions.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "conformance_call.h"

namespace htpipe::conformance {
namespace {

/// Whether elements at positions `a` and `b` are normalised together.
using Together = std::function<bool(const Shape& a, const Shape& b)>;

Together along_axes(const std::vector<Index>& axes) {
  return [axes](const Shape& a, const Shape& b) {
    for (std::size_t axis = 0; axis < a.size(); ++axis) {
      if (a[axis] != b[axis] && std::find(axes.begin(), axes.end(), static_cast<Index>(axis)) == axes.end())
        return false;
    }
    return true;
  };
}

std::size_t channel_axis(const Call& call) { return call.nhwc() ? call.shape(0).size() - 1 : 1; }

/// Groups of channels of one image; `group` = 0: every channel alone.
Together along_channels(const Call& call, Index group) {
  const std::size_t axis = channel_axis(call);
  const Index channels = call.shape(0)[axis];
  const Index of_group = group == 0 ? 1 : channels / group;
  return [=](const Shape& a, const Shape& b) { return a[0] == b[0] && a[axis] / of_group == b[axis] / of_group; };
}

/// result[i] = finish(x, members, i) with all elements that belong with element i.
Numbers for_each_group(const Call& call, const Together& together,
                       const std::function<double(double x, const Numbers& members, std::size_t i)>& finish) {
  const Numbers& in = *call.in[0];
  std::vector<Shape> positions;
  for (std::size_t i = 0; i < in.size(); ++i) positions.push_back(unravel(call.shape(0), static_cast<Index>(i)));
  Numbers result(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    Numbers members;
    for (std::size_t j = 0; j < in.size(); ++j) {
      if (together(positions[i], positions[j])) members.push_back(in[j]);
    }
    result[i] = finish(in[i], members, i);
  }
  return result;
}

double mean_of(const Numbers& members, double power, double from) {
  double sum = 0;
  for (const double x : members) sum += std::pow(x - from, power);
  return sum / static_cast<double>(members.size());
}

/// Element of gamma or beta for element i: its position along `axes`, or its channel.
double parameter(const Call& call, std::size_t operand, std::size_t i, double absent) {
  if (operand >= call.in.size() || call.in[operand] == nullptr) return absent;
  const Shape position = unravel(call.shape(0), static_cast<Index>(i));
  const auto* axes = call.attributes().find("axes");
  if (axes == nullptr) return (*call.in[operand])[at(position[channel_axis(call)])];
  Index index = 0;
  for (std::size_t axis = 0; axis < position.size(); ++axis) {
    const auto& list = std::get<std::vector<Index>>(*axes);
    if (std::find(list.begin(), list.end(), static_cast<Index>(axis)) == list.end()) continue;
    index = index * call.shape(0)[axis] + position[axis];
  }
  return (*call.in[operand])[at(index)];
}

double real(const Call& call, const char* name) { return static_cast<double>(call.attributes().real(name)); }

Numbers softmax(const Call& call, bool logarithm) {
  const double beta = real(call, "beta");
  return for_each_group(call, along_axes({call.attributes().integer("axis")}),
                        [&](double x, const Numbers& members, std::size_t) {
                          double sum = 0;
                          for (const double y : members) sum += std::exp(beta * (y - x));
                          return logarithm ? -std::log(sum) : 1 / sum;
                        });
}

Numbers norm(const Call& call, const std::string& op) {
  const Together together = op == "InstanceNorm" ? along_channels(call, 0)
                            : op == "GroupNorm"  ? along_channels(call, call.attributes().integer("group"))
                                                 : along_axes(call.attributes().integers("axes"));
  const double epsilon = real(call, "epsilon");
  return for_each_group(call, together, [&](double x, const Numbers& members, std::size_t i) {
    if (op == "L2Norm") {
      return x / std::max(std::sqrt(mean_of(members, 2, 0) * static_cast<double>(members.size())), epsilon);
    }
    const double mean = op == "RmsNorm" ? 0 : mean_of(members, 1, 0);
    const double scaled = (x - mean) / std::sqrt(mean_of(members, 2, mean) + epsilon);
    return scaled * parameter(call, 1, i, 1) + parameter(call, 2, i, 0);
  });
}

Numbers lrn(const Call& call) {
  const std::size_t axis = channel_axis(call);
  const Index radius = call.attributes().integer("radius");
  const Index after = call.attributes().integer("radius_after");
  Numbers result(call.in[0]->size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Shape own = unravel(call.shape(0), static_cast<Index>(i));
    double sum = 0;
    for (std::size_t j = 0; j < result.size(); ++j) {
      const Shape other = unravel(call.shape(0), static_cast<Index>(j));
      const Index distance = other[axis] - own[axis];
      Shape same = other;
      same[axis] = own[axis];
      if (same == own && distance >= -radius && distance <= (after < 0 ? radius : after))
        sum += (*call.in[0])[j] * (*call.in[0])[j];
    }
    result[i] = (*call.in[0])[i] / std::pow(real(call, "bias") + real(call, "alpha") * sum, real(call, "beta"));
  }
  return result;
}

/// Weight of input `from` for output position `to` along one axis: linear and cubic, edges repeated, and nearest by
/// floor(x + 1/2) or, in the mode floor, floor(x).
double share(const Call& call, Index to, Index out, Index from, Index in) {
  const std::string& transformation = call.attributes().text("transformation_mode");
  const double ratio = static_cast<double>(in) / static_cast<double>(out);
  double x = (static_cast<double>(to) + 0.5) * ratio - 0.5;
  if (transformation == "align_corners")
    x = out > 1 ? static_cast<double>(to) * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (transformation == "asymmetric") x = static_cast<double>(to) * ratio;
  const std::string& mode = call.attributes().text("interpolation_mode");
  if (mode == "nearest") {
    const bool down = call.attributes().text("nearest_mode") == "floor";
    return static_cast<Index>(std::clamp(down ? std::floor(x + 1e-9) : std::ceil(x - 0.5 - 1e-9), 0.0,
                                         static_cast<double>(in - 1))) == from
               ? 1
               : 0;
  }
  double sum = 0;
  for (Index i = static_cast<Index>(std::floor(x)) - 2; i < static_cast<Index>(std::floor(x)) + 4; ++i) {
    if (std::clamp<Index>(i, 0, in - 1) != from) continue;
    const double d = std::abs(static_cast<double>(i) - x);
    if (mode == "linear") {
      sum += std::max(1 - d, 0.0);
    } else {
      const double a = real(call, "cubic_coeff");
      if (d <= 1) sum += (a + 2) * d * d * d - (a + 3) * d * d + 1;
      if (d > 1 && d < 2) sum += a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a;
    }
  }
  return sum;
}

Numbers resize(const Call& call) {
  const Shape& in = call.shape(0);
  const Shape& out = call.out_shape();
  Numbers result(at(element_count(out)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Shape to = unravel(out, static_cast<Index>(i));
    for (std::size_t j = 0; j < call.in[0]->size(); ++j) {
      const Shape from = unravel(in, static_cast<Index>(j));
      double weight = 1;
      for (std::size_t axis = 0; axis < in.size() && weight != 0; ++axis) {
        const bool spatial = axis != 0 && axis != channel_axis(call);
        weight *= spatial ? share(call, to[axis], out[axis], from[axis], in[axis]) : (from[axis] == to[axis] ? 1 : 0);
      }
      result[i] += weight * (*call.in[0])[j];
    }
  }
  return result;
}

}  // namespace

std::optional<Numbers> normalised(const Call& call) {
  const std::string op(call.node.op->name);
  if (op == "Softmax" || op == "LogSoftmax") return softmax(call, op == "LogSoftmax");
  if (op == "Lrn") return lrn(call);
  if (op == "Resize") return resize(call);
  if (op == "LayerNorm" || op == "RmsNorm" || op == "L2Norm" || op == "InstanceNorm" || op == "GroupNorm") {
    return norm(call, op);
  }
  return std::nullopt;
}

}  // namespace htpipe::conformance
