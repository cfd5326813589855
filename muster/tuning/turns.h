// What schedulers have in common when a slot is free.
#pragma once

#include <optional>
#include <string_view>

#include "muster/tuning/scheduler.h"

namespace muster::tuning {

// The first trial that waits (it was lost, or has not begun), if any: it goes before everything else.
std::optional<Next> waiting_first(const History& history);

// For schedulers that never pause: waiting trials, then new ones, then waiting for those that run.
// `trials`: as ScheduleProblem has it.
Next plain_next(const History& history, std::uint64_t trials);

// Of nothing new to begin: kWait while others run, else kDone.
Next wait_or_done(const History& history, std::string reason);

// Throws Error{kInvalidInput} when the first rung of `scheduler` is not before the end of a trial.
void check_rungs(std::string_view scheduler, std::uint64_t least, std::uint64_t max_resource);

}  // namespace muster::tuning
