// The example model, as imported, through the default passes: the form that is quantised and lowered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "exec/program.h"
#include "import/pt2/import.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace htpipe {
namespace {

using testing::Each;
using testing::Ne;

constexpr const char* kModel = HTPIPE_SOURCE_DIR "/examples/fashion_resnet/fashion_resnet.pt2";

TEST(ReferenceModel, BecomesChannelLastWithNothingInBetween) {
  register_all_ops();
  auto graph = import_pt2(kModel);
  ASSERT_TRUE(graph) << graph.error().summary();
  const Graph before = graph->clone();
  ASSERT_TRUE(run_passes(*graph));

  std::vector<std::string> ops;
  for (const auto& node : graph->nodes()) ops.emplace_back(node->op->name);
  EXPECT_THAT(ops, Each(Ne("Batchnorm")));
  EXPECT_THAT(ops, Each(Ne("ElementWiseNeuron")));
  EXPECT_THAT(ops, Each(Ne("Transpose")));
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "Reshape"), 2);
  ASSERT_EQ(ops.size(), 14U);  // 2 Reshapes, 7 convolutions, 2 additions, 2 pools, 1 linear layer
  EXPECT_EQ(ops.front(), "Reshape");
  EXPECT_EQ(ops[12], "Reshape");
  EXPECT_EQ(ops[13], "FullyConnected");
  for (const auto& node : graph->nodes()) {
    if (const Attribute* layout = node->attributes.find("data_layout")) {
      EXPECT_EQ(std::get<std::string>(*layout), "nhwc") << node->name();
    }
    // Every layer is still found under a name that the imported graph had; only the input's copy is new.
    const bool known = before.find_value(node->name()) != nullptr;
    EXPECT_TRUE(known || node->name() == "x_nhwc") << node->name();
  }
}

TEST(ReferenceModel, ComputesTheSameAsBefore) {
  register_all_ops();
  auto graph = import_pt2(kModel);
  ASSERT_TRUE(graph) << graph.error().summary();
  std::mt19937 generator(3);
  Tensor image(graph->inputs()[0]->type);
  for (float& x : image.mutable_data<float>()) x = static_cast<float>(static_cast<double>(generator()) / 4294967296.0);
  const auto logits = [&image](const Graph& now) {
    const auto outputs = run_once(now, std::vector<Tensor>{image});
    EXPECT_TRUE(outputs);
    return outputs ? to_floats((*outputs)[0]) : std::vector<float>{};
  };
  const std::vector<float> wanted = logits(*graph);
  ASSERT_EQ(wanted.size(), 10U);
  int compared = 0;
  PassOptions options;
  options.check = [&](const Graph& now, std::string_view pass) {
    const std::vector<float> found = logits(now);
    EXPECT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
      EXPECT_NEAR(found[i], wanted[i], 2e-5) << pass;
    }
    ++compared;
    return Status{};
  };
  ASSERT_TRUE(run_passes(*graph, options));
  EXPECT_EQ(compared, 4);  // Batchnorm, activations, layout, transposes
}

}  // namespace
}  // namespace htpipe
