// The table of rules against Qualcomm's validator, which nobody here wrote.
#include "target/rules.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "ops/registry.h"
#include "qnn/sample_graph_test.h"

namespace htpipe {
namespace {

using qnn::GraphSpec;
using qnn::OpSpec;
using qnn::TensorRole;
using qnn::TensorSpec;
using qnn::testing::u32_tensor;

std::vector<Target> all_targets() {
  auto targets = load_targets(std::filesystem::path(HTPIPE_SOURCE_DIR) / "targets");
  EXPECT_TRUE(targets) << targets.error().summary();
  return targets ? *targets : std::vector<Target>();
}

Target target_named(const std::string& id) {
  auto target = find_target(id, all_targets());
  EXPECT_TRUE(target) << target.error().summary();
  return target ? *target : Target();
}

TensorType data_type(Column column, Shape shape) {
  switch (column) {
    case Column::kInt8:
      return {DType::kU8, std::move(shape), Encoding::per_tensor(0.02F, 128, 8)};
    case Column::kInt16:
      return {DType::kU16, std::move(shape), Encoding::per_tensor(0.0001F, 32768, 16)};
    case Column::kFp16:
      return {DType::kF16, std::move(shape), std::nullopt};
    case Column::kInt32:
      return {DType::kI32, std::move(shape), std::nullopt};
    case Column::kBool:
      return {DType::kBool, std::move(shape), std::nullopt};
  }
  return {};
}

constexpr std::string_view kNames[kColumns] = {"int8", "int16", "fp16", "int32", "bool"};

/// Builds one graph of independent operators, so that one job of the validator judges them all.
class Cases {
 public:
  /// Adds an operator; its data tensors have `rank` axes.
  void add(const Rule& rule, int rank, Column column) {
    column_ = column;
    name_ = std::string(rule.op) + "_" + std::string(rule.value) + "_" + std::to_string(rank) + "_" +
            std::string(kNames[static_cast<std::size_t>(column)]);
    Shape shape(static_cast<std::size_t>(rank), 2);
    shape.back() = 4;
    const std::string op(rule.op);
    OpSpec spec;
    spec.name = name_;
    spec.type = op;
    if (op == "Batchnorm") {
      spec.inputs = {input("x", shape), small_weight({4}), bias(4)};
    } else if (op == "Concat") {
      spec.inputs = {input("a", shape), input("b", shape)};
      spec.params = {{"axis", std::uint32_t{0}}};
      shape[0] *= 2;
    } else if (op == "Conv2d" || op == "DepthWiseConv2d") {
      spec.inputs = {input("x", shape), weight(op == "Conv2d" ? Shape{1, 1, 4, 4} : Shape{1, 1, 1, 4}), bias(4)};
      spec.params = {{"stride", u32_tensor({2}, {1, 1})}, {"pad_amount", u32_tensor({2, 2}, {0, 0, 0, 0})}};
    } else if (op == "FullyConnected") {
      spec.inputs = {input("x", shape), weight({4, 4}), bias(4)};
      shape = {element_count(shape) / 4, 4};
    } else if (op == "MatMul") {
      Shape right = shape;
      if (rank > 1) right[right.size() - 2] = 4;
      spec.inputs = {input("a", shape), input("b", right)};
      spec.params = {{"transpose_in0", false}, {"transpose_in1", false}};
    } else if (op == "Conv3d" || op == "TransposeConv2d" || op == "TransposeConv3d") {
      spec.inputs = {input("x", shape), weight(op == "TransposeConv2d" ? Shape{1, 1, 4, 4} : Shape{1, 1, 1, 4, 4}),
                     bias(4)};
      add_geometry(spec, op == "TransposeConv2d" ? 2 : 3);
    } else if (op == "L2Pool2d" || op == "PoolAvg2d" || op == "PoolMax2d" || op == "PoolAvg3d" || op == "PoolMax3d") {
      const std::int64_t axes = op.find("3d") == std::string::npos ? 2 : 3;
      spec.inputs = {input("x", shape)};
      spec.params = {
          {"filter_size", u32_tensor({axes}, std::vector<std::uint32_t>(static_cast<std::size_t>(axes), 1))}};
      add_geometry(spec, axes);
    } else if (op == "Reshape" || op == "Convert" || op == "Quantize" || op == "Dequantize") {
      spec.inputs = {input("x", shape)};
    } else if (op == "Transpose") {
      std::vector<std::uint32_t> perm;
      for (int i = 0; i < rank; ++i) perm.push_back(static_cast<std::uint32_t>(i));
      spec.inputs = {input("x", shape)};
      spec.params = {{"perm", u32_tensor({rank}, perm)}};
    } else if (add_elementwise(rule, spec, shape) || add_normalising(rule, spec, shape) ||
               add_movement(op, shape, spec) || add_resampling(rule, spec, shape)) {
      // Added.
    } else {
      ADD_FAILURE() << "no case for " << op << ": add one here";
      return;
    }
    TensorType result = data_type(column, shape);
    const TensorType real{DType::kF32, shape, std::nullopt};
    if (op == "Dequantize") result = real;
    if (gives_bool(rule)) result.dtype = DType::kBool;
    if (op == "Cast") result = cast_type(rule.value, shape);
    if (!is_integer(result.dtype)) result.encoding.reset();
    if (op == "Convert" && column == Column::kInt16) result = data_type(Column::kInt8, shape);
    if (op == "Quantize") graph_.tensors.back().type = column == Column::kFp16 ? data_type(column, shape) : real;
    if (op == "Quantize" && column == Column::kFp16) result = data_type(Column::kInt8, shape);
    if (op == "Dequantize" && column == Column::kFp16) {
      graph_.tensors.back().type = data_type(Column::kInt8, shape);
      result = data_type(column, shape);
    }
    if (op == "Argmax" || op == "Argmin") result = {DType::kI32, shape, std::nullopt};
    graph_.tensors.push_back({name_ + ".y", TensorRole::kOutput, result, {}});
    spec.outputs = {name_ + ".y"};
    if (op == "Split" || op == "TopK") {
      if (op == "TopK") result = {DType::kI32, shape, std::nullopt};
      graph_.tensors.push_back({name_ + ".z", TensorRole::kOutput, result, {}});
      spec.outputs.push_back(name_ + ".z");
    }
    graph_.ops.push_back(std::move(spec));
  }

