// Brackets are found in the history by their group; who stays in at a rung is worked out from the first rung up, each
// time, so there is nothing to keep.
#include "muster/tuning/schedulers/brackets.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "muster/tuning/turns.h"

namespace muster::tuning {
namespace {

// The loss at exactly this resource; nothing if it has not come there.
std::optional<double> loss_at(const Trial& trial, std::uint64_t resource, Goal goal) {
  const Report* const report = trial.report_at(resource);
  if (report == nullptr || report->resource != resource) return std::nullopt;
  const double value = loss(report->values[0], goal);
  return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}

}  // namespace

std::vector<std::uint64_t> rungs(std::uint64_t least, std::uint64_t most, double eta) {
  std::vector<std::uint64_t> resources;
  for (double resource = static_cast<double>(least); resource < static_cast<double>(most); resource *= eta) {
    const auto rounded = static_cast<std::uint64_t>(std::llround(resource));
    if (rounded < most && (resources.empty() || rounded > resources.back())) resources.push_back(rounded);
  }
  resources.push_back(most);
  return resources;
}

Brackets::Brackets(const ScheduleProblem& problem, double eta, std::function<Bracket(std::uint64_t)> plan)
    : problem_(problem), eta_(eta), plan_(std::move(plan)) {
}

std::vector<Brackets::Rung> Brackets::rungs_of(const History& history, std::uint64_t group) const {
  const Bracket bracket = plan_(group);
  std::vector<const Trial*> in;
  for (const Trial& trial : history.trials()) {
    if (trial.group == group) in.push_back(&trial);
  }
  const bool no_more = problem_.trials != 0 && history.size() >= problem_.trials;
  if (in.size() < bracket.size && !no_more) return {};
  const auto began = static_cast<double>(in.size());
  std::vector<Rung> rungs;
  for (std::size_t i = 0; i + 1 < bracket.rungs.size(); ++i) {
    Rung& rung = rungs.emplace_back();
    rung.resource = bracket.rungs[i];
    std::vector<std::pair<double, std::uint64_t>> order;
    for (const Trial* const member : in) {
      if (const std::optional<double> value = loss_at(*member, rung.resource, problem_.goals[0])) {
        order.emplace_back(*value, member->number);
      } else if (!ended(member->state)) {
        ++rung.missing;
      }
    }
    std::sort(order.begin(), order.end());
    for (const auto& [value, number] : order)
      rung.arrived.push_back(&history.at(number));
    const auto share = static_cast<std::size_t>(began / std::pow(eta_, static_cast<double>(i + 1)) + 1e-9);
    rung.go_on = std::min(std::max<std::size_t>(share, 1), order.size());
    if (rung.missing > 0) break;
    in.assign(rung.arrived.begin(), rung.arrived.begin() + static_cast<std::ptrdiff_t>(rung.go_on));
  }
  return rungs;
}

Brackets::Verdict Brackets::verdict(const std::vector<Rung>& rungs, const Trial& trial) const {
  if (rungs.empty()) return {.reason = fmt::format("bracket {} is not full yet", trial.group)};
  for (const Rung& rung : rungs) {
    if (rung.missing > 0) return {.reason = fmt::format("waits for {} others at {}", rung.missing, rung.resource)};
    const auto place = std::find(rung.arrived.begin(), rung.arrived.end(), &trial) - rung.arrived.begin();
    const bool goes_on = place < static_cast<std::ptrdiff_t>(rung.go_on);
    if (goes_on && trial.resource() > rung.resource) continue;
    return {.decided = true,
            .goes_on = goes_on,
            .reason = fmt::format("place {} of {} at {}; the best {} go on", place + 1, rung.arrived.size(),
                                  rung.resource, rung.go_on)};
  }
  return {.decided = true, .goes_on = true, .reason = "to its end"};
}

Decision Brackets::after_report(const History& history, std::uint64_t number) {
  const Trial& trial = history.at(number);
  const Bracket bracket = plan_(trial.group);
  const bool meets =
      std::find(bracket.rungs.begin(), bracket.rungs.end() - 1, trial.resource()) != bracket.rungs.end() - 1;
  if (!meets) return {.reason = fmt::format("between rungs of bracket {}", trial.group)};
  const Verdict judged = verdict(rungs_of(history, trial.group), trial);
  if (!judged.decided) return {.action = Action::kPause, .reason = judged.reason};
  return {.action = judged.goes_on ? Action::kContinue : Action::kStop, .reason = judged.reason};
}

std::optional<Next> Brackets::next_of(const History& history, std::uint64_t group) const {
  const std::vector<Rung> rungs = rungs_of(history, group);
  for (const Trial& trial : history.trials()) {
    if (trial.group != group || trial.state != State::kPaused) continue;
    const Verdict judged = verdict(rungs, trial);
    if (!judged.decided) continue;
    return Next{.turn = judged.goes_on ? Turn::kRun : Turn::kEnd,
                .number = trial.number,
                .group = group,
                .reason = judged.reason};
  }
  return std::nullopt;
}

Next Brackets::next(const History& history) {
  if (const std::optional<Next> waiting = waiting_first(history)) return *waiting;
  std::vector<std::uint64_t> sizes(1);
  std::vector<bool> pauses(1);
  for (const Trial& trial : history.trials()) {
    if (trial.group >= sizes.size()) {
      sizes.resize(trial.group + 1);
      pauses.resize(trial.group + 1);
    }
    ++sizes[trial.group];
    if (trial.state == State::kPaused) pauses[trial.group] = true;
  }
  for (std::uint64_t group = 0; group < sizes.size(); ++group) {
    if (!pauses[group]) continue;
    if (const std::optional<Next> next = next_of(history, group)) return *next;
  }
  if (problem_.trials != 0 && history.size() >= problem_.trials)
    return wait_or_done(history, fmt::format("all {} trials were begun", problem_.trials));
  const std::uint64_t last = sizes.size() - 1;
  const std::uint64_t group = sizes[last] >= plan_(last).size ? last + 1 : last;
  return {.turn = Turn::kNew, .group = group, .reason = fmt::format("bracket {} has room", group)};
}

std::uint64_t Brackets::next_decision(const Trial& trial) const {
  const Bracket bracket = plan_(trial.group);
  return *std::upper_bound(bracket.rungs.begin(), bracket.rungs.end() - 1, trial.resource());
}

}  // namespace muster::tuning
