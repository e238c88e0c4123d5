// Growth of the passes with the number of nodes: transformer blocks as exporters take them apart, 2,000 to 20,000 nodes in
// all. (bench/import_nodes_bench.cc has convolutions.) Prints medians, and the passes that take longest at the end.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "bench/bench_tools.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace htpipe {
namespace {

constexpr int kRuns = 3;
constexpr std::size_t kSlowest = 8;

/// Layer normalisation from parts, three projections of it, attention with a scale on either side, a masked and guarded
/// Softmax, GELU by tanh from parts, a residual after each. "#" stands for the number of the block, "@" for its input.
constexpr const char* kBlock = R"(
  %m#_mean = ReduceMean(@) {axes=[2], keep_dims=true}
  %m#_centred = ElementWiseBinary(@, %m#_mean) {operation="subtract"}
  %m#_squared = ElementWiseBinary(%m#_centred, %two) {operation="power"}
  %m#_variance = ReduceMean(%m#_squared) {axes=[2], keep_dims=true}
  %m#_above = ElementWiseBinary(%m#_variance, %epsilon) {operation="add"}
  %m#_root = ElementWiseUnary(%m#_above) {operation="sqrt"}
  %m#_normal = ElementWiseBinary(%m#_centred, %m#_root) {operation="divide"}
  %m#_scaled = ElementWiseBinary(%m#_normal, %gain) {operation="multiply"}
  %m#_norm = ElementWiseBinary(%m#_scaled, %shift) {operation="add"}
  %m#_wq = const f32[16,16] random 1
  %m#_wk = const f32[16,16] random 2
  %m#_wv = const f32[16,16] random 3
  %m#_rows = Reshape(%m#_norm) {shape=[7,16]}
  %m#_q = FullyConnected(%m#_rows, %m#_wq)
  %m#_k = FullyConnected(%m#_rows, %m#_wk)
  %m#_v = FullyConnected(%m#_rows, %m#_wv)
  %m#_qr = Reshape(%m#_q) {shape=[1,7,4,4]}
  %m#_kr = Reshape(%m#_k) {shape=[1,7,4,4]}
  %m#_vr = Reshape(%m#_v) {shape=[1,7,4,4]}
  %m#_qt = Transpose(%m#_qr) {perm=[0,2,1,3]}
  %m#_kt = Transpose(%m#_kr) {perm=[0,2,3,1]}
  %m#_vt = Transpose(%m#_vr) {perm=[0,2,1,3]}
  %m#_qs = ElementWiseBinary(%m#_qt, %root) {operation="multiply"}
  %m#_ks = ElementWiseBinary(%m#_kt, %root) {operation="multiply"}
  %m#_scores = MatMul(%m#_qs, %m#_ks)
  %m#_masked = ElementWiseBinary(%m#_scores, %mask) {operation="add"}
  %m#_soft = Softmax(%m#_masked) {axis=3}
  %m#_nan = IsNan(%m#_soft)
  %m#_safe = ElementWiseSelect(%m#_nan, %zero, %m#_soft)
  %m#_mixed = MatMul(%m#_safe, %m#_vt)
  %m#_back = Transpose(%m#_mixed) {perm=[0,2,1,3]}
  %m#_joined = Reshape(%m#_back) {shape=[7,16]}
  %m#_wo = const f32[16,16] random 4
  %m#_o = FullyConnected(%m#_joined, %m#_wo)
  %m#_or = Reshape(%m#_o) {shape=[1,7,16]}
  %m#_first = ElementWiseBinary(@, %m#_or) {operation="add"}
  %m#_wu = const f32[32,16] random 5
  %m#_ur = Reshape(%m#_first) {shape=[7,16]}
  %m#_u = FullyConnected(%m#_ur, %m#_wu)
  %m#_cube = ElementWiseBinary(%m#_u, %three) {operation="power"}
  %m#_small = ElementWiseBinary(%m#_cube, %tiny) {operation="multiply"}
  %m#_bent = ElementWiseBinary(%m#_u, %m#_small) {operation="add"}
  %m#_wide = ElementWiseBinary(%m#_bent, %factor) {operation="multiply"}
  %m#_tanh = ElementWiseNeuron(%m#_wide) {operation="tanh"}
  %m#_plus = ElementWiseBinary(%m#_tanh, %one) {operation="add"}
  %m#_half = ElementWiseBinary(%m#_u, %one_half) {operation="multiply"}
  %m#_gelu = ElementWiseBinary(%m#_half, %m#_plus) {operation="multiply"}
  %m#_wd = const f32[16,32] random 6
  %m#_d = FullyConnected(%m#_gelu, %m#_wd)
  %m#_dr = Reshape(%m#_d) {shape=[1,7,16]}
  %m#_out = ElementWiseBinary(%m#_first, %m#_dr) {operation="add"}
)";
constexpr int kNodesOfBlock = 45;

