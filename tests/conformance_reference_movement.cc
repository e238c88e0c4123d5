#include "conformance_reference_movement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "conformance_call.h"

namespace htpipe::conformance {
namespace {

Index ravel(const Shape& shape, const Shape& position) {
  Index index = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) index = index * shape[axis] + position[axis];
  return index;
}

/// A node and the numbers of its operands.
struct Move {
  const Node& node;
  const std::vector<const Numbers*>& in;

  [[nodiscard]] const Shape& shape(std::size_t i) const { return node.operands[i]->type.shape; }
  [[nodiscard]] const Shape& out(std::size_t i = 0) const { return node.results[i]->type.shape; }
  [[nodiscard]] const Attributes& attributes() const { return node.attributes; }
  [[nodiscard]] std::size_t axis() const { return at(attributes().integer("axis")); }
  [[nodiscard]] Index index(Index i, Index size) const {
    const auto value = static_cast<Index>((*in[1])[at(i)]);
    return value < 0 ? value + size : value;
  }
};

/// Every result element is the operand's element at source(position in the result).
template <typename Source>
Numbers picked(const Move& move, Source source, std::size_t result = 0) {
  Numbers numbers(at(element_count(move.out(result))));
  for (Index i = 0; i < static_cast<Index>(numbers.size()); ++i) {
    numbers[at(i)] = (*move.in[0])[at(ravel(move.shape(0), source(unravel(move.out(result), i))))];
  }
  return numbers;
}

/// Where position `i` of a padded axis comes from; -1 = nowhere. One bounce is enough for the cases.
Index unpadded(const std::string& scheme, Index i, Index size) {
  if (i >= 0 && i < size) return i;
  if (scheme == "edge") return i < 0 ? 0 : size - 1;
  if (scheme == "mirror_reflect") return i < 0 ? -i : 2 * size - 2 - i;
  if (scheme == "mirror_symmetric") return i < 0 ? -i - 1 : 2 * size - 1 - i;
  if (scheme == "wrap") return (i + size) % size;
  return -1;
}

Numbers padded(const Move& move) {
  const auto& pad = move.attributes().integers("pad_amount");
  const std::string& scheme = move.attributes().text("scheme");
  Numbers numbers(at(element_count(move.out())));
  for (Index i = 0; i < static_cast<Index>(numbers.size()); ++i) {
    Shape position = unravel(move.out(), i);
    bool inside = true;
    for (std::size_t axis = 0; axis < position.size(); ++axis) {
      position[axis] = unpadded(scheme, position[axis] - pad[2 * axis], move.shape(0)[axis]);
      inside = inside && position[axis] >= 0;
    }
    numbers[at(i)] = inside ? (*move.in[0])[at(ravel(move.shape(0), position))]
                            : static_cast<double>(move.attributes().real("pad_constant_value"));
  }
  return numbers;
}

double met(const std::string& reduction, double there, double update) {
  if (reduction == "add") return there + update;
  if (reduction == "mul") return there * update;
  if (reduction == "max") return std::max(there, update);
  if (reduction == "min") return std::min(there, update);
  return update;
}

Numbers scattered(const Move& move, bool elements) {
  Numbers numbers = *move.in[0];
  const Shape& data = move.shape(0);
  const Shape& indices = move.shape(1);
  for (Index i = 0; i < element_count(move.shape(2)); ++i) {
    Shape position = unravel(move.shape(2), i);
    if (elements) {
      position[move.axis()] = move.index(i, data[move.axis()]);
    } else {
      const Index depth = indices.back();
      const std::size_t lead = indices.size() - 1;
      Index row = 0;
      for (std::size_t axis = 0; axis < lead; ++axis) row = row * indices[axis] + position[axis];
      Shape place;
      for (Index k = 0; k < depth; ++k) place.push_back(move.index(row * depth + k, data[at(k)]));
      place.insert(place.end(), position.begin() + static_cast<std::ptrdiff_t>(lead), position.end());
      position = place;
    }
    double& there = numbers[at(ravel(data, position))];
    there = met(move.attributes().text("reduction"), there, (*move.in[2])[at(i)]);
  }
  return numbers;
}

/// Position in space (row, column, channel of channel-last data) of a position in depth.
Shape space_of(const Attributes& attributes, const Shape& depth, Index channels) {
  const Index height = attributes.integers("block_size")[0];
  const Index width = attributes.integers("block_size")[1];
  const bool dcr = attributes.text("mode") == "dcr";
  const Index cell = dcr ? depth[3] / channels : depth[3] % (height * width);
  const Index channel = dcr ? depth[3] % channels : depth[3] / (height * width);
  return {depth[0], depth[1] * height + cell / width, depth[2] * width + cell % width, channel};
}

/// Channel-last cases only.
Numbers blocks(const Move& move, bool to_space) {
  if (!to_space) {
    return picked(move, [&](const Shape& p) { return space_of(move.attributes(), p, move.shape(0)[3]); });
  }
  Numbers numbers(move.in[0]->size());
  for (Index i = 0; i < static_cast<Index>(numbers.size()); ++i) {
    const Shape to = space_of(move.attributes(), unravel(move.shape(0), i), move.out()[3]);
    numbers[at(ravel(move.out(), to))] = (*move.in[0])[at(i)];
  }
  return numbers;
}

Numbers reduced(const Move& move, const std::string& op) {
  const auto& axes = move.attributes().integers("axes");
  const Index count = element_count(move.shape(0));
  const double start = op == "ReduceProd" ? 1 : op == "ReduceMax" ? -INFINITY : op == "ReduceMin" ? INFINITY : 0;
  Numbers numbers(at(element_count(move.out())), start);
  for (Index i = 0; i < count; ++i) {
    const Shape position = unravel(move.shape(0), i);
    Index place = 0;
    for (std::size_t axis = 0; axis < position.size(); ++axis) {
      const bool gone = std::find(axes.begin(), axes.end(), static_cast<Index>(axis)) != axes.end();
      if (!gone) place = place * move.shape(0)[axis] + position[axis];
    }
    double& there = numbers[at(place)];
    const double x = (*move.in[0])[at(i)];
    if (op == "ReduceMax" || op == "ReduceMin") {
      there = op == "ReduceMax" ? std::max(there, x) : std::min(there, x);
    } else {
      there = op == "ReduceProd" ? there * x : there + (op == "ReduceSumSquare" ? x * x : x);
    }
  }
  const double terms = static_cast<double>(count) / static_cast<double>(numbers.size());
  if (op == "ReduceMean") std::for_each(numbers.begin(), numbers.end(), [terms](double& x) { x /= terms; });
  return numbers;
}

/// The operand's lines along the axis, each handed to body(numbers of the line, its position).
template <typename Body>
void for_each_line(const Move& move, Body body) {
  Shape lines = move.shape(0);
  const Index size = lines[move.axis()];
  lines[move.axis()] = 1;
  for (Index i = 0; i < element_count(lines); ++i) {
    Shape position = unravel(lines, i);
    Numbers line;
    for (Index j = 0; j < size; ++j) {
      position[move.axis()] = j;
      line.push_back((*move.in[0])[at(ravel(move.shape(0), position))]);
    }
    position[move.axis()] = 0;
    body(line, position);
  }
}

std::vector<Numbers> ranked(const Move& move) {
  const Index count = element_count(move.out());
  std::vector<Numbers> results(2, Numbers(at(count)));
  const bool largest = move.attributes().flag("largest");
  for_each_line(move, [&](const Numbers& line, Shape position) {
    std::vector<Index> order(line.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return largest ? line[at(a)] > line[at(b)] : line[at(a)] < line[at(b)]; });
    for (Index k = 0; k < move.attributes().integer("k"); ++k) {
      position[move.axis()] = k;
      const std::size_t place = at(ravel(move.out(), position));
      results[0][place] = line[at(order[at(k)])];
      results[1][place] = static_cast<double>(order[at(k)]);
    }
  });
  return results;
}

