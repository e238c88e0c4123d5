// Lstm, Gru and Rnn against ONNX Runtime 1.32 and PyTorch 2.13. Operands are noise(shape, seed) of one_op_test.h with
// these seeds: input 1, input weights 2, recurrent weights 3, bias 4, initial_h 5, initial_c 6, peephole 7. The
// numbers are those of an ONNX model of one LSTM, GRU or RNN node (opset 14) on the same operands; torch.nn.LSTM and
// torch.nn.GRU (linear_before_reset) with the gates reordered give the same to 2e-7.
#include <gtest/gtest.h>

#include "ops/one_op_test.h"

namespace htpipe::ops::testing {
namespace {

constexpr std::int64_t kSteps = 3;
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kInput = 2;
constexpr std::int64_t kHidden = 2;

struct Form {
  std::int64_t gates;
  bool bias = true;
  bool initial = true;
  bool peephole = false;
  IntList lengths = {};
  bool constant_weights = true;
};

std::vector<Operand> operands(const Form& form, bool lstm) {
  const auto weights = [&form](Operand operand) {
    return form.constant_weights ? constant(std::move(operand)) : operand;
  };
  const std::int64_t width = form.gates * kHidden;
  std::vector<Operand> list = {random({kSteps, kBatch, kInput}, 1), weights(random({width, kInput}, 2)),
                               weights(random({width, kHidden}, 3))};
  list.push_back(form.bias ? random({2 * width}, 4) : absent());
  list.push_back(form.initial ? random({kBatch, kHidden}, 5) : absent());
  if (lstm) list.push_back(form.initial ? random({kBatch, kHidden}, 6) : absent());
  if (lstm) list.push_back(form.peephole ? random({3 * kHidden}, 7) : absent());
  list.push_back(form.lengths.empty() ? absent() : integers({kBatch}, form.lengths));
  return list;
}

void expect_results(const Ran& ran, const std::vector<Floats>& want) {
  ASSERT_EQ(ran.error, "");
  ASSERT_EQ(ran.results.size(), want.size());
  EXPECT_EQ(ran.shape(0), (Shape{kSteps, kBatch, kHidden}));
  for (std::size_t i = 0; i < want.size(); ++i) expect_near(ran.values(i), want[i], 2e-6);
}

const Attributes kReverse = {{"direction", std::string("reverse")}};

TEST(Lstm, AsOnnxRuntimeComputesIt) {
  const std::vector<Floats> want = {
      {-0.422021776F, -0.0887904018F, -0.515547514F, 0.490762204F, 0.356499672F, -0.547831714F, -0.270815551F,
       -0.0956032053F, -9.57913071e-05F, 0.0313693695F, -0.0409473293F, 0.0159138497F},
      {-9.57913071e-05F, 0.0313693695F, -0.0409473293F, 0.0159138497F},
      {-0.00135939475F, 0.368059516F, -0.4801687F, 0.436685622F}};
  expect_results(run("Lstm", {}, operands({4}, true)), want);
  Form form{4};
  form.constant_weights = false;
  expect_results(run("Lstm", {}, operands(form, true)), want);
}

TEST(Lstm, ReverseWithLengthsAndPeepholes) {
  Form form{4};
  form.peephole = true;
  form.lengths = {3, 2};
  expect_results(run("Lstm", kReverse, operands(form, true)),
                 {{-0.383463115F, -0.461522311F, -0.218294725F, 0.541270912F, 0.352031797F, -0.487036139F,
                   -0.574599445F, -0.0652122125F, -0.338688999F, 0.00363374571F, 0.0F, 0.0F},
                  {-0.383463115F, -0.461522311F, -0.218294725F, 0.541270912F},
                  {-0.836706519F, -0.7952438F, -0.226773739F, 0.852510989F}});
}

TEST(Lstm, ClipAndInputForget) {
  Form form{4};
  form.bias = form.initial = false;
  expect_results(run("Lstm", {{"clip", 0.5F}, {"input_forget", true}}, operands(form, true)),
                 {{-0.120810859F, -0.15096496F, 0.107510611F, 0.160029635F, 0.110275328F, -0.217175409F, -0.0823847577F,
                   -0.0521591306F, -0.0237599537F, -0.0196992084F, -0.121437363F, -0.0904933512F},
                  {-0.0237599537F, -0.0196992084F, -0.121437363F, -0.0904933512F},
                  {-0.0630167797F, -0.0522251427F, -0.333490551F, -0.244446948F}});
}

TEST(Gru, AsOnnxRuntimeComputesIt) {
  expect_results(run("Gru", {{"linear_before_reset", true}}, operands({3}, false)),
                 {{-1.48045397F, 0.200042695F, 0.553895295F, 0.76037395F, -1.47103739F, 0.146389276F, 0.436578274F,
                   0.738398671F, -1.07599533F, 0.0316002443F, -0.63320595F, 0.591462433F},
                  {-1.07599533F, 0.0316002443F, -0.63320595F, 0.591462433F}});
  Form form{3};
  form.lengths = {1, 3};
  expect_results(run("Gru", kReverse, operands(form, false)),
                 {{-1.48054481F, 0.129903585F, 0.567704976F, 0.606864035F, 0.0F, 0.0F, -0.841284692F, 0.665006578F,
                   0.0F, 0.0F, -0.84405303F, 0.725332797F},
                  {-1.48054481F, 0.129903585F, 0.567704976F, 0.606864035F}});
  Form bare{3};
  bare.bias = bare.initial = bare.constant_weights = false;
  expect_results(run("Gru", {{"clip", 0.7F}}, operands(bare, false)),
                 {{-0.00144768762F, 0.280733287F, 0.403831154F, -0.260419697F, 0.199569315F, 0.388119161F,
                   0.0692983866F, 0.296283901F, -0.337611616F, -0.065999791F, -0.278157592F, 0.250519007F},
                  {-0.337611616F, -0.065999791F, -0.278157592F, 0.250519007F}});
}

TEST(Rnn, AsOnnxRuntimeComputesIt) {
  expect_results(run("Rnn", {}, operands({1}, false)),
                 {{0.999984741F, 0.651687384F, -0.984361231F, 0.915235281F, 0.516406059F, 0.570450306F, 0.99867332F,
                   0.900879979F, -0.999957323F, 0.0420070887F, -0.996736288F, 0.360886693F},
                  {-0.999957323F, 0.0420070887F, -0.996736288F, 0.360886693F}});
  Form form{1};
  form.lengths = {2, 3};
  Attributes relu = kReverse;
  relu.set("function", std::string("relu"));
  expect_results(run("Rnn", relu, operands(form, false)), {{0.0F, 0.0F, 0.0F, 0.915203094F, 4.25270844F, 0.988721013F,
                                                            2.09695768F, 1.18001246F, 0.0F, 0.0F, 0.0F, 0.987960339F},
                                                           {0.0F, 0.0F, 0.0F, 0.915203094F}});
}

/// More steps than are multiplied together give what one step at a time gives.
TEST(Lstm, LongSequencesAreWalkedInChunks) {
  const std::int64_t steps = 301;
  const std::int64_t batch = 3;
  const Operand w = constant(random({20, 4}, 2));
  const Operand r = constant(random({20, 5}, 3));
  const Floats all = noise({steps, batch, 4}, 1);
  for (const char* direction : {"forward", "reverse"}) {
    const Attributes attributes = {{"direction", std::string(direction)}};
    const Ran together = run("Lstm", attributes, {floats({steps, batch, 4}, all), w, r});
    ASSERT_EQ(together.error, "");
    const Floats states = together.values();
    Operand h = floats({batch, 5}, Floats(15));
    Operand c = floats({batch, 5}, Floats(15));
    for (std::int64_t i = 0; i < steps; ++i) {
      const std::int64_t t = direction == std::string("forward") ? i : steps - 1 - i;
      const Floats step(all.begin() + t * 12, all.begin() + (t + 1) * 12);
      const Ran one = run("Lstm", attributes, {floats({1, batch, 4}, step), w, r, absent(), h, c});
      ASSERT_EQ(one.values(), Floats(states.begin() + t * 15, states.begin() + (t + 1) * 15)) << direction << t;
      h = {one.results[1], false};
      c = {one.results[2], false};
    }
    EXPECT_EQ(together.values(1), to_floats(h.tensor));
    EXPECT_EQ(together.values(2), to_floats(c.tensor));
  }
}

TEST(Recurrent, EmptyAndWrong) {
  const Operand w = random({8, 2}, 1);
  const Operand x = random({3, 2, 2}, 2);
  const auto error = [](const std::vector<Operand>& list, const Attributes& attributes = {}) {
    return run("Lstm", attributes, list).error;
  };
  EXPECT_EQ(error({x, w, w}), "");
  EXPECT_EQ(error({floats({0, 2, 2}, {}), w, w}), "");
  EXPECT_EQ(error({floats({3, 0, 2}, {}), w, w}), "");
  EXPECT_EQ(error({floats({3, 2, 0}, {}), w, w}), "shape-mismatch");
  EXPECT_EQ(error({random({3, 2}, 1), w, w}), "shape-mismatch");
  EXPECT_EQ(error({x, random({6, 2}, 1), w}), "shape-mismatch");
  EXPECT_EQ(error({x, w, random({8, 3}, 1)}), "shape-mismatch");
  EXPECT_EQ(error({x, w, w, random({8}, 1)}), "shape-mismatch");
  EXPECT_EQ(error({x, w, w, absent(), random({3, 2}, 1)}), "shape-mismatch");
  EXPECT_EQ(error({x, w, w, absent(), absent(), random({2}, 1)}), "shape-mismatch");
  EXPECT_EQ(error({x, w, w, absent(), absent(), absent(), random({8}, 1)}), "shape-mismatch");
  const auto with_lengths = [&](const Operand& lengths) {
    return error({x, w, w, absent(), absent(), absent(), absent(), lengths});
  };
  EXPECT_EQ(with_lengths(integers({3}, {1, 2, 3})), "shape-mismatch");
  EXPECT_EQ(with_lengths(random({2}, 1)), "dtype-mismatch");
  EXPECT_EQ(with_lengths(integers({2}, {-7, 1000})), "");
  EXPECT_EQ(error({x, w, w}, {{"direction", std::string("bidirectional")}}), "unsupported-form");
  EXPECT_EQ(error({x, w, w}, {{"clip", -1.0F}}), "unsupported-form");
  EXPECT_EQ(run("Rnn", {{"function", std::string("sin")}}, {x, random({2, 2}, 1), random({2, 2}, 2)}).error,
            "unsupported-form");
}

}  // namespace
}  // namespace htpipe::ops::testing
