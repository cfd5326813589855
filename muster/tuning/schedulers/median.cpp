// Median stopping. The running averages of trials are taken from their reports each time: that is cheap beside an
// epoch.
#include "muster/tuning/schedulers/median.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "muster/tuning/turns.h"

namespace muster::tuning {
namespace {

class MedianScheduler final : public Scheduler {
 public:
  MedianScheduler(const ScheduleProblem& problem, const MedianStopping& options)
      : problem_(problem), options_(options) {}

  Decision after_report(const History& history, std::uint64_t number) override {
    const Trial& trial = history.at(number);
    const std::uint64_t resource = trial.resource();
    if (resource < static_cast<std::uint64_t>(options_.grace))
      return {.reason = fmt::format("nobody is judged before {}", options_.grace)};
    std::vector<double> averages;
    for (const Trial& other : history.trials()) {
      if (other.number != number && other.state != State::kFailed && other.resource() >= resource)
        averages.push_back(average_up_to(other, resource));
    }
    if (averages.size() < static_cast<std::size_t>(options_.startup))
      return {.reason = fmt::format("only {} others have come to {}", averages.size(), resource)};
    std::sort(averages.begin(), averages.end());
    const std::size_t half = averages.size() / 2;
    const double median = averages.size() % 2 == 1 ? averages[half] : 0.5 * (averages[half - 1] + averages[half]);
    double best = std::numeric_limits<double>::infinity();
    for (const Report& report : trial.reports)
      best = std::fmin(best, loss(report.values[0], problem_.goals[0]));
    const std::string words =
        fmt::format("its best {:.6g} against the median {:.6g} of {} others up to {}", loss(best, problem_.goals[0]),
                    loss(median, problem_.goals[0]), averages.size(), resource);
    if (best <= median) return {.reason = words};
    return {.action = Action::kStop, .reason = words};
  }

  Next next(const History& history) override { return plain_next(history, problem_.trials); }

  std::uint64_t next_decision(const Trial& trial) const override {
    const std::uint64_t soon = std::max(trial.resource() + 1, static_cast<std::uint64_t>(options_.grace));
    return std::min(soon, problem_.max_resource);
  }

 private:
  // REQUIRES: it has a report, or a lineage, at or before `resource`; without a report it says nothing good.
  double average_up_to(const Trial& trial, std::uint64_t resource) const {
    double sum = 0.0;
    std::size_t count = 0;
    for (const Report& report : trial.reports) {
      if (report.resource > resource) break;
      sum += loss(report.values[0], problem_.goals[0]);
      ++count;
    }
    const double average = count == 0 ? std::numeric_limits<double>::infinity() : sum / static_cast<double>(count);
    return std::isnan(average) ? std::numeric_limits<double>::infinity() : average;
  }

  ScheduleProblem problem_;
  MedianStopping options_;
};

}  // namespace

void MedianStopping::add_keys(Section& section) {
  section.field("startup", &startup, "Other trials that must have come as far before one is judged.").range(1, 1e6);
  section.field("grace", &grace, "No trial is stopped before this resource (epochs).").range(1, 1e9);
}

std::unique_ptr<Scheduler> MedianStopping::make(const ScheduleProblem& problem) const {
  return std::make_unique<MedianScheduler>(problem, *this);
}

}  // namespace muster::tuning
