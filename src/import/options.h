// What a user may fix while a model is imported, and what an import gives back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace htpipe {

struct ImportOptions {
  /// Sizes of symbolic dimensions: by the dimension's name ("batch"), or by place ("INPUT.AXIS").
  std::map<std::string, std::int64_t, std::less<>> dims;
  /// Whole shapes of inputs; wins over what the file declares.
  std::map<std::string, Shape, std::less<>> shapes;
  /// Inputs that become constants ("--fix sr=16000"): the model is specialised to these values.
  std::map<std::string, Tensor, std::less<>> fix;
};

struct Imported {
  Graph graph;
  /// What the user should know: declared shapes that are wrong, values computed in another type, parts left out.
  std::vector<std::string> warnings;
};

}  // namespace htpipe
