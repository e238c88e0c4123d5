#include "pipeline/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/io.h"

namespace htpipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Line numbers of the tests below count in this text.
constexpr const char* kFile =
    "model:\n"                             // 1
    "  id: resnet\n"                       // 2
    "  source: models/resnet.pt2\n"        // 3
    "targets: [SM8650, snapdragon-888]\n"  // 4
    "data:\n"                              // 5
    "  format: idx\n"                      // 6
    "  calibration: {images: train.gz}\n"  // 7
    "  evaluation:\n"                      // 8
    "    images: /data/test.gz\n"          // 9
    "    labels: labels.gz\n"              // 10
    "    samples: 1000\n"                  // 11
    "quantization:\n"                      // 12
    "  weights: 8\n"                       // 13
    "  range: percentile\n"                // 14
    "gates: {layer_cosine: 0.98}\n";       // 15

class ConfigTest : public testing::Test {
 protected:
  Result<PipelineConfig> read(const std::string& text) {
    EXPECT_TRUE(write_file_atomic(path_, text));
    return read_config(path_);
  }
  /// The error of the text with `from` replaced by `to`.
  Error error_with(const std::string& from, const std::string& to) {
    std::string text = kFile;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto config = read(text);
    EXPECT_FALSE(config) << to;
    if (config) return {Code::kBug, "no error"};
    EXPECT_EQ(config.error().place.file, path_.string());
    return config.error();
  }

  TemporaryFolder folder_ = *TemporaryFolder::create();
  std::filesystem::path path_ = folder_.path() / "p.yaml";
};

TEST_F(ConfigTest, ReadsAFileAndFillsDefaultsIn) {
  const auto config = read(kFile);
  ASSERT_TRUE(config) << config.error().summary();
  EXPECT_EQ(config->model.id, "resnet");
  EXPECT_EQ(config->model.source, folder_.path() / "models/resnet.pt2");
  EXPECT_TRUE(config->model.reference.empty());
  EXPECT_THAT(config->targets, ElementsAre("snapdragon-8-gen-3", "snapdragon-888"));
  EXPECT_EQ(config->data.calibration.inputs, folder_.path() / "train.gz");
  EXPECT_EQ(config->data.calibration.samples, 500);
  EXPECT_EQ(config->data.evaluation.inputs, "/data/test.gz");
  EXPECT_EQ(config->data.evaluation.labels, folder_.path() / "labels.gz");
  EXPECT_EQ(config->data.evaluation.samples, 1000);
  EXPECT_EQ(config->data.scale, 1.0 / 255.0);
  EXPECT_EQ(config->quantization.range, "percentile");
  EXPECT_EQ(config->quantization.percentile, 99.99);
  EXPECT_EQ(config->gates.layer_cosine, 0.98);
  EXPECT_EQ(config->gates.max_accuracy_drop, 0.01);
  EXPECT_EQ(config->emulator.task_samples, 200);
  EXPECT_EQ(config->vendor.optimization_level, 3);
  EXPECT_EQ(config->output, folder_.path() / "out");
}

TEST_F(ConfigTest, TheExampleIsValid) {
  const auto config = read_config(std::filesystem::path(HTPIPE_SOURCE_DIR) / "examples/fashion_resnet/pipeline.yaml");
  ASSERT_TRUE(config) << config.error().summary();
  EXPECT_EQ(config->targets.size(), 3U);
}

TEST_F(ConfigTest, AModelMayComeFromPython) {
  std::string text = kFile;
  const std::string file = "source: models/resnet.pt2";
  text.replace(text.find(file), file.size(), "source: {python: 'nets.small:make', inputs: {x: 'f32[1,3,8,8]'}}");
  const auto config = read(text);
  ASSERT_TRUE(config) << config.error().summary();
  EXPECT_TRUE(config->model.source.empty());
  EXPECT_EQ(config->model.python.factory, "nets.small:make");
  EXPECT_EQ(config->model.python.folder, folder_.path());
  EXPECT_THAT(config->model.python.inputs, ElementsAre(Pair("x", "f32[1,3,8,8]")));
  EXPECT_EQ(source_text(config->model), "nets.small:make");
  EXPECT_EQ(error_with(file, "source: {python: 'nets.small'}").code, Code::kConfigType);
  EXPECT_EQ(error_with(file, "source: {python: 'a:b', inputs: {x: f32}}").place.line, 3);
  EXPECT_EQ(error_with(file, "source: {pyton: 'a:b'}").code, Code::kConfigUnknownKey);
  EXPECT_EQ(error_with(file, "source: {}").code, Code::kConfigMissingKey);
}

TEST_F(ConfigTest, UnknownKeysHaveALineAndTheNearestName) {
  const Error error = error_with("  weights: 8", "  wieghts: 8");
  EXPECT_EQ(error.code, Code::kConfigUnknownKey);
  EXPECT_EQ(error.place.line, 13);
  EXPECT_THAT(error.message, HasSubstr("weights, activations, range, percentile"));
  EXPECT_THAT(error.next_step(), HasSubstr("\"weights\""));
  EXPECT_EQ(error_with("gates:", "gate:").place.line, 15);
  EXPECT_EQ(error_with("gates:", "gate:").code, Code::kConfigUnknownKey);
}