std::string text_of(int blocks) {
  std::string text = fmt::format("graph @blocks(%x: f32[1,7,16], %mask: f32[1,1,7,7]) -> (%m{}_out) {{\n", blocks - 1);
  text += R"(  %gain = const f32[16] random 7
  %shift = const f32[16] random 8
  %zero = const f32[] [0]
  %one = const f32[] [1]
  %two = const f32[] [2]
  %three = const f32[] [3]
  %one_half = const f32[] [0.5]
  %tiny = const f32[] [0.044715]
  %factor = const f32[] [0.7978846]
  %root = const f32[] [0.70710677]
  %epsilon = const f32[] [1e-05])";
  for (int block = 0; block < blocks; ++block) {
    const std::string input = block == 0 ? "%x" : fmt::format("%m{}_out", block - 1);
    for (const char* at = kBlock; *at != '\0'; ++at) {
      if (*at == '#') {
        text += std::to_string(block);
      } else if (*at == '@') {
        text += input;
      } else {
        text += *at;
      }
    }
  }
  return text + "}\n";
}

Status run() {
  register_all_ops();
  fmt::print("{:>8} {:>10} {:>12} {:>8}\n", "nodes", "passes s", "us per node", "left");
  double first = 0;
  double last = 0;
  std::map<std::string, double> by_pass;
  for (const int wanted : {2000, 5000, 10000, 20000}) {
    HTPIPE_TRY(const Graph graph, parse_graph(text_of((wanted + kNodesOfBlock - 1) / kNodesOfBlock)));
    const std::size_t nodes = graph.nodes().size();
    std::vector<double> seconds;
    std::size_t left = 0;
    for (int i = 0; i < kRuns; ++i) {
      Graph copy = graph.clone();
      by_pass.clear();
      Status status;
      seconds.push_back(bench::seconds_of([&] {
        auto records = run_passes(copy);
        if (!records) {
          status = fail(std::move(records.error()));
          return;
        }
        for (const PassRecord& record : *records) by_pass[record.name] += record.time_ms;
      }));
      HTPIPE_CHECK_OK(status);
      left = copy.nodes().size();
    }
    last = bench::median(seconds) / static_cast<double>(nodes);
    if (first == 0) first = last;
    fmt::print("{:>8} {:>10.3f} {:>12.1f} {:>8}\n", nodes, bench::median(seconds), 1e6 * last, left);
  }
  fmt::print("time per node, most against fewest nodes: {:.2f}\n\n", last / first);
  std::vector<std::pair<double, std::string>> slowest;
  for (const auto& [name, ms] : by_pass) slowest.emplace_back(ms, name);
  std::sort(slowest.rbegin(), slowest.rend());
  for (std::size_t i = 0; i < std::min(kSlowest, slowest.size()); ++i) {
    fmt::print("{:>10.1f} ms  {}\n", slowest[i].first, slowest[i].second);
  }
  return {};
}

}  // namespace
}  // namespace htpipe

int main() {
  if (const auto status = htpipe::run(); !status) {
    fmt::print(stderr, "{}\n", status.error().summary());
    return 1;
  }
}
