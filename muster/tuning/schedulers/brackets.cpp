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

std::vector<const Trial*> Brackets::members(const History& history, std::uint64_t group) const {
  std::vector<const Trial*> members;
  for (const Trial& trial : history.trials()) {
    if (trial.group == group) members.push_back(&trial);
  }
  return members;
}

// Whether no trial will join any more: it has its size, or there are no trials left to begin.
bool Brackets::is_full(const History& history, std::uint64_t group, std::uint64_t members) const {
  return members >= plan_(group).size || (problem_.trials != 0 && history.size() >= problem_.trials);
}

Brackets::Verdict Brackets::verdict(const History& history, const Trial& trial) const {
  const Bracket bracket = plan_(trial.group);
  std::vector<const Trial*> in = members(history, trial.group);
  if (!is_full(history, trial.group, in.size()))
    return {.reason = fmt::format("bracket {} has {} of {} trials", trial.group, in.size(), bracket.size)};
  const auto began = static_cast<double>(in.size());
  for (std::size_t rung = 0; rung + 1 < bracket.rungs.size(); ++rung) {
    const std::uint64_t resource = bracket.rungs[rung];
    std::vector<std::pair<double, const Trial*>> arrived;
    std::size_t missing = 0;
    for (const Trial* const member : in) {
      if (const std::optional<double> value = loss_at(*member, resource, problem_.goals[0])) {
        arrived.emplace_back(*value, member);
      } else if (!ended(member->state)) {
        ++missing;
      }
    }
    const bool here = trial.resource() <= resource;
    if (missing > 0) return {.reason = fmt::format("waits for {} of {} at {}", missing, in.size(), resource)};
    std::sort(arrived.begin(), arrived.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second->number < b.second->number;
    });
    const auto share = static_cast<std::size_t>(began / std::pow(eta_, static_cast<double>(rung + 1)) + 1e-9);
    const std::size_t stay = std::min(std::max<std::size_t>(share, 1), arrived.size());
    std::vector<const Trial*> best;
    for (std::size_t i = 0; i < stay; ++i)
      best.push_back(arrived[i].second);
    const bool goes_on = std::find(best.begin(), best.end(), &trial) != best.end();
    const auto place = std::find_if(arrived.begin(), arrived.end(), [&](const auto& a) { return a.second == &trial; });
    if (here || !goes_on)
      return {.decided = true,
              .goes_on = goes_on,
              .reason = fmt::format("place {} of {} at {}; the best {} go on", place - arrived.begin() + 1,
                                    arrived.size(), resource, stay)};
    in = std::move(best);
  }
  return {.decided = true, .goes_on = true, .reason = "to its end"};
}

Decision Brackets::after_report(const History& history, std::uint64_t number) {
  const Trial& trial = history.at(number);
  const Bracket bracket = plan_(trial.group);
  const bool meets =
      std::find(bracket.rungs.begin(), bracket.rungs.end() - 1, trial.resource()) != bracket.rungs.end() - 1;
  if (!meets) return {.reason = fmt::format("between rungs of bracket {}", trial.group)};
  const Verdict judged = verdict(history, trial);
  if (!judged.decided) return {.action = Action::kPause, .reason = judged.reason};
  return {.action = judged.goes_on ? Action::kContinue : Action::kStop, .reason = judged.reason};
}

std::optional<Next> Brackets::next_of(const History& history, std::uint64_t group) const {
  for (const Trial* const trial : members(history, group)) {
    if (trial->state != State::kPaused) continue;
    const Verdict judged = verdict(history, *trial);
    if (!judged.decided) return std::nullopt;  // and so for the others of this bracket
    return Next{.turn = judged.goes_on ? Turn::kRun : Turn::kEnd,
                .number = trial->number,
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
