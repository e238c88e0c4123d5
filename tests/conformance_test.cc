// Every operator on every engine: our float engine against plain loops, our FP16 and integer engines against Qualcomm's
// emulator. Cases: tests/conformance/*.htir (conformance_case.h); what may differ: docs/htp-arithmetic.md.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <ostream>
#include <set>

#include "accuracy/metrics.h"
#include "base/io.h"
#include "conformance_case.h"
#include "conformance_reference.h"
#include "conformance_vendor.h"
#include "exec/program.h"
#include "ops/registry.h"
#include "qnn/sample_graph_test.h"

namespace htpipe::conformance {
namespace {

struct Engine {
  std::string name;
  enum class Kind : std::uint8_t { kFloat, kHalf, kVendor } kind;
  Precision precision;
  int htp_version;
  std::uint32_t soc_model;
  bool stored = false;  ///< takes the cases that are quantised already
};

const std::vector<Engine>& engines() {
  using Kind = Engine::Kind;
  static const std::vector<Engine> table = {
      {"float", Kind::kFloat, Precision::kFp16, 0, 0},
      {"half", Kind::kHalf, Precision::kFp16, 0, 0},
      {"fp16_v75", Kind::kVendor, Precision::kFp16, 75, 57},
      {"int8_v68", Kind::kVendor, Precision::kInt8, 68, 30},
      {"int8_v73", Kind::kVendor, Precision::kInt8, 73, 64},
      {"int8_v75", Kind::kVendor, Precision::kInt8, 75, 57},
      {"int16_v68", Kind::kVendor, Precision::kInt16, 68, 30},
      {"int16_v73", Kind::kVendor, Precision::kInt16, 73, 64},
      {"int16_v75", Kind::kVendor, Precision::kInt16, 75, 57},
      {"stored_v68", Kind::kVendor, Precision::kInt8, 68, 30, true},
      {"stored_v73", Kind::kVendor, Precision::kInt8, 73, 64, true},
      {"stored_v75", Kind::kVendor, Precision::kInt8, 75, 57, true},
  };
  return table;
}

bool takes(const Engine& engine, const Case& test) { return engine.stored == test.stored && test.runs_on(engine.name); }

/// One test: the cases of one file on one engine.
struct Parameter {
  std::filesystem::path file;
  const Engine* engine;
};

void PrintTo(const Parameter& parameter, std::ostream* stream) {
  *stream << parameter.file.filename() << " on " << parameter.engine->name;
}

std::vector<Parameter> parameters() {
  register_all_ops();
  std::vector<Parameter> found;
  for (const auto& file : files()) {
    const auto cases = read(file);
    for (const Engine& engine : engines()) {
      // A file that cannot be read fails in every test.
      const bool any =
          !cases || std::any_of(cases->begin(), cases->end(), [&](const Case& c) { return takes(engine, c); });
      if (any) found.push_back({file, &engine});
    }
  }
  return found;
}

const Result<qnn::Vendor>& vendor() {
  static const Result<qnn::Vendor> found = qnn::testing::find_vendor();
  return found;
}

/// Steps between values that count: FP16 numbers far below the largest one are measured in its steps, because what is
/// left of a sum that cancels depends on the order of its terms.
accuracy::StepAgreement agreement(const Tensor& ours, const Tensor& theirs) {
  accuracy::StepAgreement result;
  if (ours.dtype() != DType::kF16) {
    result.add(ours, theirs);
    return result;
  }
  double largest = 0;
  for (const float x : to_floats(theirs))
    largest = std::max(largest, std::isfinite(x) ? std::abs(static_cast<double>(x)) : 0);
  for (std::int64_t i = 0; i < ours.count(); ++i) {
    const double a = ours.real(i);
    const double b = theirs.real(i);
    const double size = std::max({std::abs(a), std::abs(b), largest / 64, 6.2e-5});
    const double step = std::exp2(std::floor(std::log2(size)) - 10);
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    const double steps = same ? 0 : std::ceil(std::abs(a - b) / step - 1e-9);
    ++result.compared;
    if (same) ++result.equal;
    if (steps <= 1) ++result.within_one;
    result.max_steps = std::max(result.max_steps, std::isfinite(steps) ? static_cast<std::int64_t>(steps) : 1'000'000);
  }
  return result;
}

std::string first_difference(const Tensor& ours, const Tensor& theirs, std::int64_t allowed) {
  const double scale = ours.type().encoding ? static_cast<double>(ours.type().encoding->scale()) : 1;
  for (std::int64_t i = 0; i < ours.count(); ++i) {
    const double a = ours.real(i);
    const double b = theirs.real(i);
    if (a == b || (ours.type().encoding && std::abs(a - b) / scale < static_cast<double>(allowed) + 0.5)) continue;
    return fmt::format("[{}]: ours {}, vendor's {}, in steps {}", i, a, b, (a - b) / scale);
  }
  return "none";
}

/// What became of one case.
struct Outcome {
  std::string label;
  std::string name;
  accuracy::StepAgreement steps;
  std::string failure;  ///< empty = passed
};

class Conformance : public testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    if (GetParam().engine->kind == Engine::Kind::kVendor && !vendor()) {
      ASSERT_EQ(vendor().error().code, Code::kVendorMissing) << vendor().error().summary();
      GTEST_SKIP() << vendor().error().summary();
    }
    auto cases = read(GetParam().file);
    ASSERT_TRUE(cases) << cases.error().summary();
    for (Case& test : *cases) {
      if (takes(*GetParam().engine, test)) cases_.push_back(std::move(test));
    }
    ASSERT_FALSE(cases_.empty());
  }

