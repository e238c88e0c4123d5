// Fuzz target of the text form of graphs and of the passes. What the parser accepts must verify, print and read back as
// the same text, and go through the default passes without a crash. The files of tests/golden are its corpus: an input
// ends at a line "----".
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace {

htpipe::Tensor find_constant(const htpipe::Graph& graph, std::string_view sha, const htpipe::TensorType& type) {
  for (const auto& value : graph.values()) {
    if (value->is_constant() && value->type == type &&
        htpipe::sha256_hex(value->constant.bytes()).substr(0, 16) == sha) {
      return value->constant;
    }
  }
  return {};
}

void check_print(const htpipe::Graph& graph) {
  const std::string text = print(graph);
  const auto again = htpipe::parse_graph(
      text, [&graph](std::string_view sha, const htpipe::TensorType& type) { return find_constant(graph, sha, type); });
  if (!again || print(*again) != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  htpipe::register_all_ops();
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto graph = htpipe::parse_graph(text.substr(0, text.find("\n----\n")));
  if (!graph) return 0;
  check_print(*graph);
  // Errors are allowed here only where an operator's rule refuses what a pass builds; a crash never is.
  if (htpipe::run_passes(*graph)) check_print(*graph);
  return 0;
}