  [[nodiscard]] const GraphSpec& graph() const { return graph_; }

 private:
  /// Numbers that mean themselves.
  static TensorType cast_type(std::string_view to, Shape shape) {
    const DType dtype = *parse_dtype(to);
    TensorType type{dtype, std::move(shape), std::nullopt};
    if (dtype == DType::kU8) type.encoding = Encoding::per_tensor(1.0F, 0, 8);
    if (dtype == DType::kU16) type.encoding = Encoding::per_tensor(1.0F, 0, 16);
    return type;
  }
  static bool gives_bool(const Rule& rule) {
    static const std::set<std::string_view> values = {"equal", "greater",    "greater_equal",
                                                      "less",  "less_equal", "not_equal"};
    return values.count(rule.value) != 0 || rule.op == "IsInf" || rule.op == "IsNan";
  }
  bool add_elementwise(const Rule& rule, OpSpec& spec, const Shape& shape) {
    // Numbers of QNN's operations, written again so that the table of the operators is checked by them.
    const std::map<std::string_view, std::uint32_t> numbers = {
        {"add", 0},        {"and", 1},           {"divide", 2},
        {"equal", 3},      {"floor_div", 4},     {"fmod", 5},
        {"greater", 6},    {"greater_equal", 7}, {"less", 8},
        {"less_equal", 9}, {"maximum", 10},      {"minimum", 11},
        {"mod", 12},       {"multiply", 13},     {"not_equal", 14},
        {"or", 15},        {"power", 16},        {"squared_difference", 17},
        {"subtract", 18},  {"xor", 19}};
    const std::map<std::string_view, std::uint32_t> unary = {
        {"abs", 0},    {"asin", 1},  {"atan", 2}, {"ceil", 3}, {"cos", 4},         {"exp", 5},
        {"floor", 6},  {"log", 7},   {"neg", 8},  {"not", 9},  {"reciprocal", 10}, {"round", 11},
        {"rsqrt", 12}, {"sign", 13}, {"sin", 14}, {"sqrt", 15}};
    const std::map<std::string_view, std::uint32_t> neurons = {
        {"elu", 0},  {"gelu", 1},         {"gelu_tanh", 1}, {"hard_sigmoid", 2}, {"hard_swish", 3},
        {"relu", 4}, {"relu_min_max", 5}, {"sigmoid", 6},   {"softplus", 7},     {"tanh", 8}};
    if (rule.op == "ElementWiseSelect") {
      spec.inputs = {keep({name_ + ".c", TensorRole::kInput, {DType::kBool, shape, std::nullopt}, {}})};
      spec.inputs.push_back(input("a", shape));
      spec.inputs.push_back(input("b", shape));
      return true;
    }
    spec.inputs = {input("x", shape)};
    if (rule.op == "Cast" || rule.op == "IsInf" || rule.op == "IsNan") return true;
    if (rule.op == "Prelu") {
      spec.inputs.push_back(input("coefficients", shape));
    } else if (rule.op == "ElementWiseUnary") {
      spec.params = {{"operation", unary.at(rule.value)}};
    } else if (rule.op == "ElementWiseBinary") {
      spec.inputs.push_back(input("b", shape));
      spec.params = {{"operation", numbers.at(rule.value)}};
    } else if (rule.op == "ElementWiseNeuron") {
      spec.params = {{"operation", neurons.at(rule.value)}};
      if (rule.value == "relu_min_max") {
        spec.params.push_back({"min_value", 0.0F});
        spec.params.push_back({"max_value", 6.0F});
      }
    } else {
      graph_.tensors.pop_back();
      return false;
    }
    return true;
  }
  bool add_normalising(const Rule& rule, OpSpec& spec, const Shape& shape) {
    const auto last = static_cast<std::uint32_t>(shape.size() - 1);
    const std::map<std::string_view, std::vector<qnn::ParamSpec>> params = {
        {"GroupNorm", {{"epsilon", 1e-5F}, {"group", std::uint32_t{2}}}},
        {"InstanceNorm", {{"epsilon", 1e-5F}}},
        {"L2Norm", {{"axes", u32_tensor({1}, {last})}, {"epsilon", 1e-6F}}},
        {"LayerNorm", {{"axes", u32_tensor({1}, {last})}, {"epsilon", 1e-5F}}},
        {"LogSoftmax", {{"axis", last}}},
        {"Lrn", {{"radius", std::int32_t{1}}}},
        {"RmsNorm", {{"axes", u32_tensor({1}, {last})}, {"epsilon", 1e-5F}}},
        {"Softmax", {{"axis", last}}}};
    const auto found = params.find(rule.op);
    if (found == params.end()) return false;
    spec.params = found->second;
    spec.inputs = {input("x", shape)};
    const bool scaled = rule.op != "L2Norm" && rule.op.find("Norm") != std::string_view::npos;
    if (scaled) spec.inputs.push_back(small_weight({4}));
    if (scaled) spec.inputs.push_back(bias(4));
    return true;
  }
  /// Changes `shape` to that of the result.
  bool add_resampling(const Rule& rule, OpSpec& spec, Shape& shape) {
    spec.inputs = {input("x", shape)};
    if (rule.op == "Resize") {
      const std::map<std::string_view, std::uint32_t> numbers = {{"nearest", 0}, {"linear", 1}, {"cubic", 2}};
      spec.params = {{"transformation_mode", std::uint32_t{0}}, {"interpolation_mode", numbers.at(rule.value)}};
      for (std::size_t axis = 1; axis + 1 < shape.size(); ++axis) shape[axis] = 4;
    } else if (rule.op == "GridSample") {
      Shape grid = shape;
      grid.back() = static_cast<std::int64_t>(std::max<std::size_t>(shape.size(), 3)) - 2;
      spec.inputs.push_back(input("grid", grid));
    } else if (rule.op == "RotaryEmbedding") {
      const Shape angles = {2, 2, 2};
      spec.inputs.push_back(input("cos", angles));
      spec.inputs.push_back(input("sin", angles));
    } else {
      return false;
    }
    return true;
  }

