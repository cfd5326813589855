// Free slots: who was lost first, then new trials, then the end.
// A trial that waits has lost its process, or is the copy of another: its work is half done, so it goes first.
#include "muster/tuning/turns.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::tuning {

std::optional<Next> waiting_first(const History& history) {
  if (history.waiting().empty()) return std::nullopt;
  const Trial& trial = history.at(*history.waiting().begin());
  return Next{.turn = Turn::kRun, .number = trial.number, .group = trial.group, .reason = "it waits for a slot"};
}

Next wait_or_done(const History& history, std::string reason) {
  return {.turn = history.running().empty() ? Turn::kDone : Turn::kWait, .reason = std::move(reason)};
}

void check_rungs(std::string_view scheduler, std::uint64_t least, std::uint64_t max_resource) {
  if (least < max_resource) return;
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("the first rung of {} is at {}, and a trial ends at {}", scheduler, least, max_resource), {},
              "Give an earlier rung (least) or longer trials.");
}

Next plain_next(const History& history, std::uint64_t trials) {
  if (const std::optional<Next> waiting = waiting_first(history)) return *waiting;
  if (trials == 0 || history.size() < trials) return {.turn = Turn::kNew, .reason = "a slot is free"};
  return wait_or_done(history, fmt::format("all {} trials were begun", trials));
}

}  // namespace muster::tuning
