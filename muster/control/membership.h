// Who trains: decisions about the workers of a job (worker.h), as a pure function of what is known about them.
//
// A generation is a set of members; every change makes a new one.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/control/worker.h"

namespace muster::control {

struct JobView {
  Clock::Instant now{};
  std::uint64_t generation = 0;   // 0: none has begun
  int target = 1;                 // workers wanted
  std::vector<Worker> workers{};  // by seat
  bool arena = false;             // there is one to train in
  bool failed = false;     // the last member has ended by itself, with an error: those who come would do the same
  bool finishing = false;  // a worker has finished the job: nobody is started or let in any more
  bool regroup = false;    // all members have to look again where they stand
};

struct MembershipDecision {
  std::vector<int> start;       // seats that get a process
  std::vector<int> evict;       // seats whose process has to go: there are more than wanted
  bool new_generation = false;  // with these members (bit r: seat r)
  std::uint64_t members = 0;
  bool all_lost = false;  // nobody is left, and nobody can be started in their place
  std::string reason;     // in words; empty when there is nothing to do
};

// After so many failures in a row a seat is left empty for kQuarantine.
constexpr int kMostFailures = 5;
constexpr std::chrono::seconds kFirstBackOff{1};  // doubled with every further failure
constexpr std::chrono::minutes kQuarantine{10};
constexpr std::chrono::seconds kForgiven{3};
// For how long the first generation waits for workers that are still starting once one is ready; who comes later joins
// a later one.
constexpr std::chrono::seconds kGathering{60};

// How long a seat stays empty after `failures` in a row: the first is made good at once.
std::chrono::nanoseconds back_off(int failures);

MembershipDecision decide_members(const JobView& job);

}  // namespace muster::control
