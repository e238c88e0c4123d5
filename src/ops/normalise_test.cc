// Softmax and the normalising operators: PyTorch's numbers, plain loops, and what they refuse.
// The numbers come from PyTorch 2.13: x = torch.linspace(-3, 4, 12).reshape(2, 3, 2) ** 3 / 10 and the calls named.
#include <gtest/gtest.h>

#include <limits>

#include "ops/one_op_test.h"

namespace htpipe::ops::testing {
namespace {

const Floats kX = {-2.70000005F,  -1.3205111F,  -0.515326858F, -0.129827201F, -0.00939143728F, 0.000601051259F,
                   0.0547708571F, 0.307738572F, 0.914124608F,  2.02854991F,   3.80563545F,     6.4000001F};
Operand x() { return floats({2, 3, 2}, kX); }

TEST(Softmax, PyTorchsNumbers) {
  // F.softmax(x, 1)
  expect_near(run("Softmax", {{"axis", std::int64_t{1}}}, {x()}).values(),
              {0.0406035557F, 0.124425814F, 0.360873938F, 0.409277558F, 0.598522544F, 0.466296554F, 0.0217772443F,
               0.00222712313F, 0.0514298677F, 0.0124475211F, 0.92679286F, 0.985325396F});
  // F.softmax(x * 0.5, 2)
  expect_near(run("Softmax", {{"axis", std::int64_t{2}}, {"beta", 0.5F}}, {x()}).values(),
              {0.334089965F, 0.665910125F, 0.45196119F, 0.54803884F, 0.498750955F, 0.501249075F, 0.468421161F,
               0.531578898F, 0.364192635F, 0.635807335F, 0.214639604F, 0.785360396F});
  // F.log_softmax(x, 1)
  expect_near(run("LogSoftmax", {{"axis", std::int64_t{1}}}, {x()}).values(),
              {-3.20389962F, -2.08404565F, -1.01922655F, -0.893361688F, -0.513291121F, -0.762933433F, -3.82688975F,
               -6.1070447F, -2.96753621F, -4.38623381F, -0.0760251805F, -0.0147833601F});
}

TEST(Softmax, LargeAndInfiniteInputs) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto softmax = [](const Floats& values) {
    return run("Softmax", {{"axis", std::int64_t{0}}}, {floats({3}, values)}).values();
  };
  expect_near(softmax({1000, 1000, -1000}), {0.5F, 0.5F, 0});
  expect_near(softmax({-inf, 0, -inf}), {0, 1, 0});
  for (const float value : softmax({-inf, -inf, -inf})) EXPECT_TRUE(std::isnan(value));
}

TEST(Softmax, EmptyAndWrong) {
  EXPECT_EQ(run("Softmax", {{"axis", std::int64_t{1}}}, {floats({2, 0, 3}, {})}).error, "");
  EXPECT_EQ(run("Softmax", {{"axis", std::int64_t{3}}}, {x()}).error, "unsupported-form");
  EXPECT_EQ(run("Softmax", {{"axis", std::int64_t{-1}}}, {x()}).error, "unsupported-form");
  EXPECT_EQ(run("Softmax", {{"axis", std::int64_t{0}}}, {floats({}, {1})}).error, "unsupported-form");
  EXPECT_EQ(run("Softmax", {{"axis", std::int64_t{0}}}, {integers({2}, {1, 2})}).error, "dtype-mismatch");
}

TEST(LayerNorm, PyTorchsNumbers) {
  const Operand gamma = floats({3, 2}, {0.5F, 0.8F, 1.1F, 1.4F, 1.7F, 2.0F});
  const Operand beta = floats({3, 2}, {-1.0F, -0.6F, -0.2F, 0.2F, 0.6F, 1.0F});
  // F.layer_norm(x, (3, 2), linspace(.5, 2, 6), linspace(-1, 1, 6), 1e-3)
  expect_near(run("LayerNorm", {{"axes", IntList{1, 2}}, {"epsilon", 1e-3F}}, {x(), gamma, beta}).values(),
              {-1.98710322F, -1.0451628F, 0.0981714129F, 1.1341604F, 1.94475758F, 2.60260725F, -1.49067068F,
               -1.2946794F, -0.857246339F, 0.0603921041F, 1.77987683F, 4.70572376F});
  // F.layer_norm(x, (2,), None, None, 0.5)
  expect_near(run("LayerNorm", {{"axes", IntList{2}}, {"epsilon", 0.5F}}, {x()}).values(),
              {-0.698263764F, 0.698263764F, -0.262993604F, 0.262993604F, -0.00706558023F, 0.00706558023F, -0.176080391F,
               0.176080391F, -0.618939579F, 0.618939459F, -0.878022552F, 0.87802285F});
}

TEST(RmsNorm, PyTorchsNumbers) {
  const Operand gamma = floats({3, 2}, {0.5F, 0.8F, 1.1F, 1.4F, 1.7F, 2.0F});
  // F.rms_norm(x, (3, 2), linspace(.5, 2, 6), 1e-3)
  expect_near(run("RmsNorm", {{"axes", IntList{1, 2}}, {"epsilon", 1e-3F}}, {x(), gamma}).values(),
              {-1.08305097F, -0.84751457F, -0.454768687F, -0.14581722F, -0.0128084356F, 0.00096439867F, 0.00862437207F,
               0.0775317997F, 0.316669345F, 0.894379199F, 2.03743625F, 4.03104734F});
}

TEST(LayerNorm, AxesThatAreNotNeighbours) {
  const Shape shape = {2, 3, 4};
  const Operand input = random(shape, 1);
  const Floats gamma = noise({2, 4}, 2);
  const Floats beta = noise({2, 4}, 3);
  const Floats in = noise(shape, 1);
  Floats layer(24);
  Floats rms(24);
  Floats l2(24);
  for (std::size_t j = 0; j < 3; ++j) {
    double mean = 0;
    double squares = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t k = 0; k < 4; ++k) {
        const double value = static_cast<double>(in[(i * 3 + j) * 4 + k]);
        mean += value / 8;
        squares += value * value;
      }
    }
    const double variance = squares / 8 - mean * mean;
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t k = 0; k < 4; ++k) {
        const std::size_t at = (i * 3 + j) * 4 + k;
        const double value = static_cast<double>(in[at]);
        const double g = static_cast<double>(gamma[i * 4 + k]);
        const double b = static_cast<double>(beta[i * 4 + k]);
        layer[at] = static_cast<float>((value - mean) / std::sqrt(variance + 0.25) * g + b);
        rms[at] = static_cast<float>(value / std::sqrt(squares / 8 + 0.25) * g + b);
        l2[at] = static_cast<float>(value / std::sqrt(squares));
      }
    }
  }
  const Attributes attributes = {{"axes", IntList{0, 2}}, {"epsilon", 0.25F}};
  const std::vector<Operand> operands = {input, floats({2, 4}, gamma), floats({2, 4}, beta)};
  expect_near(run("LayerNorm", attributes, operands).values(), layer);
  expect_near(run("RmsNorm", attributes, operands).values(), rms);
  expect_near(run("L2Norm", {{"axes", IntList{2, 0}}}, {input}).values(), l2);
}

