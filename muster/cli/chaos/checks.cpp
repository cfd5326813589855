// One function an invariant, each with what it found in words. Times that are allowed come from what was seen of the
// undisturbed job and of this machine, not from constants alone.
#include "muster/cli/chaos/checks.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace muster::cli {
namespace {

constexpr double kUsualStartUp = 5;     // seconds, when none was seen
constexpr double kMargin = 2;           // seconds
constexpr double kValidationTime = 60;  // seconds more while the job validates
constexpr double kSteps = 10;           // steps that may be redone or slow after a fault
constexpr double kOldLook = 1;          // seconds that what is seen of several hosts may be old
constexpr std::size_t kMostNamed = 5;

Finding passed(Finding finding, std::string reason) {
  finding.verdict = Verdict::kPass;
  finding.reason = std::move(reason);
  return finding;
}
Finding failed(Finding finding, std::string reason) {
  finding.verdict = Verdict::kFailed;
  finding.reason = std::move(reason);
  return finding;
}

std::string some_of(std::vector<std::string> texts) {
  const std::size_t more = texts.size() - std::min(texts.size(), kMostNamed);
  texts.resize(texts.size() - more);
  return fmt::format("{}{}", fmt::join(texts, "; "), more == 0 ? "" : fmt::format("; and {} more", more));
}

// A time in which no step was committed.
struct Pause {
  std::uint64_t step = 0;
  double begin = 0;
  double seconds = 0;
};

std::vector<Pause> pauses(const std::vector<ChaosSample>& samples) {
  std::vector<Pause> found;
  for (const ChaosSample& sample : samples) {
    if (!sample.live) continue;
    if (found.empty() || sample.step != found.back().step) {
      if (!found.empty()) found.back().seconds = sample.at - found.back().begin;
      found.push_back({sample.step, sample.at, 0});
    }
    found.back().seconds = std::max(found.back().seconds, sample.at - found.back().begin);
  }
  // A coordinator that never came back hides what the workers do.
  if (!found.empty() && !samples.back().live) found.back().seconds = samples.back().at - found.back().begin;
  return found;
}

Finding check_end(const Observations& seen) {
  const Finding finding{"end", "the job ends as it should", Verdict::kNotChecked, "the job still runs"};
  if (!seen.over) return finding;
  if (!seen.deserters.empty()) return failed(finding, some_of(seen.deserters));
  return seen.ended_well ? passed(finding, seen.end) : failed(finding, seen.end);
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kFailed:
      return "FAILED";
    case Verdict::kNotChecked:
      return "not checked";
  }
  return "unknown";
}

Finding check_ledger_exact(const Observations& seen) {
  Finding finding{"I1", "every sample exactly once", Verdict::kNotChecked, "job.ledger is off"};
  if (!seen.ledger) return finding;
  const data::LedgerReport& report = *seen.ledger;
  if (report.violation) return failed(finding, *report.violation);
  return passed(finding, fmt::format("{} steps, {} whole epochs of {} samples, {} lanes computed again", report.steps,
                                     report.whole_epochs, report.epoch_samples, report.repeated_lanes));
}

Finding check_copies(const Observations& seen) {
  if (seen.hosts > 0) {
    const Finding finding{"I2", "the hosts have the same state", Verdict::kNotChecked, "no checkpoint was left"};
    std::set<std::uint64_t> steps;
    for (const HostCopy& one : seen.copies) {
      steps.insert(one.weights.step);
      for (const HostCopy& other : seen.copies)
        if (one.weights.step == other.weights.step && one.weights.hash != other.weights.hash)
          return failed(finding, fmt::format("at step {} {} has {}, {} has {}", one.weights.step, one.host,
                                             one.weights.hash, other.host, other.weights.hash));
    }
    if (steps.size() > 1)
      return failed(finding, fmt::format("they ended at different steps: {}", fmt::join(steps, ", ")));
    if (steps.empty()) return finding;
    return passed(finding, fmt::format("step {} on {} hosts, hashes verified", *steps.begin(), seen.copies.size()));
  }
  return {"I2", "copies of the state agree", Verdict::kNotChecked,
          "the workers have one state, shared or with servers: there is nothing to compare"};
}

Finding check_weights(const Observations& seen) {
  Finding finding{"I3", "the weights of an undisturbed run", Verdict::kNotChecked, seen.no_reference};
  if (!seen.reference) return seen.reference_wanted ? failed(finding, seen.no_reference) : finding;
  if (!seen.newest) return failed(finding, "the job has left no checkpoint to compare");
  if (seen.newest->step != seen.reference->step)
    return failed(finding, fmt::format("the job ended at step {}, the undisturbed run at step {}", seen.newest->step,
                                       seen.reference->step));
  if (seen.newest->hash != seen.reference->hash)
    return failed(finding, fmt::format("at step {} the weights are {}, those of the undisturbed run {}",
                                       seen.newest->step, seen.newest->hash, seen.reference->hash));
  return passed(finding, fmt::format("step {}, {}", seen.newest->step, seen.newest->hash.substr(0, 16)));
}

