// The text form of a graph: what `htpipe info --graph` prints and what tests are written in.
//
//   graph @tiny(%x: f32[1,3,32,32]) -> (%y) {
//     %w = const f32[8,3,3,3] sha 9f2c41aa01234567
//     %b = const f32[2] [0.5,-1]
//     %c = Conv2d(%x, %w, _) {stride=[1,1]} : f32[1,8,30,30] @ "features.0" line "net.py:7"
//   }
//
// Constants of up to 16 elements stand inline, larger ones by digest. When reading, `splat 0.5` and `random 7`
// (uniform in [-1,1) or among 8-bit integers, seed 7) are accepted too, up to 2^24 elements. `_` is an absent optional
// operand. `#` begins a comment. Names and texts may stand between quotation marks: %"odd name".
// Invariant: parse(print(g)) prints the same text.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace htpipe {

[[nodiscard]] std::string print(const Graph& graph);

/// Finds the bytes behind a digest; an empty tensor when unknown.
using BlobSource = std::function<Tensor(std::string_view sha, const TensorType& type)>;

/// Reads the text form and verifies the graph. Errors: graph-syntax with the line; those of `verify`.
Result<Graph> parse_graph(std::string_view text, const BlobSource& blobs = {});

}  // namespace htpipe