  std::string indices(Shape shape) { return fixed("i", {DType::kI32, std::move(shape), std::nullopt}); }

  /// Operators that move elements, pick or reduce; `shape` becomes that of the result.
  bool add_movement(const std::string& op, Shape& shape, OpSpec& spec) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    const auto list = [](std::int64_t count, std::uint32_t value) {
      return u32_tensor({count}, std::vector<std::uint32_t>(static_cast<std::size_t>(count), value));
    };
    static const std::set<std::string_view> others = {
        "Argmax", "Argmin",          "CumulativeSum", "DepthToSpace", "Gather", "GatherElements", "GatherNd", "OneHot",
        "Pad",    "ScatterElements", "ScatterNd",     "SpaceToDepth", "Split",  "StridedSlice",   "Tile",     "TopK"};
    if (others.count(op) == 0 && op.rfind("Reduce", 0) != 0) return false;
    spec.inputs = {input("x", shape)};
    if (op == "StridedSlice") {
      std::vector<std::int32_t> ranges;
      for (const std::int64_t size : shape) ranges.insert(ranges.end(), {0, static_cast<std::int32_t>(size), 1});
      spec.params = {{"ranges", Tensor::from<std::int32_t>({DType::kI32, {rank, 3}, std::nullopt}, ranges)}};
    } else if (op == "Split") {
      spec.params = {{"axis", std::uint32_t{0}}, {"split_index", list(1, static_cast<std::uint32_t>(shape[0] / 2))}};
      shape[0] /= 2;
    } else if (op == "Pad") {
      spec.params = {{"scheme", std::uint32_t{0}},
                     {"pad_amount", u32_tensor({rank, 2}, std::vector<std::uint32_t>(2 * shape.size(), 0))}};
    } else if (op == "Tile") {
      spec.params = {{"multiples", list(rank, 1)}};
    } else if (op == "Gather") {
      spec.inputs.push_back(indices({3}));
      spec.params = {{"axis", std::int32_t{0}}};
      shape[0] = 3;
    } else if (op == "GatherElements") {
      spec.inputs.push_back(indices(shape));
      spec.params = {{"axis", std::uint32_t{0}}};
    } else if (op == "GatherNd") {
      spec.inputs.push_back(indices({3, 1}));
      spec.params = {{"batch_dims", std::uint32_t{0}}};
      shape[0] = 3;
    } else if (op == "ScatterElements") {
      spec.inputs.push_back(indices(shape));
      spec.inputs.push_back(input("u", shape));
      spec.params = {{"axis", std::uint32_t{0}}};
    } else if (op == "ScatterNd") {
      spec.inputs.push_back(indices({1, 1}));
      Shape updates = shape;
      updates[0] = 1;
      spec.inputs.push_back(input("u", updates));
    } else if (op == "DepthToSpace" || op == "SpaceToDepth") {
      spec.params = {{"block_size", list(2, 2)}, {"mode", std::uint32_t{0}}};
      if (rank == 4 && op == "DepthToSpace") shape = {shape[0], 2 * shape[1], 2 * shape[2], shape[3] / 4};
      if (rank == 4 && op == "SpaceToDepth") shape = {shape[0], shape[1] / 2, shape[2] / 2, 4 * shape[3]};
    } else if (op == "OneHot") {
      graph_.tensors.back().type = {DType::kI32, shape, std::nullopt};
      spec.params = {{"depth", std::uint32_t{3}}, {"axis", static_cast<std::uint32_t>(rank)}};
      shape.push_back(3);
    } else if (op == "CumulativeSum") {
      spec.params = {{"axis", std::uint32_t{0}}};
    } else if (op == "TopK") {
      spec.params = {{"k", std::uint32_t{2}}};
      shape.back() = 2;
    } else if (op == "Argmax" || op == "Argmin") {
      spec.params = {{"axis", std::uint32_t{0}}, {"keep_dims", true}};
      shape[0] = 1;
    } else if (op.rfind("Reduce", 0) == 0) {
      spec.params = {{"axes", list(1, 0)}, {"keep_dims", true}};
      shape[0] = 1;
    }
    return true;
  }

