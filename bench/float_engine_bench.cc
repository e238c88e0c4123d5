// Where the time of a float network goes: the least time of each node, summed by operator, and the slowest nodes.
// float_engine_bench [MODEL [RUNS [DIM=SIZE ...]]]: a model file of any format; inputs are filled with small numbers.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/parallel.h"
#include "bench/bench_tools.h"
#include "exec/program.h"
#include "import/import_model.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace htpipe {
namespace {

using Clock = std::chrono::steady_clock;

Tensor filled(const TensorType& type) {
  Tensor tensor(type);
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (type.dtype == DType::kF32) {
      tensor.mutable_data<float>()[static_cast<std::size_t>(i)] = std::sin(static_cast<float>(i) * 0.37F);
    } else if (type.dtype == DType::kI64) {
      tensor.mutable_data<std::int64_t>()[static_cast<std::size_t>(i)] = 1;
    }
  }
  return tensor;
}

std::string kind_of(const Node& node) {
  std::string kind(node.op->name);
  if (node.attributes.find("operation") != nullptr) kind += " " + node.attributes.text("operation");
  return kind;
}

struct Row {
  std::string text;
  double seconds = 0;
  int count = 0;
};

void print_rows(std::vector<Row> rows, std::size_t most, double all) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  if (rows.size() > most) rows.resize(most);
  for (const Row& row : rows) {
    fmt::print("{:8.3f} ms {:5.1f} % {:4} {}\n", row.seconds * 1e3, 100 * row.seconds / all, row.count, row.text);
  }
}

Status run(const std::string& path, int runs, const ImportOptions& options) {
  register_all_ops();
  HTPIPE_TRY(ImportedModel model, import_model(path, options));
  HTPIPE_CHECK_OK(run_passes(model.graph));
  HTPIPE_TRY(const Program program, Program::make(model.graph, 0));
  Program::Workspace workspace(program, thread_count());
  std::vector<Tensor> inputs;
  for (const Value* input : model.graph.inputs()) inputs.push_back(filled(input->type));

  std::unordered_map<const Value*, std::vector<double>> times;
  std::vector<double> totals;
  for (int i = 0; i < runs + 2; ++i) {
    Clock::time_point last = Clock::now();
    const auto trace = [&](const Value& value, const Tensor& /*tensor*/) {
      const Clock::time_point now = Clock::now();
      if (i >= 2) times[&value].push_back(std::chrono::duration<double>(now - last).count());
      last = now;
    };
    Status status;
    const double seconds = bench::seconds_of([&] {
      if (const auto outputs = program.run(workspace, inputs, trace); !outputs) status = fail(outputs.error());
    });
    HTPIPE_CHECK_OK(status);
    if (i >= 2) totals.push_back(seconds);
  }
  std::map<std::string, Row> kinds;
  std::vector<Row> nodes;
  double all = 0;
  for (const auto& node : model.graph.nodes()) {
    const std::vector<double>& found = times[node->results[0]];
    const double seconds = *std::min_element(found.begin(), found.end());
    Row& kind = kinds[kind_of(*node)];
    kind.text = kind_of(*node);
    kind.seconds += seconds;
    ++kind.count;
    all += seconds;
    std::string text = kind_of(*node);
    for (const Value* operand : node->operands) {
      if (operand != nullptr) text += " " + to_string(operand->type.shape);
    }
    const double macs =
        node->op->macs ? static_cast<double>(node->op->macs(NodeTypes(*node).view(), NodeTypes(*node).results())) : 0;
    nodes.push_back(
        {fmt::format("{} -> {} {:.1f} GMAC/s", text, to_string(node->results[0]->type.shape), macs / seconds / 1e9),
         seconds, 1});
  }
  fmt::print("{} threads, {} runs: median {:.3f} ms, least {:.3f} ms, sum of least {:.3f} ms, arena {:.2f} MB\n",
             thread_count(), runs, bench::median(totals) * 1e3, *std::min_element(totals.begin(), totals.end()) * 1e3,
             all * 1e3, static_cast<double>(program.arena_bytes()) / 1e6);
  std::vector<Row> rows;
  for (auto& [name, row] : kinds) rows.push_back(row);
  print_rows(rows, 30, all);
  fmt::print("\n");
  print_rows(nodes, 25, all);
  return {};
}

}  // namespace
}  // namespace htpipe

int main(int argc, char** argv) {
  const std::string example = std::string(HTPIPE_SOURCE_DIR) + "/examples/fashion_resnet/fashion_resnet.pt2";
  htpipe::ImportOptions options;
  for (int i = 3; i < argc; ++i) {
    const std::string text = argv[i];
    const auto at = text.find('=');
    if (at != std::string::npos) options.dims[text.substr(0, at)] = std::stoll(text.substr(at + 1));
  }
  const htpipe::Status status = htpipe::run(argc > 1 ? argv[1] : example, argc > 2 ? std::atoi(argv[2]) : 10, options);
  if (!status) fmt::print(stderr, "{}\n", status.error().summary());
  return status ? 0 : 1;
}
