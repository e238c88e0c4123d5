// Runs the passes of every tests/golden file, compares the printed result, and checks what no text can: that both
// graphs compute the same, that the result settles, and that its print can be read again.
// HTPIPE_UPDATE_GOLDEN=1 writes what came out into the files; review it with git diff.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/io.h"
#include "exec/program.h"
#include "golden_case.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace htpipe {
namespace {

constexpr double kTolerance = 1e-5;  // of the largest output

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

/// Lines of both texts in order: "  " in both, "- " only expected, "+ " only found.
std::string difference(const std::string& expected, const std::string& found) {
  const auto a = lines_of(expected);
  const auto b = lines_of(found);
  std::vector<std::vector<std::size_t>> common(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string text;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      text += "  " + a[i++] + "\n";
      ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      text += "- " + a[i++] + "\n";
    } else {
      text += "+ " + b[j++] + "\n";
    }
  }
  return text;
}

std::vector<Tensor> random_inputs(const Graph& graph, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    Tensor tensor(input->type);
    if (input->type.dtype == DType::kF32) {
      for (float& x : tensor.mutable_data<float>()) {
        x = static_cast<float>(static_cast<double>(generator()) / 1073741824.0 - 2.0);
      }
    } else {
      const unsigned mask = input->type.dtype == DType::kBool ? 1U : 63U;
      for (std::byte& x : tensor.mutable_data<std::byte>()) x = static_cast<std::byte>(generator() & mask);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

/// Largest magnitude of an output, and the largest difference from the other graph's.
struct Deviation {
  double largest = 0;
  double worst = 0;
};

void compare(const Graph& before, const Graph& after, unsigned seed, std::vector<Deviation>& deviations) {
  const std::vector<Tensor> inputs = random_inputs(before, seed);
  const auto wanted = run_once(before, inputs);
  const auto found = run_once(after, inputs);
  ASSERT_TRUE(wanted) << wanted.error().summary();
  ASSERT_TRUE(found) << found.error().summary();
  ASSERT_EQ(wanted->size(), found->size());
  deviations.resize(wanted->size());
  for (std::size_t i = 0; i < wanted->size(); ++i) {
    ASSERT_EQ(to_string((*wanted)[i].type()), to_string((*found)[i].type()));
    const auto a = to_floats((*wanted)[i]);
    const auto b = to_floats((*found)[i]);
    for (std::size_t j = 0; j < a.size(); ++j) {
      ASSERT_TRUE(std::isfinite(a[j]) && std::isfinite(b[j])) << "output " << i << " element " << j;
      const double wanted_value = static_cast<double>(a[j]);
      deviations[i].largest = std::max(deviations[i].largest, std::abs(wanted_value));
      deviations[i].worst = std::max(deviations[i].worst, std::abs(wanted_value - static_cast<double>(b[j])));
    }
  }
}

void expect_same_results(const Graph& before, const Graph& after) {
  std::vector<Deviation> deviations;
  for (unsigned seed = 1; seed <= 8 && !testing::Test::HasFatalFailure(); ++seed) {
    compare(before, after, seed, deviations);
  }
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    EXPECT_GT(deviations[i].largest, 0) << "output " << i << " is always zero: the case checks nothing";
    EXPECT_LE(deviations[i].worst, kTolerance * deviations[i].largest) << "output " << before.outputs()[i]->name;
  }
}

int rewrites_of(const std::vector<PassRecord>& records) {
  int sum = 0;
  for (const PassRecord& record : records) {
    EXPECT_EQ(record.rewrites == 0, record.notes.empty()) << record.name;
    sum += record.rewrites;
  }
  return sum;
}

class Golden : public testing::TestWithParam<std::filesystem::path> {
 protected:
  static void SetUpTestSuite() { register_all_ops(); }
};

TEST_P(Golden, ExpectedGraph) {
  const auto golden = golden::read(GetParam());
  ASSERT_TRUE(golden) << golden.error().summary();
  auto graph = parse_graph(golden->input);
  ASSERT_TRUE(graph) << golden->path << ": " << graph.error().summary();
  const Graph before = graph->clone();

  PassOptions options;
  options.order = golden->order;
  std::string last_pass_with_change;
  options.check = [&](const Graph&, std::string_view pass) {
    last_pass_with_change = pass;
    return Status{};
  };
  const auto records = run_passes(*graph, options);

  std::string found;
  if (!records) {
    found = "error: " + std::string(word(records.error().code));
  } else if (const std::string text = print(*graph); text == print(before)) {
    found = "unchanged";
    EXPECT_EQ(rewrites_of(*records), 0);
    EXPECT_EQ(last_pass_with_change, "");
  } else {
    found = text.substr(0, text.size() - 1);
    EXPECT_GT(rewrites_of(*records), 0);
    EXPECT_NE(last_pass_with_change, "");
    if (golden->executable) expect_same_results(before, *graph);
  }
  if (std::getenv("HTPIPE_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file_atomic(golden->path, golden->input + "----\n" + found + "\n"));
  } else {
    EXPECT_EQ(golden->expected, found) << golden->path.string() << "\n" << difference(golden->expected, found);
  }
}

TEST_P(Golden, SettlesAfterOneRun) {
  const auto golden = golden::read(GetParam());
  ASSERT_TRUE(golden);
  auto graph = parse_graph(golden->input);
  ASSERT_TRUE(graph);
  PassOptions options;
  options.order = golden->order;
  if (!run_passes(*graph, options)) return;
  const std::string once = print(*graph);
  const auto again = run_passes(*graph, options);
  ASSERT_TRUE(again) << again.error().summary();
  EXPECT_EQ(print(*graph), once);
  EXPECT_EQ(rewrites_of(*again), 0);
}

TEST_P(Golden, ResultReadsBack) {
  const auto golden = golden::read(GetParam());
  ASSERT_TRUE(golden);
  auto graph = parse_graph(golden->input);
  ASSERT_TRUE(graph);
  PassOptions options;
  options.order = golden->order;
  if (!run_passes(*graph, options)) return;
  const std::string text = print(*graph);
  const auto again = parse_graph(text, golden::blobs_of(*graph));
  ASSERT_TRUE(again) << again.error().summary();
  EXPECT_EQ(print(*again), text);
}

std::string test_name(const testing::TestParamInfo<std::filesystem::path>& info) {
  std::string name = info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, testing::ValuesIn(golden::files()), test_name);

}  // namespace
}  // namespace htpipe