Finding check_monotonic(const Observations& seen) {
  const Finding finding{"I4", "step, generation and fencing token never go back", Verdict::kNotChecked, {}};
  ChaosSample last;
  std::size_t live = 0;
  const auto back = [&](std::string_view what, std::uint64_t from, std::uint64_t to, double at) {
    return failed(finding, fmt::format("{} went from {} to {} at {:.1f} s", what, from, to, at));
  };
  for (const ChaosSample& sample : seen.samples) {
    if (sample.token < last.token) return back("the fencing token", last.token, sample.token, sample.at);
    last.token = sample.token;
    if (!sample.live) continue;
    ++live;
    if (sample.step < last.step) return back("the step", last.step, sample.step, sample.at);
    if (sample.generation < last.generation)
      return back("the generation", last.generation, sample.generation, sample.at);
    last.step = sample.step;
    last.generation = sample.generation;
  }
  const auto down = std::is_sorted_until(seen.metric_steps.begin(), seen.metric_steps.end());
  if (down != seen.metric_steps.end())
    return failed(finding, fmt::format("in metrics.jsonl step {} stands behind step {}", *down, *(down - 1)));
  if (live == 0) return {finding.name, finding.what, Verdict::kNotChecked, "the job was never seen while it ran"};
  return passed(finding, fmt::format("{} looks, {} rows of metrics; step {}, generation {}, token {} in the end", live,
                                     seen.metric_steps.size(), last.step, last.generation, last.token));
}

Finding check_checkpoint(const Observations& seen) {
  const Finding finding{"I5", "the newest checkpoint is whole", Verdict::kNotChecked, {}};
  if (!seen.rejected.empty()) return failed(finding, some_of(seen.rejected));
  if (!seen.newest && !seen.acknowledged) return {finding.name, finding.what, Verdict::kNotChecked, "none was written"};
  if (!seen.newest)
    return failed(finding, fmt::format("none loads, although there was one of step {}", *seen.acknowledged));
  if (seen.acknowledged && seen.newest->step < *seen.acknowledged)
    return failed(finding,
                  fmt::format("it is of step {}, and there was one of step {}", seen.newest->step, *seen.acknowledged));
  return passed(finding, fmt::format("step {}, hashes verified", seen.newest->step));
}

