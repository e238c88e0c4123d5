// Growth with the number of nodes: import of an ONNX file and all passes, for 2,000 to 20,000 nodes. The time per node
// should stay the same. Prints medians of several runs.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/io.h"
#include "bench/bench_tools.h"
#include "import/onnx/import.h"
#include "import/onnx/model.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace htpipe {
namespace {

constexpr int kRuns = 3;
constexpr std::int64_t kChannels = 8;

void set_shape(onnx::ValueInfoProto& info, const std::string& name) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t size : {std::int64_t{1}, kChannels, std::int64_t{4}, std::int64_t{4}}) {
    type.mutable_shape()->add_dim()->set_dim_value(size);
  }
}

void set_ints(onnx::NodeProto& node, const std::string& name, const std::vector<std::int64_t>& values) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t value : values) attribute.add_ints(value);
}

/// Residual blocks of ten nodes, as exporters write them: Conv, BatchNormalization, Relu, an Identity, a pair of
/// Transposes, an Add, and shape arithmetic that folds away.
onnx::ModelProto model_of(int nodes) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("chain");
  set_shape(*graph.add_input(), "x");
  const auto weight = [&graph](const std::string& name, const std::vector<std::int64_t>& shape, float value) {
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    std::int64_t count = 1;
    for (const std::int64_t size : shape) {
      tensor.add_dims(size);
      count *= size;
    }
    for (std::int64_t i = 0; i < count; ++i) tensor.add_float_data(value * static_cast<float>(i % 7 - 3));
  };
  const auto add = [&graph](const std::string& type, const std::vector<std::string>& inputs,
                            const std::string& output) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type(type);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return &node;
  };
  weight("variance", {kChannels}, 0.0F);
  for (auto& value : *graph.mutable_initializer(0)->mutable_float_data()) value = 1.0F;
  std::string last = "x";
  for (int block = 0; block * 10 < nodes; ++block) {
    const std::string b = fmt::format("b{}_", block);
    weight(b + "w", {kChannels, kChannels, 1, 1}, 0.01F);
    weight(b + "scale", {kChannels}, 0.1F);
    weight(b + "shift", {kChannels}, 0.01F);
    add("Conv", {last, b + "w"}, b + "conv");
    add("BatchNormalization", {b + "conv", b + "scale", b + "shift", b + "shift", "variance"}, b + "bn");
    add("Relu", {b + "bn"}, b + "relu");
    add("Identity", {b + "relu"}, b + "same");
    set_ints(*add("Transpose", {b + "same"}, b + "there"), "perm", {0, 2, 3, 1});
    set_ints(*add("Transpose", {b + "there"}, b + "back"), "perm", {0, 3, 1, 2});
    add("Shape", {b + "back"}, b + "shape");
    add("Reshape", {b + "back", b + "shape"}, b + "reshaped");
    add("Add", {b + "reshaped", last}, b + "sum");
    add("Sigmoid", {b + "sum"}, b + "out");
    last = b + "out";
  }
  set_shape(*graph.add_output(), last);
  return model;
}

Status run() {
  register_all_ops();
  HTPIPE_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  fmt::print("{:>8} {:>10} {:>10} {:>12} {:>10}\n", "nodes", "import s", "passes s", "us per node", "left");
  double first = 0;
  for (const int nodes : {2000, 5000, 10000, 20000}) {
    const auto file = folder.path() / "chain.onnx";
    std::ofstream stream(file, std::ios::binary);
    model_of(nodes).SerializeToOstream(&stream);
    stream.close();
    std::vector<double> imports;
    std::vector<double> passes;
    std::size_t left = 0;
    for (int i = 0; i < kRuns; ++i) {
      Result<Imported> imported = fail(Code::kBug, "not run");
      imports.push_back(bench::seconds_of([&] { imported = import_onnx(file); }));
      if (!imported) return fail(std::move(imported.error()));
      Status status;
      passes.push_back(bench::seconds_of([&] {
        if (auto records = run_passes(imported->graph); !records) status = fail(std::move(records.error()));
      }));
      HTPIPE_CHECK_OK(status);
      left = imported->graph.nodes().size();
    }
    const double total = bench::median(imports) + bench::median(passes);
    if (first == 0) first = total / nodes;
    fmt::print("{:>8} {:>10.3f} {:>10.3f} {:>12.1f} {:>10}\n", nodes, bench::median(imports), bench::median(passes),
               1e6 * total / nodes, left);
    if (nodes == 20000) fmt::print("time per node, 20,000 against 2,000 nodes: {:.2f}\n", total / nodes / first);
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