TEST(LayerNorm, Refusals) {
  const Operand four = floats({4}, {1, 1, 1, 1});
  const auto error = [](const char* op, const IntList& axes, const std::vector<Operand>& operands, float epsilon = 1) {
    return run(op, {{"axes", axes}, {"epsilon", epsilon}}, operands).error;
  };
  for (const char* op : {"LayerNorm", "RmsNorm"}) {
    EXPECT_EQ(error(op, {2}, {x(), four}), "shape-mismatch");
    EXPECT_EQ(error(op, {2}, {x(), absent(), floats({2}, {1, 1})}), "unsupported-form");
    EXPECT_EQ(error(op, {2}, {x(), integers({2}, {1, 1})}), "dtype-mismatch");
  }
  for (const char* op : {"LayerNorm", "RmsNorm", "L2Norm"}) {
    EXPECT_EQ(error(op, {3}, {x()}), "unsupported-form");
    EXPECT_EQ(error(op, {}, {x()}), "unsupported-form");
    EXPECT_EQ(error(op, {1, 1}, {x()}), "unsupported-form");
    EXPECT_EQ(error(op, {1}, {x()}, -1), "unsupported-form");
    EXPECT_EQ(error(op, {0}, {integers({2}, {1, 2})}), "dtype-mismatch");
    EXPECT_EQ(error(op, {0}, {floats({0, 2}, {})}), "");
    EXPECT_EQ(error(op, {1}, {floats({0, 2}, {})}), "");
  }
}

TEST(L2Norm, PyTorchsNumbers) {
  // F.normalize(x, dim=1)
  expect_near(run("L2Norm", {{"axes", IntList{1}}}, {x()}).values(),
              {-0.982263148F, -0.995201647F, -0.187476516F, -0.0978441164F, -0.00341661577F, 0.000452981563F,
               0.0139926225F, 0.0457886904F, 0.233536616F, 0.301829726F, 0.972247303F, 0.952261627F});
  // F.normalize(x, dim=(1, 2), eps=3.0)
  expect_near(run("L2Norm", {{"axes", IntList{1, 2}}, {"epsilon", 3.0F}}, {x()}).values(),
              {-0.884592116F, -0.432634711F, -0.168834835F, -0.042534858F, -0.00307688559F, 0.000196920446F,
               0.00704212021F, 0.039567247F, 0.117532857F, 0.260819227F, 0.489306599F, 0.822875023F});
  // The smallest divisor counts: zeros stay zeros.
  expect_near(run("L2Norm", {{"axes", IntList{0}}, {"epsilon", 10.0F}}, {floats({2}, {3, 4})}).values(), {0.3F, 0.4F});
  expect_near(run("L2Norm", {{"axes", IntList{0}}}, {floats({2}, {0, 0})}).values(), {0, 0});
}

