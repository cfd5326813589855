#include "muster/control/membership.h"

#include <algorithm>

#include <fmt/format.h>

namespace muster::control {
namespace {

std::string seat_list(std::uint64_t members) {
  std::string text;
  for (int seat = 0; seat < 64; ++seat) {
    if ((members >> seat & 1) != 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", seat);
  }
  return text;
}

}  // namespace

std::chrono::nanoseconds back_off(int failures) {
  if (failures <= 1) return std::chrono::nanoseconds(0);
  if (failures >= kMostFailures) return kQuarantine;
  return kFirstBackOff * (1 << (failures - 2));
}

MembershipDecision decide_members(const JobView& job) {
  MembershipDecision decision;
  std::uint64_t members = 0;
  std::uint64_t ready = 0;
  int occupied = 0;
  int leaving = 0;
  int done = 0;
  bool somebody_lost = false;
  bool starting = false;
  for (std::size_t i = 0; i < job.seats.size(); ++i) {
    const SeatView& seat = job.seats[i];
    const std::uint64_t bit = std::uint64_t{1} << i;
    somebody_lost |= seat.lost;
    done += seat.done ? 1 : 0;
    if (seat.state == SeatState::kEmpty) continue;
    ++occupied;
    if (seat.state == SeatState::kMember) members |= bit;
    if (seat.leaving) {
      ++leaving;
      continue;
    }
    if (seat.state == SeatState::kReady) ready |= bit;
    starting |= seat.state == SeatState::kStarting && seat.since_start < kGathering;
  }
  if (job.generation == 0 && std::any_of(job.seats.begin(), job.seats.end(),
                                         [](const SeatView& seat) { return seat.failures >= kMostFailures; })) {
    decision.all_lost = true;
    decision.reason = "a worker fails before it can begin, again and again";
    return decision;
  }
  // The arena outlives its workers: others can go on in it, unless they would only fail as well.
  const bool hopeless = job.failed || std::all_of(job.seats.begin(), job.seats.end(), [](const SeatView& seat) {
                          return seat.state == SeatState::kEmpty && (seat.done || seat.failures >= kMostFailures);
                        });
  if (job.generation > 0 && members == 0 && hopeless) {
    decision.all_lost = !job.finishing;
    decision.reason = "all workers are lost";
    return decision;
  }
  // Those that do not train yet first; then from the last seat on, which spares those that have been there longest.
  for (const SeatState state : {SeatState::kStarting, SeatState::kReady, SeatState::kMember}) {
    for (std::size_t i = job.seats.size(); !job.finishing && i-- > 0 && occupied - leaving > job.target;) {
      if (job.seats[i].state != state || job.seats[i].leaving) continue;
      decision.evict.push_back(static_cast<int>(i));
      ready &= ~(std::uint64_t{1} << i);
      ++leaving;
    }
  }
  const bool let_in = ready != 0 && !job.finishing && (job.generation > 0 || !starting);
  const bool regroup = job.regroup && members != 0 && job.generation > 0;
  if (job.arena && (somebody_lost || let_in || regroup)) {
    decision.new_generation = true;
    decision.members = members | (let_in ? ready : 0);
    decision.reason = fmt::format("{}; members are {}",
                                  somebody_lost ? "a member is lost"
                                  : let_in      ? "workers are ready"
                                                : "a server has gone back",
                                  seat_list(decision.members));
  }
  if (job.finishing) return decision;
  for (std::size_t i = 0; i < job.seats.size() && occupied + done < job.target; ++i) {
    const SeatView& seat = job.seats[i];
    if (seat.state != SeatState::kEmpty || seat.done ||
        (seat.failures > 0 && seat.since_failure < back_off(seat.failures)))
      continue;
    decision.start.push_back(static_cast<int>(i));
    ++occupied;
  }
  return decision;
}

}  // namespace muster::control