  /// Fails for outcomes that should be good, and for ignored cases that are.
  void judge(const std::vector<Outcome>& outcomes) {
    const auto skipped = ignored(GetParam().engine->name);
    ASSERT_TRUE(skipped) << skipped.error().summary();
    accuracy::StepAgreement sum;
    std::map<std::string, int> ignored_failures;
    for (const Outcome& outcome : outcomes) {
      if (skipped->count(outcome.name) != 0) {
        ignored_failures[outcome.name] += outcome.failure.empty() ? 0 : 1;
        continue;
      }
      sum.merge(outcome.steps);
      EXPECT_TRUE(outcome.failure.empty()) << outcome.label << ": " << outcome.failure;
    }
    for (const auto& [name, failures] : ignored_failures) {
      EXPECT_GT(failures, 0) << name << " passes; take it out of ignore_" << GetParam().engine->name << ".txt";
    }
    Bound loosest;
    int left_out = 0;
    for (const Case& test : cases_) {
      if (skipped->count(test.name) != 0) {
        ++left_out;
        continue;
      }
      const Bound bound = test.bound(GetParam().engine->name);
      loosest.steps = std::max(loosest.steps, bound.steps);
      loosest.equal = std::min(loosest.equal, bound.equal);
    }
    RecordProperty("cases", static_cast<int>(outcomes.size()) - left_out);
    RecordProperty("ignored", left_out);
    RecordProperty("bound_steps", std::to_string(loosest.steps));
    RecordProperty("bound_equal", fmt::format("{}", loosest.equal));
    RecordProperty("compared", std::to_string(sum.compared));
    RecordProperty("equal", std::to_string(sum.equal));
    RecordProperty("max_steps", std::to_string(sum.max_steps));
  }

  std::vector<Case> cases_;
};

/// Largest |a - b| allowed, and what it is.
Outcome compare_reals(const Case& test, const std::vector<double>& want, const std::vector<float>& got,
                      double tolerance) {
  Outcome outcome{test.label(), test.name, {}, ""};
  double largest = 0;
  for (const double x : want) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(want[i] - static_cast<double>(got[i]));
    ++outcome.steps.compared;
    if (error <= tolerance * largest) {
      ++outcome.steps.equal;
    } else if (outcome.failure.empty()) {
      outcome.failure = fmt::format("[{}]: {} instead of {}, largest {}", i, got[i], want[i], largest);
    }
  }
  if (!(largest > 0)) outcome.failure = "the output is always zero: the case checks nothing";
  return outcome;
}

