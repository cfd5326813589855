// A job generation: which hosts train together, with which workers, and which lanes each of them computes.
//
// The coordinator of a job of several hosts decides on it (J, J + 1, ...), and every change of members anywhere makes a
// new one. Each agent maps it to the next generation of its host's arena (g): it writes the text below under
// hosts_key(g) into the host's store, and only then begins g there. Workers that have entered g read it.
//
// Ranks of the job go host by host, in the order of `hosts`, and on a host by seat. Lanes are contiguous ranges in the
// same order. Pure functions and values; safe from any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"

namespace muster::control {

// The number of the host that a job began on: its first worker has the job's first state. Others count on from it.
constexpr std::uint64_t kFirstHost = 1;

// A range of lanes.
struct LaneRange {
  std::size_t first = 0;
  std::size_t last = 0;  // one past

  std::size_t size() const { return last - first; }
  bool operator==(const LaneRange&) const = default;
};

struct JobHost {
  std::uint64_t number = 0;   // given when it joined, from kFirstHost on; never given twice
  std::string name{};         // for people
  std::uint64_t members = 0;  // bit s: the worker on seat s
  std::size_t first_lane = 0;
  std::size_t last_lane = 0;  // one past

  int workers() const { return std::popcount(members); }
  bool operator==(const JobHost&) const = default;
};

struct JobGeneration {
  std::uint64_t number = 0;  // from 1 on
  std::size_t lanes = 1;     // of the job: of its longest steps
  std::vector<JobHost> hosts{};

  // JSON, in one line.
  std::string to_text() const;
  // Throws Error{kDamaged} saying what is wrong: no JSON, no hosts, a host twice or without members, lanes that are not
  // consecutive ranges over all of them.
  static JobGeneration from_text(const std::string& text);

  // All workers.
  int workers() const;
  // Place of host `number` in `hosts`. Throws Error{kMismatch} when it is not one of them.
  std::size_t place_of(std::uint64_t number) const;
  // The first rank of the host at `place`; hosts.size() gives the number of workers.
  int first_rank(std::size_t place) const;
  // Of a member. REQUIRES: `seat` is a member of that host.
  int rank_of(std::size_t place, int seat) const;
  // Which host a rank is on. REQUIRES: a rank of this generation.
  std::size_t host_of(int rank) const;
  // The lanes of the host at `place` in a step of `count` lanes: its share of the job's, scaled. The ranges of all
  // hosts cover the step's lanes, each once and in order; some may be empty where a step is short.
  LaneRange lanes_of(std::size_t place, std::size_t count) const;

  bool operator==(const JobGeneration&) const = default;
};

// Where an agent leaves the text of a job generation in its host's store, for the arena's generation
// `arena_generation`.
std::string hosts_key(std::uint64_t arena_generation);

// Beside it, this host's own number: workers outlive the number that they were started with, because an agent that was
// taken for lost joins again under another one. Where it is missing the number has not changed.
std::string own_host_key(std::uint64_t arena_generation);

// In the store of all hosts, left by a worker of job generation `number` that has lost the others although nothing has
// begun in its arena: a connection broke, and both ends may be well. Its value says who and why. If no other change of
// members follows from what made it break, the coordinator has to begin a generation for this: the workers wait for
// one.
std::string broken_key(std::uint64_t number);

// In the store of all hosts, left by a worker that has found other data on its host than another one has: what it says
// of it, as refusal_text() makes it. Before the first generation nobody knows whose is the right one, so the
// coordinator ends the job for it; later only that host ends.
constexpr const char* kOtherDataKey = "other-data";
std::string refusal_text(const Error& error);
// A kMismatch again, whatever the text is.
Error refusal_of(const std::string& text);

// In the store of all hosts, left by a worker of that host, whose math kernels are others than those of the host that
// came first (trainer/kernel_agreement.h): what people are told of it.
constexpr std::string_view kOtherKernels = "other-kernels/";
std::string other_kernels_key(std::uint64_t host);

}  // namespace muster::control
