// Kernels of elementwise operators compute the same where their result lies on one of their operands: every conformance
// case in every precision, and every operation on sizes at which kernels take other ways.
#include "ops/in_place.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/parallel.h"
#include "conformance_case.h"
#include "exec/program.h"
#include "ir/text.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

using Values = std::map<const Value*, Tensor>;

/// What a node gives when its result lies where operand `over` lies; -1 = apart.
Result<Tensor> compute(const Node& node, const Values& values, int htp_version, int lanes, int over) {
  HTPIPE_TRY(const Kernel kernel, make_kernel(node, htp_version));
  const CallMemory memory(kernel, lanes);
  std::map<const Value*, Tensor> copies;
  std::vector<const void*> operands;
  for (const Value* operand : node.operands) {
    if (operand == nullptr) {
      operands.push_back(nullptr);
      continue;
    }
    const Tensor& source = operand->is_constant() ? operand->constant : values.at(operand);
    auto& copy = copies[operand];
    if (copy.empty()) copy = Tensor::from<std::byte>(source.type(), source.bytes());
    operands.push_back(copy.bytes().data());
  }
  Tensor result(node.result()->type);
  void* target = result.mutable_data<std::byte>().data();
  if (over >= 0) target = copies[node.operands[static_cast<std::size_t>(over)]].mutable_data<std::byte>().data();
  std::vector<void*> results = {target};
  kernel.run({operands, results, memory.scratch(), memory.lanes()});
  return Tensor::from<std::byte>(result.type(), {static_cast<const std::byte*>(target), result.bytes().size()});
}

/// Number of comparisons; fails where one differs.
int check_graph(const Graph& graph, const std::vector<Tensor>& inputs, int htp_version, const std::string& label) {
  Values values;
  const auto program = Program::make(graph, htp_version);
  if (!program) return 0;  // no rule for it here
  Program::Workspace workspace(*program);
  EXPECT_TRUE(program->run(workspace, inputs, [&](const Value& value, const Tensor& tensor) {
    values[&value] = Tensor::from<std::byte>(tensor.type(), tensor.bytes());
  }));
  int compared = 0;
  for (const auto& node : graph.nodes()) {
    for (std::size_t i = 0; i < node->operands.size(); ++i) {
      if (!ops::may_overwrite(*node, i)) continue;
      for (const int lanes : {1, 3}) {
        const auto apart = compute(*node, values, htp_version, lanes, -1);
        const auto over = compute(*node, values, htp_version, lanes, static_cast<int>(i));
        EXPECT_TRUE(apart && over) << label;
        if (!apart || !over) continue;
        EXPECT_TRUE(std::ranges::equal(apart->bytes(), over->bytes()))
            << label << ": " << node->name() << " over operand " << i << " on " << lanes << " lanes";
        EXPECT_TRUE(std::ranges::equal(apart->bytes(), values.at(node->result()).bytes()))
            << label << ": in its program";
        ++compared;
      }
    }
  }
  return compared;
}

TEST(InPlace, EveryConformanceCase) {
  register_all_ops();
  std::set<std::string> operators;
  int compared = 0;
  for (const auto& file : conformance::files()) {
    const auto cases = conformance::read(file);
    ASSERT_TRUE(cases) << cases.error().summary();
    for (const conformance::Case& test : *cases) {
      if (test.repeat > 0) continue;
      const auto elementwise = [](const auto& node) {
        return ops::may_overwrite(*node, 0) || (node->operands.size() > 1 && ops::may_overwrite(*node, 1));
      };
      const auto& nodes = test.graph.nodes();
      if (std::none_of(nodes.begin(), nodes.end(), elementwise)) continue;
      for (const auto& node : nodes) {
        if (elementwise(node)) operators.insert(std::string(node->op->name));
      }
      const auto run = [&](const Graph& graph, int version, const std::string& how) {
        compared += check_graph(graph, conformance::inputs_of(graph, test.ranges, 9), version, test.label() + how);
      };
      if (test.stored) {
        run(test.graph, 75, " stored");
        continue;
      }
      run(test.graph, 0, " float");
      for (const Precision precision : {Precision::kInt8, Precision::kInt16, Precision::kFp16}) {
        const auto ranges = conformance::all_ranges(test);
        if (!ranges) continue;
        quant::QuantizeOptions options;
        options.default_precision = precision;
        const auto graph = quant::quantize(test.graph, *ranges, options);
        if (graph) run(*graph, 73, fmt::format(" {}", name_of(precision)));
      }
    }
  }
  EXPECT_GT(compared, 400);
  EXPECT_GE(operators.size(), 6U);
}

/// Every operation of the operators that have some, on a few, on odd and on many elements.
TEST(InPlace, EveryOperationOnManySizes) {
  register_all_ops();
  int compared = 0;
  for (const char* name : {"ElementWiseNeuron", "ElementWiseUnary", "ElementWiseBinary"}) {
    const OpDef& op = *find_op(name);
    const bool two = op.operands.size() > 1;
    for (const ParamLowering& lowering : op.lowering.params) {
      if (lowering.attribute != "operation") continue;
      for (const auto& [operation, number] : lowering.values) {
        for (const int count : {1, 7, 17, 1003, 70001}) {
          const std::string text =
              fmt::format("graph @g(%a: f32[{0}]{1}) -> (%y) {{\n  %y = {2}(%a{3}) {{operation=\"{4}\"}}\n}}\n", count,
                          two ? fmt::format(", %b: f32[{}]", count) : "", name, two ? ", %b" : "", operation);
          const auto graph = parse_graph(text);
          if (!graph) continue;  // not for real numbers
          const quant::Ranges ranges = {{"a", {0.1F, 0.9F}}, {"b", {0.2F, 1.5F}}};
          compared += check_graph(*graph, conformance::inputs_of(*graph, ranges, 3), 0,
                                  fmt::format("{} {} of {}", name, operation, count));
          for (const Precision precision : {Precision::kInt8, Precision::kInt16, Precision::kFp16}) {
            quant::Ranges all = ranges;
            all["y"] = {-1, 2};
            quant::QuantizeOptions options;
            options.default_precision = precision;
            const auto stored = quant::quantize(*graph, all, options);
            if (!stored) continue;
            compared += check_graph(*stored, conformance::inputs_of(*stored, ranges, 3), 75,
                                    fmt::format("{} {} of {} {}", name, operation, count, name_of(precision)));
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace htpipe
