#include "passes/bisect.h"

#include <utility>

namespace htpipe {
namespace {

class Bisector {
 public:
  Bisector(const Graph& imported, const PassOptions& options, const GraphComparison& holds)
      : imported_(imported), options_(options), holds_(holds) {}

  Result<Bisection> run() {
    if (auto status = compare(imported_); !status) {
      return fail(std::move(status.error()).with_note("the graph differs before any pass has run"));
    }
    const bool fails_at_the_end = fails_behind(0);
    found_.runs = last_.number;
    if (!fails_at_the_end) return std::move(found_);
    if (run_error_ && run_error_->place.pass.empty()) return fail(*run_error_);
    // A pass that ended in an error may not have been observed: the run behind the last one that was.
    if (run_error_) ++found_.runs;
    int good = 0;
    int bad = found_.runs;
    Trial at_bad = trial_of(bad);
    while (bad - good > 1) {
      const int middle = good + (bad - good) / 2;
      if (fails_behind(middle)) {
        bad = middle;
        at_bad = trial_of(bad);
      } else {
        good = middle;
      }
    }
    found_.culprit = std::move(at_bad.record);
    found_.error = std::move(at_bad.error);
    PassOptions without = options_;
    without.skip.push_back(found_.culprit->name);
    found_.holds_without = !fails(without);
    return std::move(found_);
  }

 private:
  struct Trial {
    PassRecord record;  ///< of the last run
    std::optional<Error> error;
  };

  /// What the trial that has just failed behind run `number` found there.
  Trial trial_of(int number) {
    if (run_error_ && last_.number != number) {
      last_ = {};
      last_.name = run_error_->place.pass;
      last_.number = number;
    }
    return {last_, run_error_ ? run_error_ : difference_};
  }

  Status compare(const Graph& graph) {
    ++found_.trials;
    return holds_(graph);
  }

  bool fails_behind(int run) {
    PassOptions options = options_;
    options.stop_after_run = run;
    return fails(options);
  }

  bool fails(PassOptions options) {
    Graph graph = imported_.clone();
    last_ = {};
    run_error_.reset();
    difference_.reset();
    options.check = {};
    options.observer = [this](const PassRecord& record, const Graph&) -> Status {
      last_ = record;
      return {};
    };
    if (auto records = run_passes(graph, options); !records) {
      run_error_ = std::move(records.error());
      return true;
    }
    if (auto status = compare(graph); !status) difference_ = std::move(status.error());
    return difference_.has_value();
  }

  const Graph& imported_;
  const PassOptions& options_;
  const GraphComparison& holds_;
  Bisection found_;
  PassRecord last_;  ///< the last run of the last trial
  std::optional<Error> run_error_;
  std::optional<Error> difference_;
};

}  // namespace

Result<Bisection> bisect_passes(const Graph& imported, const PassOptions& options, const GraphComparison& holds) {
  return Bisector(imported, options, holds).run();
}

}  // namespace htpipe