TEST_F(ConfigTest, WrongValuesHaveALine) {
  EXPECT_EQ(error_with("samples: 1000", "samples: many").place.line, 11);
  EXPECT_EQ(error_with("samples: 1000", "samples: many").code, Code::kConfigType);
  EXPECT_EQ(error_with("samples: 1000", "samples: 0").place.line, 11);
  EXPECT_EQ(error_with("layer_cosine: 0.98", "layer_cosine: 1.5").place.line, 15);
  EXPECT_EQ(error_with("weights: 8", "weights: 3").place.line, 13);
  EXPECT_EQ(error_with("range: percentile", "range: percentil").place.line, 14);
  EXPECT_THAT(error_with("range: percentile", "range: percentil").next_step(), HasSubstr("\"percentile\""));
  EXPECT_EQ(error_with("id: resnet", "id: ../../etc").code, Code::kConfigType);
  EXPECT_EQ(error_with("format: idx", "format: csv").place.line, 6);
  EXPECT_EQ(error_with("format: idx", "format: idx\n  scale: 0").place.line, 7);
  EXPECT_EQ(error_with("model:\n", "model: 3\nx:\n").code, Code::kConfigType);
  EXPECT_EQ(error_with("gates:", "passes: {skip: [fuse_activatoin]}\ngates:").place.line, 15);
  EXPECT_EQ(error_with("gates:", "passes:\n  order:\n    - fold_pad\n    - fold_pad fold_bad\ngates:").place.line, 18);
}

TEST_F(ConfigTest, MissingKeysAreNamed) {
  EXPECT_EQ(error_with("  id: resnet\n", "").code, Code::kConfigMissingKey);
  EXPECT_THAT(error_with("  id: resnet\n", "").message, HasSubstr("model.id"));
  EXPECT_THAT(error_with("    labels: labels.gz\n", "").message, HasSubstr("data.evaluation.labels"));
  EXPECT_THAT(error_with("targets: [SM8650, snapdragon-888]\n", "").message, HasSubstr("targets"));
}

TEST_F(ConfigTest, TargetsAreChecked) {
  const Error unknown = error_with("snapdragon-888", "snapdragon-889");
  EXPECT_EQ(unknown.code, Code::kUnknownTarget);
  EXPECT_EQ(unknown.place.line, 4);
  EXPECT_THAT(unknown.next_step(), HasSubstr("snapdragon-888"));
  EXPECT_THAT(error_with("snapdragon-888", "v75").message, HasSubstr("twice"));
  EXPECT_EQ(error_with("[SM8650, snapdragon-888]", "[]").code, Code::kConfigType);
  EXPECT_EQ(error_with("[SM8650, snapdragon-888]", "SM8650").code, Code::kConfigType);
}

TEST_F(ConfigTest, AllFaultsComeAtOnce) {
  std::string text = kFile;
  text.replace(text.find("id: resnet"), 10, "id: [1, 2]");
  text.replace(text.find("weights: 8"), 10, "weigths: 8");
  text.replace(text.find("samples: 1000"), 13, "samples: -1  ");
  const auto config = read(text);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().place.line, 2);
  ASSERT_EQ(config.error().notes.size(), 2U);
  EXPECT_THAT(config.error().notes[0], HasSubstr("line 11"));
  EXPECT_THAT(config.error().notes[1], HasSubstr("line 13"));
}

TEST_F(ConfigTest, NpzNamesOneFile) {
  std::string text = kFile;
  const std::size_t begin = text.find("  format");
  text.replace(begin, text.find("quantization") - begin,
               "  format: npz\n  calibration: {file: c.npz, samples: 8}\n  evaluation: {file: e.npz}\n"
               "  input_array: x\n");
  const auto config = read(text);
  ASSERT_TRUE(config) << config.error().summary();
  EXPECT_EQ(config->data.evaluation.inputs, config->data.evaluation.labels);
  EXPECT_EQ(config->data.input_array, "x");
  EXPECT_EQ(config->data.labels_array, "labels");
  EXPECT_EQ(config->data.scale, 1.0);
}

TEST_F(ConfigTest, TheDigestKnowsOptionsButNoPaths) {
  const auto config = read(kFile);
  ASSERT_TRUE(config);
  const std::string text = to_text(to_json(*config));
  EXPECT_THAT(text, testing::Not(HasSubstr(folder_.path().string())));
  EXPECT_THAT(text, HasSubstr("\"layer_cosine\": 0.98"));
  PipelineConfig other = *config;
  other.data.calibration.samples += 1;
  EXPECT_NE(to_text(to_json(other)), text);
  other = *config;
  other.output = "/elsewhere";
  other.gates.alert = "echo";
  EXPECT_EQ(to_text(to_json(other)), text);
}

}  // namespace
}  // namespace htpipe