std::optional<double> median_start_up(const std::vector<MadeFault>& faults) {
  std::vector<double> times;
  for (const MadeFault& fault : faults)
    if (fault.gone && fault.replaced) times.push_back(*fault.replaced - *fault.gone);
  if (times.empty()) return std::nullopt;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

namespace {

double longest_start_up(const std::vector<MadeFault>& faults) {
  std::optional<double> longest;
  for (const MadeFault& fault : faults)
    if (fault.gone && fault.replaced) longest = std::max(longest.value_or(0), *fault.replaced - *fault.gone);
  return longest.value_or(kUsualStartUp);
}

// By how much the usual step took longer than a calm one: what a machine that has much else to do takes longer for.
double slowness(const Observations& seen) {
  std::vector<double> times;
  const std::vector<Pause> all = pauses(seen.samples);
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    if (all[i].step > 0 && all[i + 1].step > all[i].step)
      times.push_back(all[i].seconds / static_cast<double>(all[i + 1].step - all[i].step));
  if (times.empty() || seen.step_seconds <= 0) return 1;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return std::max(1.0, *middle / seen.step_seconds);
}

}  // namespace

double longest_pause_allowed(const Observations& seen) {
  return slowness(seen) * (seen.liveness + kSteps * seen.step_seconds + kMargin) + 2 * longest_start_up(seen.faults);
}

Finding check_progress(const Observations& seen) {
  const Finding finding{"I6", "nothing stands still for long", Verdict::kNotChecked, {}};
  const double allowed = longest_pause_allowed(seen);
  Pause longest;
  for (const Pause& pause : pauses(seen.samples)) {
    if (pause.step == 0) continue;  // it has not begun yet
    const bool validates = seen.validated_steps.contains(pause.step);
    if (!validates && pause.seconds > longest.seconds) longest = pause;
    if (pause.seconds > allowed + (validates ? kValidationTime : 0))
      return failed(finding, fmt::format("no commit for {:.1f} s from {:.1f} s on, after step {}; allowed are {:.1f} s",
                                         pause.seconds, pause.begin, pause.step, allowed));
  }
  for (const MadeFault& fault : seen.faults) {
    if (fault.fault != Fault::kStop || fault.hit_again) continue;
    if (fault.continued) {
      // Woken in time it must go on as if nothing had been. One that was woken late proves nothing.
      const double stopped = *fault.continued - fault.at;
      const bool left = fault.gone && seen.told_to_stop && *fault.gone >= *seen.told_to_stop;
      if (fault.gone && !left && *fault.gone < *fault.continued + seen.liveness && stopped < 0.75 * seen.liveness)
        return failed(finding, fmt::format("worker {} (pid {}) was stopped for {:.1f} s only, and was killed for it",
                                           fault.rank, fault.victim.pid, stopped));
    } else if (fault.gone && *fault.gone - fault.at > allowed) {
      return failed(finding, fmt::format("worker {} (pid {}) was stopped for {:.1f} s before it was killed; "
                                         "allowed are {:.1f} s",
                                         fault.rank, fault.victim.pid, *fault.gone - fault.at, allowed));
    }
  }
  return passed(finding,
                fmt::format("longest time without a commit {:.1f} s, allowed {:.1f} s", longest.seconds, allowed));
}

Finding check_leftovers(const Observations& seen) {
  const Finding finding{"I7", "nothing is left behind", Verdict::kNotChecked, "the job still runs"};
  if (!seen.leftovers) return finding;
  if (!seen.leftovers->empty()) return failed(finding, some_of(*seen.leftovers));
  return passed(finding, "no process, socket, folder or shared memory");
}

std::optional<double> next_commit(const std::vector<ChaosSample>& samples, double at) {
  const std::vector<Pause> all = pauses(samples);
  const Pause* longest = nullptr;
  for (const Pause& pause : all)
    if (pause.begin <= at + kOldLook && pause.begin + pause.seconds >= at &&
        (longest == nullptr || pause.seconds > longest->seconds))
      longest = &pause;
  // The last one has no commit at its end.
  if (longest == nullptr || longest == &all.back()) return std::nullopt;
  return longest->begin + longest->seconds;
}

double commit_allowed(const Observations& seen, const MadeFault& fault) {
  return slowness(seen) * (seen.liveness + kSteps * seen.step_seconds + kMargin) + fault.hopeless;
}

std::vector<double> times_to_commit(const std::vector<MadeFault>& faults) {
  std::vector<double> times;
  for (const MadeFault& fault : faults)
    if (fault.commit) times.push_back(std::max(0.0, *fault.commit - fault.at));
  std::ranges::sort(times);
  return times;
}

Finding check_recovery(const Observations& seen) {
  const Finding finding{"I6", "the next commit within detection + 10 steps of every fault, and all hosts back",
                        Verdict::kNotChecked, "there was none"};
  std::vector<std::string> wrong;
  for (const MadeFault& fault : seen.faults) {
    const double allowed = commit_allowed(seen, fault);
    const std::string what = fmt::format("at {:.1f} s {}", fault.at, fault.whom);
    const bool ends = seen.told_to_stop && !fault.commit;
    if (!fault.commit && !ends)
      wrong.push_back(what + ": nothing was committed after that");
    else if (fault.commit && *fault.commit - fault.at > allowed)
      wrong.push_back(fmt::format("{}: {:.1f} s to the next commit, allowed are {:.1f} s", what,
                                  *fault.commit - fault.at, allowed));
    if (!fault.replaced && !fault.hit_again) wrong.push_back(what + ": not all hosts came back");
    if (fault.brief && fault.given_up) wrong.push_back(what + ": so briefly, and it was given up for it");
  }
  if (!wrong.empty()) return failed(finding, some_of(wrong));
  const std::vector<double> times = times_to_commit(seen.faults);
  if (times.empty()) return finding;
  return passed(finding,
                fmt::format("to the next commit: median {:.1f} s, longest {:.1f} s; allowed {:.1f} s, and what "
                            "was hopeless",
                            times[times.size() / 2], times.back(), commit_allowed(seen, {})));
}

Finding check_parts(const Observations& seen) {
  const Finding finding{"cut", "no part without the coordinator goes on", Verdict::kNotChecked,
                        "no part was cut off for long enough, or job.ledger is off"};
  if (!seen.went_on.empty()) return failed(finding, some_of(seen.went_on));
  if (seen.parts == 0) return finding;
  return passed(finding, fmt::format("{} times hosts were cut off and given up; none recorded a lane until it was back",
                                     seen.parts));
}

std::vector<Finding> check_invariants(const Observations& seen) {
  if (seen.hosts > 0)
    return {check_end(seen),      check_ledger_exact(seen), check_copies(seen),
            check_weights(seen),  check_monotonic(seen),    check_checkpoint(seen),
            check_recovery(seen), check_leftovers(seen),    check_parts(seen)};
  return {check_end(seen),       check_ledger_exact(seen), check_copies(seen),   check_weights(seen),
          check_monotonic(seen), check_checkpoint(seen),   check_progress(seen), check_leftovers(seen)};
}

}  // namespace muster::cli