/// A channel norm in both layouts.
void expect_both_layouts(const char* op, Attributes attributes, const std::vector<Operand>& operands,
                         const Floats& want) {
  expect_near(run(op, attributes, operands).values(), want);
  const IntList order = to_last(operands[0].tensor.shape().size());
  std::vector<Operand> moved = operands;
  moved[0] = permuted(operands[0], order);
  attributes.set("data_layout", std::string("nhwc"));
  expect_near(run(op, attributes, moved).values(),
              to_floats(transpose(floats(operands[0].tensor.shape(), want).tensor, order)));
}

TEST(InstanceNorm, PyTorchsNumbersInBothLayouts) {
  // F.instance_norm(x, weight=tensor([.5, 2., -1.]), bias=tensor([.1, -.2, 3.]), eps=1e-2)
  expect_both_layouts("InstanceNorm", {{"epsilon", 1e-2F}},
                      {x(), floats({3}, {0.5F, 2.0F, -1.0F}), floats({3}, {0.1F, -0.2F, 3.0F})},
                      {-0.394826531F, 0.594826519F, -1.9752996F, 1.57529962F, 3.04990029F, 2.95009971F, -0.292223632F,
                       0.49222362F, -2.16855001F, 1.76855004F, 3.99704123F, 2.00295782F});
}

TEST(GroupNorm, PyTorchsNumbersInBothLayouts) {
  // y = torch.linspace(-2, 3, 16).reshape(1, 4, 2, 2) ** 3 / 10
  const Operand y =
      floats({1, 4, 2, 2}, {-0.800000012F, -0.462962925F, -0.237036988F, -0.100000001F, -0.0296296235F, -0.00370370178F,
                            2.1175824e-23F, 0.00370370597F, 0.0296296235F, 0.0999999791F, 0.237036988F, 0.462962925F,
                            0.800000012F, 1.27037024F, 1.8962965F, 2.70000005F});
  // F.group_norm(y, 2, tensor([1., 2., 3., 4.]), tensor([.1, .2, .3, .4]), 1e-2)
  expect_both_layouts(
      "GroupNorm", {{"group", std::int64_t{2}}, {"epsilon", 1e-2F}},
      {y, floats({4}, {1, 2, 3, 4}), floats({4}, {0.1F, 0.2F, 0.3F, 0.4F})},
      {-1.96130931F, -0.796221256F, -0.0152282799F, 0.458488584F, 1.40349746F, 1.58274174F, 1.60834801F, 1.63395441F,
       -2.72542167F, -2.49079704F, -2.03389692F, -1.28062856F, -0.209200665F, 1.88183844F, 4.66440439F, 8.23728275F});
}

TEST(GroupNorm, AnyRankAgreesWithRankThree) {
  const Shape wide = {2, 6, 3, 1, 4};
  const Operand gamma = random({6}, 5);
  const Floats values = noise(wide, 4);
  const Attributes attributes = {{"group", std::int64_t{3}}};
  const Floats want = run("GroupNorm", attributes, {floats({2, 6, 12}, values), gamma}).values();
  expect_both_layouts("GroupNorm", attributes, {floats(wide, values), gamma}, want);
  // As many groups as channels are an InstanceNorm.
  const Floats each = run("GroupNorm", {{"group", std::int64_t{6}}}, {floats(wide, values), gamma}).values();
  expect_both_layouts("InstanceNorm", {}, {floats(wide, values), gamma}, each);
  EXPECT_EQ(run("GroupNorm", attributes, {floats({2, 6}, noise({2, 6}, 7))}).error, "");
}

TEST(GroupNorm, Refusals) {
  const Operand y = random({1, 4, 2}, 1);
  EXPECT_EQ(run("GroupNorm", {{"group", std::int64_t{3}}}, {y}).error, "unsupported-form");
  EXPECT_EQ(run("GroupNorm", {{"group", std::int64_t{0}}}, {y}).error, "unsupported-form");
  EXPECT_EQ(run("GroupNorm", {{"group", std::int64_t{1}}}, {random({4}, 1)}).error, "shape-mismatch");
  EXPECT_EQ(run("GroupNorm", {{"group", std::int64_t{1}}}, {y, random({3}, 1)}).error, "shape-mismatch");
  EXPECT_EQ(run("InstanceNorm", {}, {random({4, 4}, 1)}).error, "shape-mismatch");
  EXPECT_EQ(run("InstanceNorm", {{"data_layout", std::string("nwhc")}}, {y}).error, "unsupported-form");
  EXPECT_EQ(run("InstanceNorm", {}, {floats({2, 0, 3}, {})}).error, "");
  EXPECT_EQ(run("InstanceNorm", {}, {floats({2, 3, 0}, {})}).error, "");
}

}  // namespace
}  // namespace htpipe::ops::testing