  std::string input(const std::string& name, Shape shape) {
    return keep({name_ + "." + name, TensorRole::kInput, data_type(column_, std::move(shape)), {}});
  }
  std::string keep(TensorSpec tensor) {
    graph_.tensors.push_back(std::move(tensor));
    return graph_.tensors.back().name;
  }
  std::string fixed(const std::string& name, TensorType type) {
    Tensor zeros(type);
    return keep({name_ + "." + name, TensorRole::kStatic, std::move(type), std::move(zeros)});
  }
  static void add_geometry(OpSpec& spec, std::int64_t axes) {
    const auto count = static_cast<std::size_t>(axes);
    spec.params.push_back({"stride", u32_tensor({axes}, std::vector<std::uint32_t>(count, 1))});
    spec.params.push_back({"pad_amount", u32_tensor({axes, 2}, std::vector<std::uint32_t>(2 * count, 0))});
  }
  std::string weight(Shape shape) {
    if (column_ == Column::kFp16) return fixed("w", {DType::kF16, std::move(shape), std::nullopt});
    return fixed("w", {DType::kI8, std::move(shape), Encoding::per_tensor(0.01F, 0, 8)});
  }
  /// Batchnorm's weight is unsigned.
  std::string small_weight(Shape shape) {
    if (column_ == Column::kFp16) return weight(std::move(shape));
    return fixed("w", {DType::kU8, std::move(shape), Encoding::per_tensor(0.01F, 128, 8)});
  }
  std::string bias(std::int64_t channels) {
    if (column_ == Column::kFp16) return fixed("b", {DType::kF16, {channels}, std::nullopt});
    const float scale = column_ == Column::kInt16 ? 0.000001F : 0.0002F;
    return fixed("b", {DType::kI32, {channels}, Encoding::per_tensor(scale, 0, 32)});
  }

