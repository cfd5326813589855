// Who trains: decisions about the workers of a job, as a pure function of what is known about them.
//
// A seat is a place for a worker; processes come and go on it. Its life: empty, starting (a process that prepares
// itself), ready (it waits to be let in), member. A generation is a set of members; every change makes a new one.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::control {

enum class SeatState { kEmpty, kStarting, kReady, kMember };

struct SeatView {
  SeatState state = SeatState::kEmpty;
  int failures = 0;                          // in a row; forgotten when a member has lasted (kForgiven)
  std::chrono::nanoseconds since_failure{};  // when empty and failures > 0
  std::chrono::nanoseconds since_start{};    // when starting
  bool lost = false;                         // a member of the present generation whose process is dead
  bool leaving = false;                      // told to go, and its death is not confirmed yet
  bool done = false;                         // its worker has left in good order: nobody takes its place
};

struct JobView {
  std::uint64_t generation = 0;  // 0: none has begun
  int target = 1;                // workers wanted
  std::vector<SeatView> seats;
  bool arena = false;      // there is one to train in
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
