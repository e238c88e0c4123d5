#include "passes/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "passes/pass.h"

namespace htpipe {
namespace {

using Step = std::vector<const Pass*>;

Error unknown_pass(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Pass* pass : all_passes()) known.push_back(pass->name);
  return Error(Code::kUsage, fmt::format("no pass \"{}\"; there are {}", name, fmt::join(known, ", ")));
}

Result<const Pass*> known_pass(std::string_view name) {
  const Pass* pass = find_pass(name);
  if (pass == nullptr) return fail(unknown_pass(name));
  return pass;
}

Result<Step> parse_step(std::string_view text) {
  Step step;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) {
      HTPIPE_TRY(const Pass* pass, known_pass(text.substr(at, end - at)));
      step.push_back(pass);
    }
    at = end + 1;
  }
  if (step.empty()) return fail(unknown_pass(text));
  return step;
}

/// Names and types of inputs and outputs: what the outside of a graph sees.
std::string signature(const Graph& graph) {
  std::vector<std::string> parts;
  for (const auto* values : {&graph.inputs(), &graph.outputs()}) {
    for (const Value* value : *values) parts.push_back(fmt::format("%{}: {}", value->name, to_string(value->type)));
    parts.emplace_back("->");
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

class Runner {
 public:
  Runner(Graph& graph, const PassOptions& options) : graph_(graph), options_(options), signature_(signature(graph)) {}

  /// Runs one pass and records it. The number of rewrites.
  Result<int> run(const Pass& pass, int round) {
    PassRecord record;
    record.name = pass.name;
    record.round = round;
    record.nodes_before = graph_.nodes().size();
    record.nodes_after = record.nodes_before;
    if (stopped_ || contains(options_.skip, pass.name)) {
      record.skipped = true;
      record.why = stopped_ ? fmt::format("the run stops after {}", options_.stop_after) : "left out by the options";
      records_.push_back(std::move(record));
      return 0;
    }
    const auto begin = std::chrono::steady_clock::now();
    auto report = pass.run(graph_);
    if (!report) return fail(std::move(report.error()).in_pass(std::string(pass.name)));
    record.time_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    record.rewrites = report->rewrites;
    record.notes = std::move(report->notes);
    record.nodes_after = graph_.nodes().size();
    HTPIPE_CHECK_OK(check(pass, record.rewrites > 0));
    log::debug("passes", "pass={} round={} rewrites={} nodes={}", record.name, round, record.rewrites,
               record.nodes_after);
    records_.push_back(std::move(record));
    stopped_ = pass.name == options_.stop_after;
    return records_.back().rewrites;
  }

  Status run_step(const Step& step) {
    const int rounds = step.size() == 1 ? 1 : std::max(options_.max_rounds, 1);
    for (int round = 1; round <= rounds; ++round) {
      int rewrites = 0;
      for (const Pass* pass : step) {
        HTPIPE_TRY(const int found, run(*pass, round));
        rewrites += found;
      }
      if (rewrites == 0 || stopped_) return {};
    }
    if (step.size() > 1) {
      records_.back().notes.push_back(fmt::format("the group still changed the graph in round {}, the last", rounds));
      log::warn("passes", "a group of {} passes still changed the graph in round {}; raise max_rounds", step.size(),
                rounds);
    }
    return {};
  }

  [[nodiscard]] std::vector<PassRecord> take_records() { return std::move(records_); }

 private:
  static bool contains(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  Status check(const Pass& pass, bool changed) const {
    const auto with_pass = [&pass](Error error) { return fail(std::move(error).in_pass(std::string(pass.name))); };
    if (auto status = verify(graph_); !status) return with_pass(std::move(status.error()));
    if (const std::string now = signature(graph_); now != signature_) {
      return with_pass(Error(Code::kGraphInvalid, fmt::format("the pass turned the graph's inputs and outputs from {} "
                                                              "into {}",
                                                              signature_, now)));
    }
    if (!changed || !options_.check) return {};
    if (auto status = options_.check(graph_, pass.name); !status) return with_pass(std::move(status.error()));
    return {};
  }

  Graph& graph_;
  const PassOptions& options_;
  std::string signature_;
  std::vector<PassRecord> records_;
  bool stopped_ = false;
};

}  // namespace

const std::vector<std::string>& default_order() {
  static const std::vector<std::string> order = {
      "remove_dead_code",
      "fold_constants remove_identities",
      "simplify_masks fuse_masked_softmax fuse_l2_norm fuse_layer_norm fold_pad",
      "fold_batchnorm fold_scale fuse_activation fuse_hard_swish",
      "to_channel_last",
      // What stood between a producer and its activation or Batchnorm may be gone now.
      "cancel_transposes fold_transpose remove_identities fold_constants fold_batchnorm fold_scale "
      "fuse_activation fuse_hard_swish",
      "flag_product_transposes fold_factor scale_softmax",
      "merge_linears sink_splits",
      "flatten_linear",
      "choose_rows",
      "cancel_transposes remove_identities",
      "narrow_indices",
      "remove_dead_code",
  };
  return order;
}

Result<std::vector<PassRecord>> run_passes(Graph& graph, const PassOptions& options) {
  std::vector<Step> steps;
  for (const std::string& text : options.order.empty() ? default_order() : options.order) {
    HTPIPE_TRY(Step step, parse_step(text));
    steps.push_back(std::move(step));
  }
  for (const std::string& name : options.skip) HTPIPE_CHECK_OK(known_pass(name));
  if (!options.stop_after.empty()) HTPIPE_CHECK_OK(known_pass(options.stop_after));
  Runner runner(graph, options);
  for (const Step& step : steps) HTPIPE_CHECK_OK(runner.run_step(step));
  return runner.take_records();
}

}  // namespace htpipe
