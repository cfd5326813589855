// Population-based training: who is replaced, by whom, and with which values; all keyed by (seed, trial, resource).
// Members that have not come to a resource do not count there, so few slots need no barrier.
#include "muster/tuning/schedulers/population.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/tuning/turns.h"

namespace muster::tuning {
namespace {

struct Standing {
  double loss = 0.0;
  std::uint64_t trial = 0;
  std::uint64_t resource = 0;
};

class PopulationScheduler final : public Scheduler {
 public:
  PopulationScheduler(const ScheduleProblem& problem, const PopulationBased& options)
      : problem_(problem), options_(options), members_(static_cast<std::uint64_t>(options.population)) {
    if (problem.trials != 0) members_ = std::min(members_, problem.trials);
  }

  Decision after_report(const History& history, std::uint64_t number) override {
    const Trial& trial = history.at(number);
    const std::uint64_t resource = trial.resource();
    if (resource >= problem_.max_resource || resource % interval() != 0) return {.reason = "between decisions"};
    std::vector<Standing> standings = standings_at(history, resource);
    const auto edge =
        static_cast<std::size_t>(std::ceil(options_.share * static_cast<double>(standings.size()) - 1e-9));
    const auto own =
        std::find_if(standings.begin(), standings.end(), [&](const Standing& s) { return s.trial == number; });
    const auto place = static_cast<std::size_t>(own - standings.begin());
    const std::string words = fmt::format("place {} of {} at {}", place + 1, standings.size(), resource);
    if (standings.size() >= 2 && 2 * edge <= standings.size() && place >= standings.size() - edge)
      return exploit(history, trial, standings[choice(trial, edge)], words);
    if (somebody_is_behind(history, resource))
      return {.action = Action::kPause, .reason = words + "; others are behind"};
    return {.reason = words};
  }

  Next next(const History& history) override {
    const Trial* behind = nullptr;
    std::uint64_t begun = 0;
    for (const Trial& trial : history.trials()) {
      begun = std::max(begun, trial.group + 1);
      if (trial.state != State::kWaiting && trial.state != State::kPaused) continue;
      // Of those who are equally far the best goes first: who is judged last is judged by all, and that should be the
      // worst.
      const auto place = [&](const Trial& one) { return std::pair(one.resource(), standing(history, one)); };
      if (behind == nullptr || place(trial) < place(*behind)) behind = &trial;
    }
    if (begun < members_ && (behind == nullptr || behind->resource() > 0))
      return {.turn = Turn::kNew, .group = begun, .reason = fmt::format("member {} of {}", begun + 1, members_)};
    if (behind != nullptr)
      return {.turn = Turn::kRun,
              .number = behind->number,
              .group = behind->group,
              .reason = fmt::format("member {} is behind, at {}", behind->group + 1, behind->resource())};
    return wait_or_done(history, "every member runs or has come to its end");
  }

  std::uint64_t next_decision(const Trial& trial) const override {
    return std::min((trial.resource() / interval() + 1) * interval(), problem_.max_resource);
  }

  bool changes_values() const override { return true; }

 private:
  std::uint64_t interval() const { return static_cast<std::uint64_t>(options_.interval); }

  // The newest standing of each member at this resource, best first; members that have not come there do not count.
  std::vector<Standing> standings_at(const History& history, std::uint64_t resource) const {
    std::vector<std::optional<Standing>> newest(members_);
    for (const Trial& trial : history.trials()) {
      const Report* const report = trial.report_at(resource);
      if (trial.group >= members_ || trial.state == State::kFailed || report == nullptr || report->resource != resource)
        continue;
      const double value = loss(report->values[0], problem_.goals[0]);
      newest[trial.group] = {std::isnan(value) ? std::numeric_limits<double>::infinity() : value, trial.number,
                             resource};
    }
    std::vector<Standing> standings;
    for (const std::optional<Standing>& standing : newest) {
      if (standing) standings.push_back(*standing);
    }
    std::sort(standings.begin(), standings.end(), [](const Standing& a, const Standing& b) {
      return a.loss != b.loss ? a.loss < b.loss : a.trial < b.trial;
    });
    return standings;
  }

