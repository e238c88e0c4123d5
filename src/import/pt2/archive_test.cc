// Oracles: torch.export.save wrote the archives, NumPy wrote what torch says is in them (tests/data/pt2/make.py), libzip
// wrote the hostile ones.
#include "import/pt2/archive.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "base/zip_fixture.h"
#include "tensor/npy.h"

namespace htpipe::pt2 {
namespace {

using test::patched;
using test::ZipMember;
using testing::HasSubstr;

const std::filesystem::path kSource = HTPIPE_SOURCE_DIR;

Result<Archive> read(const std::string& zip, bool check_crc = true) {
  return read_pt2(as_bytes(zip), nullptr, "made.pt2", ReadOptions{check_crc});
}

/// "word: text" of the error.
std::string error_of(const std::string& zip) {
  const auto archive = read(zip);
  return archive ? "success" : archive.error().summary();
}

std::string meta(std::string_view sizes, std::string_view strides, int dtype = 7, int offset = 0) {
  return fmt::format(
      R"({{"dtype":{},"sizes":[{}],"requires_grad":false,"device":{{"type":"cpu","index":null}},"strides":[{}],)"
      R"("storage_offset":{{"as_int":{}}},"layout":7}})",
      dtype, sizes, strides, offset);
}

const std::string kTwo = R"({"as_int":2})";
const std::string kOne = R"({"as_int":1})";

/// model.json of relu(x) + w with w of `weight_meta`.
std::string model(const std::string& weight_meta = meta(kTwo, kOne), int major = 8) {
  return fmt::format(
      R"({{"graph_module":{{"graph":{{"inputs":[{{"as_tensor":{{"name":"p_w"}}}},{{"as_tensor":{{"name":"x"}}}}],)"
      R"("outputs":[{{"as_tensor":{{"name":"add"}}}}],"nodes":[{{"target":"torch.ops.aten.add.Tensor","inputs":[)"
      R"({{"name":"self","arg":{{"as_tensor":{{"name":"x"}}}},"kind":1}},)"
      R"({{"name":"other","arg":{{"as_tensor":{{"name":"p_w"}}}},"kind":1}}],)"
      R"("outputs":[{{"as_tensor":{{"name":"add"}}}}],"metadata":{{}},"is_hop_single_tensor_return":null}}],)"
      R"("tensor_values":{{"p_w":{0},"x":{1},"add":{1}}},"sym_int_values":{{}},"sym_bool_values":{{}}}},)"
      R"("signature":{{"input_specs":[{{"parameter":{{"arg":{{"name":"p_w"}},"parameter_name":"w"}}}},)"
      R"({{"user_input":{{"arg":{{"as_tensor":{{"name":"x"}}}}}}}}],)"
      R"("output_specs":[{{"user_output":{{"arg":{{"as_tensor":{{"name":"add"}}}}}}}}]}}}},)"
      R"("schema_version":{{"major":{2},"minor":20}},"torch_version":"2.13.0"}})",
      weight_meta, meta(kTwo, kOne), major);
}

std::string config(const std::string& weight_meta = meta(kTwo, kOne), const char* pickle = "false") {
  return fmt::format(
      R"({{"config":{{"w":{{"path_name":"weight_0","is_param":true,"use_pickle":{},"tensor_meta":{}}}}}}})", pickle,
      weight_meta);
}

std::vector<ZipMember> members(const std::string& model_json = model(), const std::string& weights = config(),
                               const std::string& bytes = "12345678") {
  return {{"m/archive_format", "pt2"},
          {"m/archive_version", "0"},
          {"m/byteorder", "little"},
          {"m/models/model.json", model_json},
          {"m/data/weights/weight_0", bytes},
          {"m/data/weights/model_weights_config.json", weights},
          {"m/data/constants/model_constants_config.json", R"({"config":{}})"}};
}

std::string archive_bytes(const std::vector<ZipMember>& list = members()) { return test::zip_bytes(list); }

std::string with_member(const std::string& name, const std::string& content) {
  auto list = members();
  for (ZipMember& member : list) {
    if (member.name == name) member.content = content;
  }
  return archive_bytes(list);
}

std::string without_member(const std::string& name) {
  auto list = members();
  std::erase_if(list, [&name](const ZipMember& member) { return member.name == name; });
  return archive_bytes(list);
}

TEST(Pt2Archive, ReadsTheExample) {
  const auto archive = read_pt2(kSource / "examples/fashion_resnet/fashion_resnet.pt2");
  ASSERT_TRUE(archive) << archive.error().summary();
  EXPECT_EQ(archive->folder, "fashion_resnet");
  const Program& program = archive->program;
  EXPECT_EQ(program.schema_major, 8);
  std::map<std::string, int> targets;
  for (const Node& node : program.nodes) {
    ++targets[node.target];
    EXPECT_EQ(node.source_file, "examples/fashion_resnet/train.py") << node.name;
    EXPECT_GT(node.source_line, 0);
  }
  // The model has 7 convolutions with batch norm, a ReLU after the stem and two in each block, and a classifier.
  const std::map<std::string, int> expected = {
      {"torch.ops.aten.conv2d.default", 7},     {"torch.ops.aten.batch_norm.default", 7},
      {"torch.ops.aten.relu.default", 5},       {"torch.ops.aten.add.Tensor", 2},
      {"torch.ops.aten.max_pool2d.default", 1}, {"torch.ops.aten.adaptive_avg_pool2d.default", 1},
      {"torch.ops.aten.flatten.using_ints", 1}, {"torch.ops.aten.linear.default", 1}};
  EXPECT_EQ(targets, expected);
  std::int64_t parameters = 0;
  for (const InputSpec& spec : program.input_specs) {
    const Tensor* data = archive->data_of(spec);
    EXPECT_EQ(data == nullptr, spec.kind == InputKind::kUserInput) << spec.name;
    if (spec.kind == InputKind::kParameter) parameters += data->count();
    if (data == nullptr || !is_float(data->dtype())) continue;
    for (const float value : to_floats(*data)) ASSERT_TRUE(std::isfinite(value)) << spec.fqn;
  }
  EXPECT_EQ(parameters, 73082) << "what train.py prints";
  const auto strided = std::find_if(program.nodes.begin(), program.nodes.end(), [](const Node& node) {
    return node.target == "torch.ops.aten.conv2d.default" && node.module == "block2.conv1";
  });
  ASSERT_NE(strided, program.nodes.end());
  EXPECT_EQ(*strided->input("stride"), Argument(std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(*strided->input("bias"), Argument(std::monostate{}));
  EXPECT_EQ(*strided->input("weight"), Argument(TensorName{"p_block2_conv1_weight"}));
  EXPECT_EQ(strided->input("groups"), nullptr);
}

TEST(Pt2Archive, WeightsAreWhatTorchSays) {
  const auto archive = read_pt2(kSource / "tests/data/pt2/odd_weights.pt2");
  ASSERT_TRUE(archive) << archive.error().summary();
  const auto expected = read_npz(kSource / "tests/data/pt2/odd_weights.npz");
  ASSERT_TRUE(expected) << expected.error().summary();
  EXPECT_EQ(expected->size(), archive->weights.size() + archive->constants.size());
  for (const auto& [name, tensor] : *expected) {
    const TensorMap& map = archive->weights.contains(name) ? archive->weights : archive->constants;
    const auto found = map.find(name);
    ASSERT_NE(found, map.end()) << name;
    const DType as_numpy = found->second.dtype() == DType::kBF16 ? DType::kU16 : found->second.dtype();
    EXPECT_EQ(as_numpy, tensor.dtype()) << name;
    EXPECT_EQ(found->second.shape(), tensor.shape()) << name;
    EXPECT_TRUE(std::equal(found->second.bytes().begin(), found->second.bytes().end(), tensor.bytes().begin(),
                           tensor.bytes().end()))
        << name;
  }
  EXPECT_EQ(archive->weights.find("tied")->second.bytes().size(), 140U);
}

TEST(Pt2Archive, ReadsAllKindsOfArguments) {
  const auto archive = read_pt2(kSource / "tests/data/pt2/odd_weights.pt2");
  ASSERT_TRUE(archive) << archive.error().summary();
  const auto argument = [&archive](std::string_view node, std::string_view name) -> Argument {
    for (const Node& candidate : archive->program.nodes) {
      if (candidate.name == node && candidate.input(name) != nullptr) return *candidate.input(name);
    }
    ADD_FAILURE() << node << "." << name;
    return std::monostate{};
  };
  EXPECT_EQ(argument("cat", "tensors"), Argument(TensorNames{{"add", "clamp"}}));
  EXPECT_EQ(argument("cat", "dim"), Argument(std::int64_t{1}));
  EXPECT_EQ(argument("clamp", "min"), Argument(-1.0));
  EXPECT_EQ(argument("to", "dtype"), Argument(DType::kF64));
  EXPECT_EQ(argument("mean", "dim"), Argument(std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(argument("index", "indices"), Argument(OptionalTensorNames{{std::nullopt, "remainder"}}));
  EXPECT_EQ(argument("masked_fill", "value"), Argument(-std::numeric_limits<double>::infinity()));
  EXPECT_EQ(argument("_assert_tensor_metadata_default", "device"), Argument(Ignored{"as_device"}));
  EXPECT_EQ(archive->program.output_specs.size(), 2U);
  EXPECT_EQ(archive->program.tensor_values.find("to")->second.dtype, DType::kF64);
}

TEST(Pt2Archive, BorrowsFromTheFile) {
  const auto file = MappedFile::open(kSource / "examples/fashion_resnet/fashion_resnet.pt2");
  ASSERT_TRUE(file);
  const auto archive = read_pt2(*file);
  ASSERT_TRUE(archive);
  const Bytes all = (*file)->bytes();
  for (const auto& [name, tensor] : archive->weights) {
    EXPECT_GE(tensor.bytes().data(), all.data()) << name;
    EXPECT_LE(tensor.bytes().data() + tensor.bytes().size(), all.data() + all.size()) << name;
  }
}

TEST(Pt2Archive, RefusesDynamicShapes) {
  const auto archive = read_pt2(kSource / "tests/data/pt2/dynamic.pt2");
  ASSERT_FALSE(archive);
  EXPECT_EQ(archive.error().code, Code::kDynamicShape);
  EXPECT_THAT(archive.error().message, testing::MatchesRegex(".*open dimensions: s[0-9]+ .axis x\\.0."));
  EXPECT_THAT(archive.error().hint, HasSubstr("--dim x.0=1"));
}

TEST(Pt2Archive, TakesSizesForDynamicShapes) {
  const auto read_with = [](Dimensions dimensions) {
    return read_pt2(kSource / "tests/data/pt2/dynamic.pt2", {true, std::move(dimensions)});
  };
  for (const char* name : {"x.0", "batch"}) {
    const auto archive = read_with({{name, 5}});
    ASSERT_TRUE(archive) << archive.error().summary();
    EXPECT_EQ(archive->program.tensor_values.at("x").sizes, (Shape{5, 4}));
    EXPECT_EQ(archive->program.tensor_values.at("relu").sizes, (Shape{5, 4}));
  }
  EXPECT_TRUE(read_with({{"x.0", 1}})) << "PyTorch's lower end of 2 is no rule of the model";
  EXPECT_TRUE(read_with({{"x.0", 3}, {"x.1", 4}}));
  for (const Dimensions& wrong : std::vector<Dimensions>{{{"x.0", 65}}, {{"x.0", 3}, {"x.1", 5}}, {{"y.0", 3}}}) {
    const auto archive = read_with(wrong);
    ASSERT_FALSE(archive);
    EXPECT_EQ(archive.error().code, Code::kDynamicShape);
  }
}

TEST(Pt2Archive, ReadsAMinimalArchive) {
  const auto archive = read(archive_bytes());
  ASSERT_TRUE(archive) << archive.error().summary();
  EXPECT_EQ(archive->program.nodes[0].name, "add");
  EXPECT_EQ(archive->weights.at("w").shape(), Shape{2});
}

TEST(Pt2Archive, RefusesOtherArchives) {
  EXPECT_THAT(error_of("x"), HasSubstr("not-a-zip: made.pt2"));
  EXPECT_THAT(error_of(without_member("m/models/model.json")), HasSubstr("zip-entry-missing"));
  EXPECT_THAT(error_of(without_member("m/archive_format")), HasSubstr("zip-entry-missing"));
  EXPECT_THAT(error_of(without_member("m/data/weights/weight_0")), HasSubstr("zip-entry-missing"));
  EXPECT_THAT(error_of(without_member("m/data/weights/model_weights_config.json")), HasSubstr("zip-entry-missing"));
  EXPECT_EQ(error_of(without_member("m/archive_version")), "success") << "torch takes 0 then";
  EXPECT_THAT(error_of(with_member("m/archive_format", "pt3")), HasSubstr("pt2-version"));
  EXPECT_THAT(error_of(with_member("m/archive_version", "1")), HasSubstr("archive_version is '1', supported is '0'"));
  EXPECT_THAT(error_of(with_member("m/byteorder", "big")), HasSubstr("byteorder is 'big'"));
  EXPECT_THAT(
      error_of(with_member("m/models/model.json", model(meta(kTwo, kOne), 9))),
      HasSubstr("pt2-version: made.pt2: $.schema_version: the model has schema 9.20 (torch 2.13.0), supported"));
  const auto torch_save = read(archive_bytes({{"m/data.pkl", "x"}, {"m/version", "3"}}));
  EXPECT_THAT(torch_save.error().hint, HasSubstr("torch.save file"));
  auto twice = members();
  twice.push_back({"n/models/model.json", model()});
  EXPECT_THAT(error_of(archive_bytes(twice)), HasSubstr("models in two folders, 'm' and 'n'"));
  auto packed = members();
  packed[4].content = std::string(8, 'x');
  packed[4].deflated = true;
  EXPECT_THAT(error_of(archive_bytes(packed)), HasSubstr("zip-compressed"));
}

TEST(Pt2Archive, ChecksTheCrcUnlessToldOtherwise) {
  const std::string changed = patched(archive_bytes(), "12345678", "12345679");
  EXPECT_THAT(error_of(changed), HasSubstr("zip-corrupt"));
  EXPECT_TRUE(read(changed, false));
}

TEST(Pt2Archive, NamesTheJsonPathOfBadShapes) {
  const auto with_model = [](std::string_view from, std::string_view to) {
    std::string text = model();
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return error_of(with_member("m/models/model.json", text.replace(at, from.size(), to)));
  };
  EXPECT_THAT(with_model("{\"graph_module\"", ""), HasSubstr("json-invalid"));
  EXPECT_THAT(with_model("\"nodes\"", "\"knots\""),
              HasSubstr("json-shape: made.pt2: $.graph_module.graph: lacks 'nodes'"));
  EXPECT_THAT(with_model("\"torch.ops.aten.add.Tensor\"", "7"),
              HasSubstr("$.graph_module.graph.nodes[0].target: is no text"));
  EXPECT_THAT(with_model("{\"name\":\"x\"}},\"kind\"", "{\"nam\":\"x\"}},\"kind\""),
              HasSubstr("nodes[0].inputs[0].arg.as_tensor: lacks 'name'"));
  EXPECT_THAT(with_model("\"major\":8", "\"major\":\"8\""), HasSubstr("$.schema_version.major: is no integer"));
  EXPECT_THAT(with_model("\"user_output\"", "\"new_output\""),
              HasSubstr("output_specs[0].new_output: is of an unknown kind"));
  EXPECT_THAT(with_model("\"dtype\":7", "\"dtype\":99"), HasSubstr("tensor_values.p_w.dtype: unknown data type 99"));
  EXPECT_EQ(with_model("\"dtype\":7", "\"dtype\":10"), "success") << "an error only where it is used";
  EXPECT_THAT(with_model("\"sizes\":[{\"as_int\":2}]", "\"sizes\":[]"), HasSubstr("0 sizes and 1 strides"));
  EXPECT_THAT(with_model("\"as_int\":2", "\"as_int\":-2"), HasSubstr("absurd shape"));
  EXPECT_THAT(with_model("\"as_int\":2", "\"as_int\":1e30"), HasSubstr("is no integer"));
  EXPECT_THAT(with_model("\"as_int\":2", "\"as_int\":99999999999999999999"), HasSubstr("json-invalid"));
  EXPECT_THAT(with_model("\"as_int\":2", "\"as_int\":9999999999999999999"), HasSubstr("is no integer"));
  EXPECT_THAT(with_model("\"as_int\":2", "\"as_int\":4611686018427387904"), HasSubstr("absurd shape"));
  EXPECT_THAT(with_model("\"as_int\":1", "\"as_int\":-1"), HasSubstr("negative stride"));
  EXPECT_THAT(with_model("\"parameter_name\":\"w\"", "\"parameter_name\":\"v\""), HasSubstr("no data for 'v'"));
  EXPECT_EQ(with_model("\"layout\":7", "\"layout\":2"), "success");
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += "[";
  EXPECT_THAT(error_of(with_member("m/models/model.json", deep)), HasSubstr("json-invalid"));
  EXPECT_THAT(error_of(with_member("m/models/model.json", "[]")), HasSubstr("json-shape: made.pt2: $: is no object"));
  EXPECT_THAT(error_of(with_member("m/models/model.json", "")), HasSubstr("json-invalid"));
  EXPECT_THAT(error_of(with_member("m/data/weights/model_weights_config.json", "{}")),
              HasSubstr("entry data/weights/model_weights_config.json"));
}

TEST(Pt2Archive, ChecksWeightsAgainstTheirBytes) {
  const auto read_weight = [](const std::string& weight_meta, const std::string& bytes) {
    return error_of(archive_bytes(members(model(weight_meta), config(weight_meta), bytes)));
  };
  EXPECT_THAT(read_weight(meta(kTwo, kOne), "1234567"), HasSubstr("weights-short"));
  EXPECT_THAT(read_weight(meta(kTwo, kOne), ""), HasSubstr("weights-short"));
  EXPECT_THAT(read_weight(meta(kTwo, kOne, 7, 1), "12345678"), HasSubstr("weights-short"));
  EXPECT_EQ(read_weight(meta(kTwo, kOne, 7, 1), "123456789012"), "success");
  EXPECT_THAT(read_weight(meta(kTwo, kTwo), "12345678"), HasSubstr("weights-short"));
  EXPECT_EQ(read_weight(meta(kTwo, kTwo), "123456789012"), "success");
  const std::string huge = R"({"as_int":9223372036854775807})";
  EXPECT_THAT(read_weight(meta(kTwo, huge), "12345678"), HasSubstr("weights-short"));
  EXPECT_THAT(read_weight(meta(kTwo + "," + kTwo + "," + kTwo, huge + "," + huge + "," + huge), "12345678"),
              HasSubstr("weights-short"));
  EXPECT_EQ(read_weight(meta(kOne, huge), "1234"), "success") << "the stride of a single element means nothing";
  EXPECT_EQ(read_weight(meta(R"({"as_int":0})", huge), ""), "success");
  // Expanded to 2^40 elements from one.
  EXPECT_THAT(read_weight(meta(R"({"as_int":1099511627776})", R"({"as_int":0})"), "1234"),
              HasSubstr("copies of strided tensors"));
  EXPECT_THAT(error_of(archive_bytes(members(model(), config(meta(kOne, kOne))))),
              HasSubstr("'w' is f32[2] in the graph and f32[1] in its data"));
  EXPECT_THAT(error_of(archive_bytes(members(model(), config(meta(kTwo, kOne), "true")))), HasSubstr("Python pickle"));
}

TEST(Pt2Archive, CopiesMisalignedWeights) {
  // libzip does not align entries; names of all lengths give all remainders.
  for (std::size_t length = 1; length <= 8; ++length) {
    auto list = members();
    list.insert(list.begin(), {std::string(length, 'a'), "x"});
    const std::string zip = archive_bytes(list);
    const auto archive = read(zip);
    ASSERT_TRUE(archive) << archive.error().summary();
    const Tensor& tensor = archive->weights.at("w");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % 4, 0U);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensor.bytes().data()), 8), "12345678");
  }
}

TEST(Pt2Archive, EveryTruncationIsAnError) {
  const auto example = read_text(kSource / "tests/data/pt2/odd_weights.pt2");
  ASSERT_TRUE(example);
  for (const std::string& zip : {archive_bytes(), *example}) {
    for (std::size_t size = 0; size < zip.size(); size += 1 + zip.size() / 3000) {
      EXPECT_NE(error_of(zip.substr(0, size)), "success") << size;
    }
  }
}

TEST(Pt2Archive, SurvivesChangedBytes) {
  const auto example = read_text(kSource / "tests/data/pt2/odd_weights.pt2");
  ASSERT_TRUE(example);
  std::mt19937 random(4);
  int errors = 0;
  double sum = 0;
  const int rounds = 3000;
  for (int round = 0; round < rounds; ++round) {
    std::string changed = round % 2 == 0 ? *example : archive_bytes();
    for (unsigned i = 0; i < 1 + random() % 4; ++i)
      changed[random() % changed.size()] = static_cast<char>(random() & 0xFF);
    const auto archive = read(changed, false);
    if (!archive) {
      ++errors;
      continue;
    }
    for (const auto& [name, tensor] : archive->weights) {
      for (std::int64_t i = 0; i < tensor.count(); ++i) sum += tensor.real(i) > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(errors, rounds / 4);
  EXPECT_LT(errors, rounds) << "no change was harmless, so nothing behind the first check ran";
  EXPECT_GT(sum, 0);
}

TEST(Pt2Schema, FindsTheUsersLine) {
  const auto line = user_line(
      "File \"/home/u/model.py\", line 71, in forward\n    x = self.block(x)\n"
      "  File \"/home/u/layers.py\", line 9, in forward\n    return self.bn(x)\n"
      "  File \"/usr/lib/python3/site-packages/torch/nn/modules/batchnorm.py\", line 210, in forward\n    return F.x(");
  EXPECT_EQ(line, std::make_pair(std::string("/home/u/layers.py"), 9));
  EXPECT_EQ(user_line("").second, 0);
  EXPECT_EQ(user_line("File \"x.py\", line many, in f\nFile \"\nnothing").second, 0);
  EXPECT_EQ(user_line("File \"x.py\", line 99999999999999999999, in f").second, 0);
}

TEST(Pt2Schema, FindsTheInnermostModule) {
  EXPECT_EQ(innermost_module("L__self__,,__main__.Net;L__self__b.bn,b.bn,torch.nn.modules.batchnorm.BatchNorm2d"),
            "b.bn");
  EXPECT_EQ(innermost_module("L__self__,,__main__.Net"), "");
  EXPECT_EQ(innermost_module("nonsense"), "");
  EXPECT_EQ(innermost_module(""), "");
}

}  // namespace
}  // namespace htpipe::pt2
