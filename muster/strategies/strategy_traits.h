// What others have to know of a strategy without knowing which it is: with the options that were chosen. What is
// optional of a strategy's options stands beside the structs.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/config.h"

namespace muster::strategies {

// What differs between strategies, as far as others have to know. With the options that were chosen.
struct Traits {
  bool keeps_bits = false;          // neither the number of workers nor who computes what changes the result
  bool replaces_workers = false;    // lost workers are replaced while the others train, where somebody supervises
  bool shares_host_memory = false;  // one state for all workers of a host
  bool crosses_hosts = false;       // its workers may be on several hosts
  bool shares_lanes = false;        // workers can read each other's finished lanes: they can be verified
  bool claims_lanes = false;        // a lane belongs to nobody before it is claimed: Claims says who may take which
  bool lanes_meet = false;          // all workers compute at the same time: a lane may wait for those of the others
  bool goes_apart = false;          // between steps the workers' states may differ
  bool needs_servers = false;       // the state is with servers; ServerProcesses says which. What that means for others
                                    // is said below
  bool passes_lanes = false;        // several workers may compute a lane together: pipelines
  bool takes_own_rules = false;     // updates by several optimizers, by the program's own, and writes after them

  // Whoever is left of the workers has the whole state: nobody else has to be there, or kept, for them to go on.
  bool workers_hold_state() const { return !needs_servers; }
  // A lane's figures by name come with the step (Lane::report).
  bool carries_figures() const { return !needs_servers; }
  // A checkpoint takes all workers, so none decides on one alone.
  bool saves_together() const { return needs_servers; }
};

// What the memory of the training state depends on.
struct StateFigures {
  std::uint64_t workers = 1;
  std::uint64_t lanes = 1;
  std::uint64_t slots = 0;  // of the optimizer
  std::uint64_t parameter_bytes = 0;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t passage_bytes = 0;  // of a lane, between the workers that compute it together

  // Parameters, optimizer state and buffers, once.
  std::uint64_t version_bytes() const { return parameter_bytes * (1 + slots) + buffer_bytes; }
};

// What a strategy keeps on a host, all workers together.
struct StateMemory {
  std::uint64_t versions = 0;
  std::uint64_t gradients = 0;
  std::uint64_t exchange = 0;  // what workers give to each other
};

// The job that a strategy is chosen in, for options that contradict it or each other:
//   void check(const JobFacts&) const;        throws what schema.invalid() gives
struct JobFacts {
  const Schema& schema;
  std::uint64_t lanes = 1;
  std::int64_t workers = 1;  // the most there may be
  std::int64_t least_hosts = 1;
  std::int64_t most_hosts = 1;
};

// Something in the options that is allowed and hardly meant, of a job of so many steps:
//   std::vector<Doubt> doubts(std::uint64_t steps) const;
struct Doubt {
  std::string key;  // "parallel.period"
  std::string message;
};

// Keys that do not change what a run has computed so far, and may differ when it is resumed:
//   std::vector<std::string> free_keys() const;

// Servers that somebody has to start and keep for the job:
//   ServerProcesses server_processes() const;
struct ServerProcesses {
  int count = 0;               // processes
  bool workers_serve = false;  // instead, every worker serves a part
  int copies = 1;              // of what they hold
};

}  // namespace muster::strategies