  GraphSpec graph_{"rules", {}, {}};
  std::string name_;
  Column column_ = Column::kInt8;
};

TEST(Rules, EveryOperatorHasOne) {
  register_all_ops();
  std::set<std::string_view> ruled;
  for (const Rule& rule : all_rules()) {
    ruled.insert(rule.op);
    const OpDef* op = find_op(rule.op);
    ASSERT_NE(op, nullptr) << rule.op;
    if (!rule.attribute.empty()) {
      EXPECT_NE(op->attribute(rule.attribute), nullptr) << rule.op;
    }
  }
  // An operator that QNN lacks, or that is not lowered, cannot be asked about: judge() calls it unsupported.
  for (const OpDef* op : registered_ops()) {
    EXPECT_EQ(ruled.count(op->name), op->lowering.type.empty() ? 0U : 1U) << op->name;
  }
}

TEST(Rules, AgreeWithTheVendorsValidator) {
  const auto vendor = qnn::testing::find_vendor();
  if (!vendor) GTEST_SKIP() << vendor.error().summary();
  constexpr int kRanks = 6;
  for (const Target& target : all_targets()) {
    Cases cases;
    std::vector<bool> expected;
    for (const Rule& rule : all_rules()) {
      for (int column = 0; column < kColumns; ++column) {
        // Where the chip has no float16 the validator is not always of that opinion; see rules.inc.
        if (column == static_cast<int>(Column::kFp16) && !target.supports_fp16) continue;
        for (int rank = 1; rank <= kRanks; ++rank) {
          cases.add(rule, rank, static_cast<Column>(column));
          const bool old = column == static_cast<int>(Column::kInt16) && target.htp_version < rule.int16_from;
          // It asks for three bool operands, where the row allows the first one.
          const bool not_this = rule.condition && column == static_cast<int>(Column::kBool);
          expected.push_back(!old && !not_this && rank >= rule.low_rank && rank <= rule.high_rank[column]);
        }
      }
    }
    const auto verdicts = vendor->validate(cases.graph(), target.soc_model);
    ASSERT_TRUE(verdicts) << verdicts.error().summary();
    ASSERT_EQ(verdicts->size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const qnn::OpVerdict& verdict = (*verdicts)[i];
      EXPECT_EQ(verdict.kind == qnn::OpVerdict::Kind::kSupported, expected[i])
          << target.id << " " << verdict.op << ": " << verdict.code << " " << verdict.reason;
    }
  }
}

TEST(Rules, TheVendorRefusesFloat16WhereTheDataFileSaysNone) {
  const auto vendor = qnn::testing::find_vendor();
  if (!vendor) GTEST_SKIP() << vendor.error().summary();
  Cases cases;
  for (const Rule& rule : all_rules()) {
    if (rule.op != "Quantize" && rule.op != "Dequantize") cases.add(rule, 4, Column::kFp16);
  }
  const auto verdicts = vendor->validate(cases.graph(), target_named("snapdragon-7-gen-3").soc_model);
  ASSERT_TRUE(verdicts) << verdicts.error().summary();
  for (const qnn::OpVerdict& verdict : *verdicts) {
    EXPECT_EQ(verdict.kind, qnn::OpVerdict::Kind::kRefused) << verdict.op;
  }
}

}  // namespace
}  // namespace htpipe