Numbers best_of(const Move& move, bool largest) {
  Numbers numbers;
  for_each_line(move, [&](const Numbers& line, const Shape&) {
    const auto best = largest ? std::max_element(line.begin(), line.end()) : std::min_element(line.begin(), line.end());
    numbers.push_back(static_cast<double>(best - line.begin()));
  });
  return numbers;
}

Numbers summed(const Move& move) {
  Numbers numbers(move.in[0]->size());
  for_each_line(move, [&](const Numbers& line, Shape position) {
    const auto size = static_cast<Index>(line.size());
    const bool exclusive = move.attributes().flag("exclusive");
    for (Index j = 0; j < size; ++j) {
      double sum = 0;
      for (Index k = 0; k < size; ++k) {
        const bool before = move.attributes().flag("reverse") ? k > j : k < j;
        if (before || (k == j && !exclusive)) sum += line[at(k)];
      }
      position[move.axis()] = j;
      numbers[at(ravel(move.shape(0), position))] = sum;
    }
  });
  return numbers;
}

Numbers one_hot(const Move& move) {
  Numbers numbers(at(element_count(move.out())));
  for (Index i = 0; i < static_cast<Index>(numbers.size()); ++i) {
    Shape position = unravel(move.out(), i);
    const Index place = position[move.axis()];
    position.erase(position.begin() + static_cast<std::ptrdiff_t>(move.axis()));
    const double index = (*move.in[0])[at(ravel(move.shape(0), position))];
    const bool on = static_cast<Index>(index) == place;
    numbers[at(i)] = static_cast<double>(move.attributes().real(on ? "on_value" : "off_value"));
  }
  return numbers;
}

