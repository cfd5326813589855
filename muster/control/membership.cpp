// One function over a snapshot of all seats, with a reason in words for whatever it decides. Time comes in as a number:
// tests turn it by hand.
#include "muster/control/membership.h"

#include <algorithm>

#include <fmt/format.h>

namespace muster::control {
namespace {

std::uint64_t bit_of(std::size_t seat) {
  return std::uint64_t{1} << seat;
}

std::string seat_list(std::uint64_t members) {
  std::string text;
  for (std::size_t seat = 0; seat < 64; ++seat) {
    if ((members & bit_of(seat)) != 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", seat);
  }
  return text;
}

// Who is there.
struct Tally {
  std::uint64_t members = 0;
  std::uint64_t ready = 0;  // and not told to go
  int occupied = 0;
  int leaving = 0;
  int done = 0;
  bool somebody_lost = false;
  bool starting = false;  // and the first generation waits for it
};

Tally count(const JobView& job) {
  Tally tally;
  for (std::size_t seat = 0; seat < job.workers.size(); ++seat) {
    const Worker& worker = job.workers[seat];
    tally.somebody_lost |= worker.lost;
    tally.done += worker.done ? 1 : 0;
    if (worker.state == WorkerState::kEmpty) continue;
    ++tally.occupied;
    if (worker.member()) tally.members |= bit_of(seat);
    if (worker.leaving) {
      ++tally.leaving;
      continue;
    }
    if (worker.state == WorkerState::kReady) tally.ready |= bit_of(seat);
    tally.starting |= worker.state == WorkerState::kStarting && job.now - worker.started < kGathering;
  }
  return tally;
}

// Why nobody is left, if it is so. The arena outlives its workers: others can go on in it, unless they would only fail
// as well.
std::string why_all_are_lost(const JobView& job, const Tally& tally) {
  const auto failing = [](const Worker& worker) { return worker.failures >= kMostFailures; };
  if (job.generation == 0)
    return std::any_of(job.workers.begin(), job.workers.end(), failing)
               ? "a worker fails before it can begin, again and again"
               : "";
  const bool nobody_comes = std::all_of(job.workers.begin(), job.workers.end(), [&](const Worker& worker) {
    return worker.state == WorkerState::kEmpty && (worker.done || failing(worker));
  });
  return tally.members == 0 && (job.failed || nobody_comes) ? "all workers are lost" : "";
}

// Those that do not train yet first; then from the last seat on, which spares those that have been there longest.
std::vector<int> choose_to_go(const JobView& job, int too_many) {
  std::vector<int> chosen;
  for (const WorkerState state : {WorkerState::kStarting, WorkerState::kReady, WorkerState::kRunning}) {
    for (std::size_t seat = job.workers.size(); seat-- > 0 && static_cast<int>(chosen.size()) < too_many;) {
      if (job.workers[seat].state == state && !job.workers[seat].leaving) chosen.push_back(static_cast<int>(seat));
    }
  }
  return chosen;
}

// Seats whose time has come, from the first on.
std::vector<int> choose_to_start(const JobView& job, int wanted) {
  std::vector<int> chosen;
  for (std::size_t seat = 0; seat < job.workers.size() && static_cast<int>(chosen.size()) < wanted; ++seat) {
    const Worker& worker = job.workers[seat];
    const bool held_back = worker.failures > 0 && job.now - worker.failed < back_off(worker.failures);
    if (worker.state == WorkerState::kEmpty && !worker.done && !held_back) chosen.push_back(static_cast<int>(seat));
  }
  return chosen;
}

}  // namespace

std::chrono::nanoseconds back_off(int failures) {
  if (failures <= 1) return std::chrono::nanoseconds(0);
  if (failures >= kMostFailures) return kQuarantine;
  return kFirstBackOff * (1 << (failures - 2));
}

MembershipDecision decide_members(const JobView& job) {
  MembershipDecision decision;
  const Tally tally = count(job);
  decision.reason = why_all_are_lost(job, tally);
  if (!decision.reason.empty()) {
    decision.all_lost = job.generation == 0 || !job.finishing;
    return decision;
  }
  std::uint64_t ready = tally.ready;
  if (!job.finishing) decision.evict = choose_to_go(job, tally.occupied - tally.leaving - job.target);
  for (const int seat : decision.evict)
    ready &= ~bit_of(static_cast<std::size_t>(seat));
  const bool let_in = ready != 0 && !job.finishing && (job.generation > 0 || !tally.starting);
  const bool regroup = job.regroup && tally.members != 0 && job.generation > 0;
  if (job.arena && (tally.somebody_lost || let_in || regroup)) {
    decision.new_generation = true;
    decision.members = tally.members | (let_in ? ready : 0);
    decision.reason = fmt::format("{}; members are {}",
                                  tally.somebody_lost ? "a member is lost"
                                  : let_in            ? "workers are ready"
                                                      : "a server has gone back",
                                  seat_list(decision.members));
  }
  if (!job.finishing) decision.start = choose_to_start(job, job.target - tally.occupied - tally.done);
  return decision;
}

}  // namespace muster::control
