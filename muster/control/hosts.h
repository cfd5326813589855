// Which hosts train, and which lanes each computes: decisions about the hosts of a job, as pure functions of what its
// coordinator knows about them. What a host's own workers do is decided on the host (membership.h).
//
// A job generation (job_generation.h) is a set of hosts with their members and lanes; every change of any of these
// makes the next one, for all hosts. Only the coordinator makes them, so two halves of a job that is cut apart never
// both go on.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/control/host_links.h"
#include "muster/control/job_generation.h"

namespace muster::control {

// A host that has joined, as its coordinator knows it.
struct HostView {
  std::uint64_t number = 0;  // given when it joined, and to nobody else
  std::string name{};
  Clock::Instant heard{};    // of it, the last time
  std::uint64_t begun = 0;   // the newest job generation that it has begun
  std::uint64_t wanted = 0;  // members that it would train with (bit s: seat s); 0: none of its workers is ready
  std::string ends{};        // why it ends, once it has said so
  bool done = false;         // it has ended as the job should: the others need it no more, and will end as well
  double worker_speed = 0;   // lanes that one of its workers computes in a second; 0: not measured yet
  bool fixed = false;        // its workers are a group that nobody can join later: so are those of all hosts
  HostLinks links{};         // which other hosts it hears
};

struct HostsView {
  Clock::Instant now{};
  Clock::Instant watched_since{};  // whoever looks has looked without a gap; a silence before that proves nothing
  Clock::Instant decided{};        // when the present generation was
  std::chrono::nanoseconds patience = std::chrono::seconds(5);  // a host that is silent for longer is lost
  std::size_t least = 1;                                        // hosts without which the first generation waits
  std::size_t lanes = 1;                                        // of the job
  bool finishing = false;                                       // nobody is let in any more
  bool stopping = false;                                        // all are told to end: nobody is late for a generation
  bool expecting = false;         // hosts of a coordinator before may come back: no generation begins meanwhile
  std::uint64_t earlier = 0;      // the newest generation of coordinators before: the next is above it, too
  JobGeneration present{};        // number 0: this one has made none
  std::vector<HostView> hosts{};  // by number
  // Since when workers of the present generation have lost each other (broken_key); both ends may be well.
  std::optional<Clock::Instant> broken{};
};

struct LostHost {
  std::uint64_t number = 0;
  std::string reason;  // in words: completes "host b (2) ..."
};

struct HostsDecision {
  std::vector<LostHost> lost;
  std::optional<JobGeneration> next;  // of those that are not lost
  bool waiting = false;               // there is no generation yet, and there are too few hosts for one
  std::size_t missing = 0;            // of these: hosts that have not come; 0: only their workers have to get ready
  std::string reason;                 // in words; empty when there is nothing to do
  std::string over;                   // why the job cannot go on; empty: it can
  std::string held_up;                // why a host that is ready is not let in yet; empty: there is none
};

// A division of lanes by which a step takes this many times as long as it could is made anew,
constexpr double kUnevenLanes = 1.2;
// not before a generation has lasted for so long: speeds are measured, and every generation costs a moment.
constexpr std::chrono::seconds kSettled{10};

HostsDecision decide_hosts(const HostsView& view);

// Ranges of lanes that follow each other and cover all of them, at least one lane each, such that the slowest is done
// as early as possible when range i is computed with speed weights[i].
// REQUIRES: weights are above 0 and at most as many as lanes.
std::vector<LaneRange> divide_lanes(std::span<const double> weights, std::size_t lanes);

}  // namespace muster::control
