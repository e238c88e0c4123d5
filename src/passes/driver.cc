#include "passes/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/io.h"
#include "base/log.h"
#include "ir/text.h"
#include "passes/pass.h"

namespace htpipe {
namespace {

using Step = std::vector<const Pass*>;

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
      record.why = stopped_ ? fmt::format("the run stops after {}", stopped_by_) : "left out by the options";
      records_.push_back(std::move(record));
      return 0;
    }
    record.number = ++runs_;
    const auto begin = std::chrono::steady_clock::now();
    auto report = pass.run(graph_);
    if (!report) return fail(std::move(report.error()).in_pass(std::string(pass.name)));
    record.time_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    record.rewrites = report->rewrites;
    record.notes = std::move(report->notes);
    record.nodes_after = graph_.nodes().size();
    if (options_.observer) HTPIPE_CHECK_OK(options_.observer(record, graph_));
    HTPIPE_CHECK_OK(check(pass, record.rewrites > 0));
    log::debug("passes", "pass={} round={} rewrites={} nodes={}", record.name, round, record.rewrites,
               record.nodes_after);
    records_.push_back(std::move(record));
    if (pass.name == options_.stop_after) stop(options_.stop_after);
    if (runs_ == options_.stop_after_run) stop(fmt::format("run {}", runs_));
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

  void stop(std::string behind) {
    stopped_ = true;
    stopped_by_ = std::move(behind);
  }

  Status check(const Pass& pass, bool changed) const {
    if (!changed) return {};  // as verified behind the run before; run_passes looks at the whole once more
    const auto with_pass = [&pass](Error error) { return fail(std::move(error).in_pass(std::string(pass.name))); };
    if (auto status = verify(graph_); !status) return with_pass(std::move(status.error()));
    if (const std::string now = signature(graph_); now != signature_) {
      return with_pass(Error(Code::kGraphInvalid, fmt::format("the pass turned the graph's inputs and outputs from {} "
                                                              "into {}",
                                                              signature_, now)));
    }
    if (!options_.check) return {};
    if (auto status = options_.check(graph_, pass.name); !status) return with_pass(std::move(status.error()));
    return {};
  }

  Graph& graph_;
  const PassOptions& options_;
  std::string signature_;
  std::vector<PassRecord> records_;
  int runs_ = 0;
  bool stopped_ = false;
  std::string stopped_by_;
};

}  // namespace

Result<std::vector<PassRecord>> run_passes(Graph& graph, const PassOptions& options) {
  std::vector<Step> steps;
  for (const std::string& text : options.order.empty() ? default_order() : options.order) {
    HTPIPE_TRY(Step step, passes_of(text));
    steps.push_back(std::move(step));
  }
  for (const std::string& name : options.skip) HTPIPE_CHECK_OK(known_pass(name));
  if (!options.stop_after.empty()) HTPIPE_CHECK_OK(known_pass(options.stop_after));
  Runner runner(graph, options);
  for (const Step& step : steps) HTPIPE_CHECK_OK(runner.run_step(step));
  HTPIPE_CHECK_OK(verify(graph));
  return runner.take_records();
}

PassObserver dump_into(std::filesystem::path folder) {
  return [folder = std::move(folder)](const PassRecord& record, const Graph& graph) -> Status {
    if (record.rewrites == 0) return {};
    return write_file_atomic(folder / fmt::format("{:03}_{}.htir", record.number, record.name), print(graph));
  };
}

Json to_json(const std::vector<PassRecord>& records) {
  Json json = Json::array();
  for (const PassRecord& record : records) {
    json.push_back({{"pass", record.name},
                    {"run", record.number},
                    {"round", record.round},
                    {"rewrites", record.rewrites},
                    {"nodes_before", record.nodes_before},
                    {"nodes_after", record.nodes_after},
                    {"time_ms", record.time_ms},
                    {"skipped", record.skipped ? Json(record.why) : Json(nullptr)},
                    {"notes", record.notes}});
  }
  return json;
}

}  // namespace htpipe