Outcome failed(const Case& test, const Error& error) { return {test.label(), test.name, {}, error.summary()}; }

/// Our float engine against plain loops in double precision.
std::vector<Outcome> run_float(const std::vector<Case>& cases) {
  constexpr double kTolerance = 2e-6;  // of the largest output
  std::vector<Outcome> outcomes;
  for (const Case& test : cases) {
    const std::vector<Tensor> inputs = inputs_of(test.graph, test.ranges, test.seed + 1);
    const auto got = run_once(test.graph, inputs);
    if (!got) {
      outcomes.push_back(failed(test, got.error()));
      continue;
    }
    const auto want = reference(test.graph, inputs);
    for (std::size_t i = 0; i < want.size(); ++i) {
      outcomes.push_back(compare_reals(test, want[i], to_floats((*got)[i]), kTolerance));
    }
  }
  return outcomes;
}

Result<Graph> quantized(const Case& test, const Engine& engine) {
  if (test.stored) return test.graph.clone();
  HTPIPE_TRY(const quant::Ranges ranges, all_ranges(test));
  quant::QuantizeOptions options;
  options.default_precision = engine.precision;
  options.weight_bits = test.weight_bits;
  options.weight_scale = test.weight_scale;
  options.weight_block = test.weight_block;
  options.signed_activations = test.signed_activations;
  options.precisions = test.precisions;
  return quant::quantize(test.graph, ranges, options);
}

/// Our FP16 engine against our float engine.
std::vector<Outcome> run_half(const std::vector<Case>& cases, const Engine& engine) {
  constexpr double kTolerance = 3e-3;  // of the largest output: binary16 keeps 5e-4 of weights and of every result
  std::vector<Outcome> outcomes;
  for (const Case& test : cases) {
    const auto half = quantized(test, engine);
    if (!half) {
      outcomes.push_back(failed(test, half.error()));
      continue;
    }
    const auto want = run_once(test.graph, inputs_of(test.graph, test.ranges, test.seed + 1));
    const auto got = run_once(*half, inputs_of(*half, test.ranges, test.seed + 1));
    if (!want || !got) {
      outcomes.push_back(failed(test, !want ? want.error() : got.error()));
      continue;
    }
    for (std::size_t i = 0; i < want->size(); ++i) {
      const std::vector<float> reals = to_floats((*want)[i]);
      outcomes.push_back(compare_reals(test, {reals.begin(), reals.end()}, to_floats((*got)[i]), kTolerance));
    }
  }
  return outcomes;
}

Outcome compare_stored(const Case& test, const Engine& engine, const Graph& graph, const std::vector<Tensor>& ours,
                       const Answer& theirs) {
  if (!theirs) return failed(test, theirs.error());
  Outcome outcome{test.label(), test.name, {}, ""};
  const Bound bound = test.bound(engine.name);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::string& name = graph.outputs()[i]->name;
    const Tensor vendors = theirs->at(name).with_type(ours[i].type());
    const accuracy::StepAgreement steps = agreement(ours[i], vendors);
    outcome.steps.merge(steps);
    if (steps.max_steps > bound.steps ||
        static_cast<double>(steps.equal) < bound.equal * static_cast<double>(steps.compared)) {
      outcome.failure += fmt::format("{}: {} of {} equal, at most {} steps apart; {}\n", name, steps.equal,
                                     steps.compared, steps.max_steps, first_difference(ours[i], vendors, bound.steps));
    }
  }
  return outcome;
}

