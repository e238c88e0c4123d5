// graph.json and weights.bin: round trip, and files that somebody cut or edited.
#include "qnn/spec_io.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "qnn/safe_names.h"
#include "qnn/sample_graph_test.h"
#include "qnn/spec_check.h"

namespace htpipe::qnn {
namespace {

using testing::conv_graph;

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0;
}

class SpecIo : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::create();
    ASSERT_TRUE(folder);
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_->path() / "spec"; }
  /// Writes conv_graph, changes graph.json, and reads.
  Result<GraphSpec> read_changed(const std::function<void(Json&)>& change) {
    EXPECT_TRUE(write_spec(path(), conv_graph()));
    auto json = read_json(path() / "graph.json");
    EXPECT_TRUE(json);
    change(*json);
    EXPECT_TRUE(write_json(path() / "graph.json", *json));
    return read_spec(path());
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(SpecIo, ZerosTakeNoPlaceOnTheDisk) {
  GraphSpec graph = conv_graph();
  Tensor mixed({DType::kU8, {400'000}, std::nullopt});
  mixed.mutable_data<std::uint8_t>()[150'000] = 7;
  Tensor zeros({DType::kU8, {8'000'001}, std::nullopt});
  graph.tensors.push_back({"mixed", TensorRole::kStatic, mixed.type(), mixed});
  graph.tensors.push_back({"zeros", TensorRole::kStatic, zeros.type(), zeros});
  ASSERT_TRUE(write_spec(path(), graph));
  struct stat file{};
  ASSERT_EQ(stat((path() / "weights.bin").c_str(), &file), 0);
  EXPECT_GT(file.st_size, 8'400'000);
  EXPECT_LT(file.st_blocks * 512, 1'000'000);
  const auto read = read_spec(path());
  ASSERT_TRUE(read) << read.error().summary();
  EXPECT_TRUE(same_bytes(read->tensors[read->tensors.size() - 2].data, mixed));
  EXPECT_TRUE(same_bytes(read->tensors.back().data, zeros));
}

TEST_F(SpecIo, RoundTripKeepsEverything) {
  GraphSpec graph = conv_graph();
  // Every kind of parameter, and the floats that JSON lacks.
  graph.ops[1].params = {{"flag", true},
                         {"natural", std::numeric_limits<std::uint32_t>::max()},
                         {"integer", std::numeric_limits<std::int32_t>::min()},
                         {"real", 0.1F},
                         {"low", -std::numeric_limits<float>::infinity()},
                         {"none", std::numeric_limits<float>::quiet_NaN()},
                         {"text", std::string("a \"quoted\" text")}};
  ASSERT_TRUE(write_spec(path(), graph));
  const auto read = read_spec(path());
  ASSERT_TRUE(read) << read.error().summary();
  EXPECT_EQ(read->name, graph.name);
  ASSERT_EQ(read->tensors.size(), graph.tensors.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    EXPECT_EQ(read->tensors[i].name, graph.tensors[i].name);
    EXPECT_EQ(read->tensors[i].role, graph.tensors[i].role);
    EXPECT_EQ(read->tensors[i].type, graph.tensors[i].type);
    if (graph.tensors[i].role == TensorRole::kStatic) {
      EXPECT_TRUE(same_bytes(read->tensors[i].data, graph.tensors[i].data)) << graph.tensors[i].name;
    }
  }
  ASSERT_EQ(read->ops.size(), graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    EXPECT_EQ(read->ops[i].name, graph.ops[i].name);
    EXPECT_EQ(read->ops[i].type, graph.ops[i].type);
    EXPECT_EQ(read->ops[i].inputs, graph.ops[i].inputs);
    EXPECT_EQ(read->ops[i].outputs, graph.ops[i].outputs);
    ASSERT_EQ(read->ops[i].params.size(), graph.ops[i].params.size());
    for (std::size_t p = 0; p < graph.ops[i].params.size(); ++p) {
      const ParamSpec& want = graph.ops[i].params[p];
      const ParamSpec& got = read->ops[i].params[p];
      EXPECT_EQ(got.name, want.name);
      ASSERT_EQ(got.value.index(), want.value.index()) << want.name;
      if (std::holds_alternative<Tensor>(want.value)) {
        EXPECT_TRUE(same_bytes(std::get<Tensor>(got.value), std::get<Tensor>(want.value))) << want.name;
      } else if (want.name == "none") {
        EXPECT_TRUE(std::isnan(std::get<float>(got.value)));
      } else if (const auto* real = std::get_if<float>(&want.value)) {
        EXPECT_EQ(std::get<float>(got.value), *real) << want.name;
      } else if (const auto* text = std::get_if<std::string>(&want.value)) {
        EXPECT_EQ(std::get<std::string>(got.value), *text);
      } else if (const auto* natural = std::get_if<std::uint32_t>(&want.value)) {
        EXPECT_EQ(std::get<std::uint32_t>(got.value), *natural);
      } else if (const auto* integer = std::get_if<std::int32_t>(&want.value)) {
        EXPECT_EQ(std::get<std::int32_t>(got.value), *integer);
      }
    }
  }
}

TEST_F(SpecIo, MissingFilesAreErrors) {
  EXPECT_EQ(read_spec(path()).error().code, Code::kFileMissing);
  ASSERT_TRUE(write_spec(path(), conv_graph()));
  std::filesystem::remove(path() / "weights.bin");
  EXPECT_EQ(read_spec(path()).error().code, Code::kFileMissing);
}

TEST_F(SpecIo, ShortWeightsAreAnError) {
  ASSERT_TRUE(write_spec(path(), conv_graph()));
  std::filesystem::resize_file(path() / "weights.bin", std::filesystem::file_size(path() / "weights.bin") - 1);
  EXPECT_EQ(read_spec(path()).error().code, Code::kFileTruncated);
  std::filesystem::resize_file(path() / "weights.bin", 0);
  EXPECT_EQ(read_spec(path()).error().code, Code::kFileTruncated);
}

TEST_F(SpecIo, EveryPrefixOfTheJsonIsAnError) {
  ASSERT_TRUE(write_spec(path(), conv_graph()));
  const auto text = read_text(path() / "graph.json");
  ASSERT_TRUE(text);
  // The last byte is a line feed, which JSON does not need.
  for (std::size_t size = 0; size + 1 < text->size(); size += 61) {
    std::ofstream(path() / "graph.json", std::ios::trunc) << text->substr(0, size);
    EXPECT_EQ(read_spec(path()).error().code, Code::kJsonInvalid) << size;
  }
}

TEST_F(SpecIo, HostileNumbersAreErrors) {
  const auto code_of = [this](const std::function<void(Json&)>& change) {
    auto read = read_changed(change);
    if (!read) return word(read.error().code);
    auto rules = check(*read);
    return rules ? std::string_view("accepted") : word(rules.error().code);
  };
  EXPECT_EQ(code_of([](Json&) {}), "accepted");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][1]["offset"] = 1ULL << 62; }), "file-truncated");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][1]["offset"] = -64; }), "file-truncated");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][1]["offset"] = 1; }), "json-shape");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][1]["offset"] = "64"; }), "json-shape");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][1]["shape"] = {1LL << 31, 1LL << 31, 1LL << 31}; }), "json-shape");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][1]["shape"] = {-3, 3, 3, 8}; }), "json-shape");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][1]["shape"] = {3, 3, 3, 8192}; }), "file-truncated");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][1]["encoding"]["axis"] = 4; }), "graph-invalid");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][1]["encoding"]["scales"] = {0.1}; }), "graph-invalid");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][0]["encoding"]["scales"] = {0.0}; }), "graph-invalid");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][0]["encoding"]["scales"] = {nullptr}; }), "json-shape");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][0]["encoding"]["bits"] = 9; }), "graph-invalid");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][0]["dtype"] = "u7"; }), "json-shape");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][0]["role"] = "king"; }), "json-shape");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][0]["shape"] = {1LL << 40}; }), "graph-invalid");
  EXPECT_EQ(code_of([](Json& json) { json["tensors"][0]["name"] = "y"; }), "graph-invalid");
  EXPECT_EQ(code_of([](Json& json) { json["ops"][0]["inputs"][0] = "nobody"; }), "graph-invalid");
  EXPECT_EQ(code_of([](Json& json) { json["ops"][0]["inputs"][0] = "y"; }), "graph-invalid");
  EXPECT_EQ(code_of([](Json& json) { json["ops"][1]["outputs"][0] = "conv_out"; }), "graph-invalid");
  EXPECT_EQ(code_of([](Json& json) { json["ops"][0]["params"][0]["offset"] = 1ULL << 40; }), "file-truncated");
  EXPECT_EQ(code_of([](Json& json) { json["ops"][0].erase("type"); }), "json-shape");
  EXPECT_EQ(code_of([](Json& json) { json["ops"] = 7; }), "json-shape");
  EXPECT_EQ(code_of([](Json& json) { json["version"] = 2; }), "json-shape");
  EXPECT_EQ(code_of([](Json& json) { json = Json::array(); }), "json-shape");
}

TEST(SafeNames, RenamesLikeTheDlcWriterAndStaysUnique) {
  EXPECT_EQ(safe_name("a.b/c:0-x"), "a_b_c_0_x");
  EXPECT_EQ(safe_name("9x"), "_9x");
  EXPECT_EQ(safe_name(safe_name("9 é")), safe_name("9 é"));
  GraphSpec graph = conv_graph();
  graph.tensors[3].name = "conv_weight";  // beside "conv.weight"
  graph.ops[0].outputs[0] = "conv_weight";
  graph.ops[1].inputs[0] = "conv_weight";
  const auto clash = check(graph);
  ASSERT_FALSE(clash);
  EXPECT_EQ(clash.error().code, Code::kGraphInvalid);
  make_names_safe(graph);
  EXPECT_TRUE(check(graph));
  EXPECT_NE(graph.tensors[1].name, graph.tensors[3].name);
  EXPECT_EQ(graph.ops[0].outputs[0], graph.ops[1].inputs[0]);
}

}  // namespace
}  // namespace htpipe::qnn