  // The newest loss of the weights that it has: its own, or those of its parent.
  double standing(const History& history, const Trial& trial) const {
    const Report* report = trial.reports.empty() ? nullptr : &trial.reports.back();
    if (report == nullptr && trial.lineage)
      report = history.at(trial.lineage->parent).report_at(trial.lineage->resource);
    const double value = report == nullptr ? std::nan("") : loss(report->values[0], problem_.goals[0]);
    return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
  }

  RandomStream random_for(const Trial& trial, std::uint64_t purpose) const {
    return RandomStream({.seed = problem_.seed,
                         .purpose = Purpose::kSearch,
                         .epoch = 100 + purpose,
                         .step = trial.number,
                         .lane = trial.resource()});
  }

  std::size_t choice(const Trial& trial, std::size_t edge) const { return random_for(trial, 0).below(edge); }

  bool somebody_is_behind(const History& history, std::uint64_t resource) const {
    std::uint64_t begun = 0;
    for (const Trial& trial : history.trials()) {
      begun = std::max(begun, trial.group + 1);
      const bool wants_a_slot = trial.state == State::kWaiting || trial.state == State::kPaused;
      if (wants_a_slot && trial.resource() <= resource) return true;
    }
    return begun < members_;
  }

  Decision exploit(const History& history, const Trial& trial, const Standing& from, const std::string& words) const {
    const Trial& parent = history.at(from.trial);
    return {.action = Action::kExploit,
            .reason = fmt::format("{}: copies trial {}, the values changed", words, from.trial),
            .exploit = Exploit{{from.trial, from.resource}, perturbed(parent.values, random_for(trial, 1))}};
  }

  Assignment perturbed(const Assignment& values, RandomStream random) const {
    Assignment changed;
    for (const std::size_t key : problem_.space.order()) {
      const Parameter& parameter = problem_.space.parameters()[key];
      const double resampled = random.uniform();
      const double unit = random.uniform();
      const bool up = random.uniform() < 0.5;
      if (!problem_.space.active(key, changed)) continue;
      const Value* const value = values.find(parameter.name);
      const bool anew = value == nullptr || resampled < options_.resample;
      changed.set(parameter.name, anew ? parameter.from_unit(unit) : moved(parameter, *value, up));
    }
    return *problem_.space.fit(changed);
  }

  // A number times or divided by the factor, at least a step away where the range allows it; a choice stays.
  Value moved(const Parameter& parameter, const Value& value, bool up) const {
    if (parameter.kind == Kind::kChoice) return value;
    const auto* const integer = std::get_if<std::int64_t>(&value);
    const double number = integer != nullptr ? static_cast<double>(*integer) : std::get<double>(value);
    double target = up ? number * options_.factor : number / options_.factor;
    if (number == 0.0) target = (up ? 1.0 : -1.0) * (options_.factor - 1.0) * (parameter.most - parameter.least);
    target = std::clamp(target, parameter.least, parameter.most);
    if (!parameter.count()) return target;
    std::uint64_t index = parameter.index(target);
    if (index == parameter.index(value)) {
      const bool higher = number == 0.0 ? up : (target > number);
      if (higher && index + 1 < *parameter.count()) ++index;
      if (!higher && index > 0) --index;
    }
    return parameter.at(index);
  }

  ScheduleProblem problem_;
  PopulationBased options_;
  std::uint64_t members_;
};

}  // namespace

void PopulationBased::add_keys(Section& section) {
  section.field("population", &population, "Members that train side by side.").range(2, 10000);
  section.field("interval", &interval, "Resource (epochs) between two decisions about a member.").range(1, 1e9);
  section.field("share", &share, "The part of the members that counts as best, and as worst.").above(0.0).range(0, 0.5);
  section.field("factor", &factor, "Numbers are multiplied or divided by it.").above(1.0).range(1, 10);
  section.field("resample", &resample, "The probability of an entirely new value of a key.").range(0, 1);
}

std::unique_ptr<Scheduler> PopulationBased::make(const ScheduleProblem& problem) const {
  if (static_cast<std::uint64_t>(interval) >= problem.max_resource)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("population decides every {}, and a trial ends at {}", interval, problem.max_resource), {},
                "Give a smaller interval or longer trials.");
  return std::make_unique<PopulationScheduler>(problem, *this);
}

}  // namespace muster::tuning