std::vector<Numbers> split(const Move& move) {
  std::vector<Numbers> results;
  Index begin = 0;
  for (std::size_t part = 0; part < move.node.results.size(); ++part) {
    results.push_back(picked(
        move,
        [&](Shape p) {
          p[move.axis()] += begin;
          return p;
        },
        part));
    begin += move.out(part)[move.axis()];
  }
  return results;
}

Shape gathered(const Move& move, const std::string& op, const Shape& p) {
  const Shape& data = move.shape(0);
  const Shape& indices = move.shape(1);
  const auto lead = [&p](std::size_t from, std::size_t count) {
    return Shape(p.begin() + static_cast<std::ptrdiff_t>(from), p.begin() + static_cast<std::ptrdiff_t>(from + count));
  };
  if (op == "GatherElements") {
    Shape position = p;
    position[move.axis()] = move.index(ravel(indices, p), data[move.axis()]);
    return position;
  }
  if (op == "Gather") {
    const std::size_t axis = move.axis();
    Shape position = lead(0, axis);
    position.push_back(move.index(ravel(indices, lead(axis, indices.size())), data[axis]));
    const Shape rest = lead(axis + indices.size(), p.size() - axis - indices.size());
    position.insert(position.end(), rest.begin(), rest.end());
    return position;
  }
  const auto batch = at(move.attributes().integer("batch_dims"));
  Shape row = lead(0, indices.size() - 1);
  Shape position = lead(0, batch);
  row.push_back(0);
  for (Index k = 0; k < indices.back(); ++k) {
    row.back() = k;
    position.push_back(move.index(ravel(indices, row), data[batch + at(k)]));
  }
  position.insert(position.end(), p.begin() + static_cast<std::ptrdiff_t>(indices.size() - 1), p.end());
  return position;
}

Shape reversed(const Move& move, Shape p) {
  const auto batch = at(move.attributes().integer("batch_axis"));
  const auto time = at(move.attributes().integer("time_axis"));
  const auto length = static_cast<Index>((*move.in[1])[at(p[batch])]);
  if (p[time] < length) p[time] = length - 1 - p[time];
  return p;
}

}  // namespace

std::optional<std::vector<std::vector<double>>> moved(const Node& node, const std::vector<const Numbers*>& operands) {
  const Move move{node, operands};
  const std::string op(node.op->name);
  const auto one = [](Numbers numbers) { return std::vector<Numbers>{std::move(numbers)}; };
  if (op == "StridedSlice") {
    return one(picked(move, [&](Shape p) {
      for (std::size_t axis = 0; axis < p.size(); ++axis) {
        p[axis] = move.attributes().integers("begin")[axis] + p[axis] * move.attributes().integers("strides")[axis];
      }
      return p;
    }));
  }
  if (op == "Tile") {
    return one(picked(move, [&](Shape p) {
      for (std::size_t axis = 0; axis < p.size(); ++axis) p[axis] %= move.shape(0)[axis];
      return p;
    }));
  }
  if (op == "Gather" || op == "GatherElements" || op == "GatherNd") {
    return one(picked(move, [&](const Shape& p) { return gathered(move, op, p); }));
  }
  if (op == "ReverseSequence") return one(picked(move, [&](const Shape& p) { return reversed(move, p); }));
  if (op == "Split") return split(move);
  if (op == "TopK") return ranked(move);
  if (op == "Pad") return one(padded(move));
  if (op == "ScatterElements" || op == "ScatterNd") return one(scattered(move, op == "ScatterElements"));
  if (op == "DepthToSpace" || op == "SpaceToDepth") return one(blocks(move, op == "DepthToSpace"));
  if (op == "CumulativeSum") return one(summed(move));
  if (op == "OneHot") return one(one_hot(move));
  if (op == "Argmax" || op == "Argmin") return one(best_of(move, op == "Argmax"));
  if (op.rfind("Reduce", 0) == 0) return one(reduced(move, op));
  return std::nullopt;
}

}  // namespace htpipe::conformance