/// Our engine for the chip's arithmetic against the vendor's emulator of the chip.
std::vector<Outcome> run_vendor(const std::vector<Case>& cases, const Engine& engine) {
  std::vector<Outcome> outcomes;
  std::vector<Graph> graphs;
  graphs.reserve(cases.size());
  std::vector<Job> jobs;
  std::vector<const Case*> tests;
  std::vector<std::vector<Tensor>> ours;
  for (const Case& test : cases) {
    auto graph = quantized(test, engine);
    if (!graph) {
      outcomes.push_back(failed(test, graph.error()));
      continue;
    }
    const std::vector<Tensor> inputs = inputs_of(*graph, test.ranges, test.seed + 1);
    auto outputs = run_once(*graph, inputs, engine.htp_version);
    if (!outputs) {
      outcomes.push_back(failed(test, outputs.error()));
      continue;
    }
    graphs.push_back(std::move(*graph));
    jobs.push_back({test.label(), &graphs.back(), inputs});
    tests.push_back(&test);
    ours.push_back(std::move(*outputs));
  }
  const std::vector<Answer> answers = run_on_vendor(*vendor(), engine.soc_model, jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    outcomes.push_back(compare_stored(*tests[i], engine, graphs[i], ours[i], answers[i]));
  }
  return outcomes;
}

TEST_P(Conformance, EnginesAgree) {
  const Engine& engine = *GetParam().engine;
  switch (engine.kind) {
    case Engine::Kind::kFloat:
      judge(run_float(cases_));
      break;
    case Engine::Kind::kHalf:
      judge(run_half(cases_, engine));
      break;
    case Engine::Kind::kVendor:
      judge(run_vendor(cases_, engine));
      break;
  }
}

std::string test_name(const testing::TestParamInfo<Parameter>& info) {
  return info.param.file.stem().string() + "_" + info.param.engine->name;
}

/// Everything that the unit tests of the operators consist of, with the values of PyTorch that they compare with.
std::string unit_tests_of_operators() {
  std::string all;
  const std::filesystem::path root = HTPIPE_SOURCE_DIR;
  for (const auto& entry : std::filesystem::directory_iterator(root / "src/ops")) {
    const std::string name = entry.path().filename().string();
    if (name.size() > 8 && name.substr(name.size() - 8) == "_test.cc") all += read_text(entry.path()).value_or("");
  }
  return all + read_text(root / "tests/data/ops/values.txt").value_or("");
}

/// No operator without a case here or in a unit test that runs it, and none whose integer rule is not compared on every
/// chip.
TEST(ConformanceCases, CoverEveryOperator) {
  register_all_ops();
  std::map<std::string, std::set<std::string>> engines_of;
  for (const auto& file : files()) {
    const auto cases = read(file);
    ASSERT_TRUE(cases) << cases.error().summary();
    for (const Case& test : *cases) {
      for (const Engine& engine : engines()) {
        if (!takes(engine, test)) continue;
        for (const auto& node : test.graph.nodes()) engines_of[std::string(node->op->name)].insert(engine.name);
      }
    }
  }
  const std::string unit_tests = unit_tests_of_operators();
  for (const OpDef* op : registered_ops()) {
    const std::string name(op->name);
    const auto& seen = engines_of[name];
    const auto mentioned = [&](const std::string& text) { return unit_tests.find(text) != std::string::npos; };
    const bool in_unit_test = mentioned("run(\"" + name + "\"") || mentioned("call(\"" + name + "\"") ||
                              mentioned("TEST(" + name + ", ") || mentioned("= " + name + "(");
    if (op->float_kernel && !in_unit_test) {
      EXPECT_EQ(seen.count("float"), 1U) << op->name;
    }
    if (!op->fixed_kernel) continue;
    for (const char* chip : {"v68", "v73", "v75"}) {
      const bool plain = seen.count(std::string("int8_") + chip) != 0 && seen.count(std::string("int16_") + chip) != 0;
      EXPECT_TRUE(plain || seen.count(std::string("stored_") + chip) != 0) << op->name << " on " << chip;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, Conformance, testing::ValuesIn(parameters()), test_name);

}  // namespace
}  // namespace htpipe::conformance
