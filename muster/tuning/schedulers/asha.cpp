// ASHA. Who is among the best of a rung is worked out from the reports at exactly that resource.
// A rung is never decided for good: whoever arrives later may lift a paused trial into the best part.
#include "muster/tuning/schedulers/asha.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "muster/tuning/schedulers/brackets.h"
#include "muster/tuning/turns.h"

namespace muster::tuning {
namespace {

struct Arrival {
  double loss = 0.0;
  const Trial* trial = nullptr;

  bool operator<(const Arrival& other) const {
    return loss != other.loss ? loss < other.loss : trial->number < other.trial->number;
  }
};

class AshaScheduler final : public Scheduler {
 public:
  AshaScheduler(const ScheduleProblem& problem, const Asha& options)
      : problem_(problem),
        options_(options),
        rungs_(rungs(static_cast<std::uint64_t>(options.least), problem.max_resource, options.eta)) {}

  Decision after_report(const History& history, std::uint64_t number) override {
    const Trial& trial = history.at(number);
    const auto rung = std::find(rungs_.begin(), rungs_.end() - 1, trial.resource());
    if (rung == rungs_.end() - 1) return {.reason = "between rungs"};
    const std::vector<Arrival> all = arrivals(history, *rung);
    const std::size_t go_on = share(all.size());
    const Arrival own = *std::find_if(all.begin(), all.end(), [&](const Arrival& one) { return one.trial == &trial; });
    const auto place = static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [&](const Arrival& other) { return other < own; }));
    const std::string words = fmt::format("place {} of {} at {}; {} may go on", place + 1, all.size(), *rung, go_on);
    if (place < go_on) return {.reason = words};
    // Who came first would always stop: without a return the first eta of a rung pass.
    if (!options_.resume && static_cast<double>(all.size()) < options_.eta)
      return {.reason = fmt::format("only {} have come to {}", all.size(), *rung)};
    return {.action = options_.resume ? Action::kPause : Action::kStop, .reason = words};
  }

  Next next(const History& history) override {
    if (const std::optional<Next> waiting = waiting_first(history)) return *waiting;
    const bool paused = std::any_of(history.trials().begin(), history.trials().end(),
                                    [](const Trial& trial) { return trial.state == State::kPaused; });
    if (paused) {
      for (auto rung = rungs_.rbegin() + 1; rung != rungs_.rend(); ++rung) {
        if (const std::optional<Next> promoted = promotion(history, *rung)) return *promoted;
      }
    }
    if (problem_.trials == 0 || history.size() < problem_.trials)
      return {.turn = Turn::kNew, .reason = "nobody is to be promoted"};
    return finish(history);
  }

  std::uint64_t next_decision(const Trial& trial) const override {
    return *std::upper_bound(rungs_.begin(), rungs_.end() - 1, trial.resource());
  }

 private:
  std::size_t share(std::size_t count) const {
    return static_cast<std::size_t>(static_cast<double>(count) / options_.eta + 1e-9);
  }

  std::vector<Arrival> arrivals(const History& history, std::uint64_t resource) const {
    std::vector<Arrival> all;
    for (const Trial& trial : history.trials()) {
      const Report* const report = trial.report_at(resource);
      if (report == nullptr || report->resource != resource) continue;
      const double value = loss(report->values[0], problem_.goals[0]);
      all.push_back({std::isnan(value) ? std::numeric_limits<double>::infinity() : value, &trial});
    }
    return all;
  }

  std::optional<Next> promotion(const History& history, std::uint64_t resource) const {
    std::vector<Arrival> all = arrivals(history, resource);
    const std::size_t go_on = share(all.size());
    if (go_on == 0) return std::nullopt;
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(go_on), all.end());
    for (std::size_t place = 0; place < go_on; ++place) {
      const Trial& trial = *all[place].trial;
      if (trial.state != State::kPaused || trial.resource() != resource) continue;
      return Next{.turn = Turn::kRun,
                  .number = trial.number,
                  .reason = fmt::format("promoted: place {} of {} at {}", place + 1, all.size(), resource)};
    }
    return std::nullopt;
  }

  // No new trials: while others run they may lift a paused one into the best. Then the paused ones end; if nobody has
  // come to the end yet (few trials), the best of those who are furthest does first.
  Next finish(const History& history) const {
    const Next last = wait_or_done(history, "all trials were begun");
    if (last.turn == Turn::kWait) return last;
    const Trial* furthest = nullptr;
    bool finished = false;
    const auto key = [&](const Trial& trial) {
      return std::pair(trial.resource(), -loss(trial.reports.back().values[0], problem_.goals[0]));
    };
    for (const Trial& trial : history.trials()) {
      finished = finished || trial.state == State::kFinished;
      if (trial.state != State::kPaused) continue;
      if (furthest == nullptr || key(trial) > key(*furthest)) furthest = &trial;
    }
    if (furthest == nullptr) return last;
    if (!finished)
      return {
          .turn = Turn::kRun, .number = furthest->number, .reason = "the best so far: nobody else comes to the end"};
    return {.turn = Turn::kEnd, .number = furthest->number, .reason = "was never among the best of its rung"};
  }

  ScheduleProblem problem_;
  Asha options_;
  std::vector<std::uint64_t> rungs_;
};

}  // namespace

void Asha::add_keys(Section& section) {
  section.field("eta", &eta, "The best 1/eta of a rung go on, eta times as far.").above(1.0).range(1.0, 100.0);
  section.field("least", &least, "The resource (epochs) of the first rung.").range(1, 1e9);
  section.field("resume", &resume, "Paused trials may go on later; false: who is not among the best stops at once.");
}

std::unique_ptr<Scheduler> Asha::make(const ScheduleProblem& problem) const {
  check_rungs(kName, static_cast<std::uint64_t>(least), problem.max_resource);
  return std::make_unique<AshaScheduler>(problem, *this);
}

}  // namespace muster::tuning
