// Whether a process that is not heard of, or does not get on, is lost: judgements as pure functions of what was seen.
//
// The clock alone does not tell. A process that is stopped, or that sleeps although it should have given a sign of
// life, is lost after the job's liveness; one that wants to run and is not let is starved, and is waited for. What a
// process does before it trains nobody knows: it is waited for as long as the machine shows that it does something.
#pragma once

#include <chrono>
#include <string>

namespace muster::control {

// A process as it was seen since a moment: its last sign of life, or the beginning of what it is at. Stopped and idle
// are what was seen in a row until now, and nothing when whoever looks could not look for a while.
struct Seen {
  std::chrono::nanoseconds lasts{};    // since that moment
  std::chrono::nanoseconds stopped{};  // by a signal or a debugger
  std::chrono::nanoseconds idle{};     // nothing of it ran or wanted to run
  std::chrono::nanoseconds given{};    // processor time
};

struct Judgement {
  bool lost = false;
  std::string reason;  // in words, where it is lost: completes "worker 2 ..."
};

// Of one that has given no sign of life for `liveness`: lost if it was seen stopped or idle for half of that, or had
// more than enough processor time. `patience`: for how long one that wants to run and gets nothing is waited for.
Judgement judge_silence(const Seen& seen, std::chrono::nanoseconds liveness, std::chrono::nanoseconds patience);

// Of one that gives signs of life and has been at one thing for longer than `limit`. `seen.given` is what it was given
// in the second half of that. An endless loop takes processor time, a deadlock sleeps; one that was kept from running
// for most of the time is neither.
Judgement judge_work(const Seen& seen, std::chrono::nanoseconds limit, std::chrono::nanoseconds liveness);

// Of one that is not ready yet: `since_progress` is for how long it was neither given processor time nor read or wrote
// anything. One that is stopped is not waited for any longer than one that trains would be.
Judgement judge_start(std::chrono::nanoseconds since_progress, bool stopped, std::chrono::nanoseconds patience,
                      std::chrono::nanoseconds liveness);

}  // namespace muster::control
