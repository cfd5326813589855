// What started this process on how many nodes, as the environment tells: Slurm, an MPI, somebody by hand, or nobody.
//
// A node is a machine as its launcher counts it; Muster wants one process on each (node 0 coordinates, the others are
// agents) and starts workers by itself. Pure but for the lookup, with a reason in words, so that `muster info` and the
// log can say what was detected and why. Muster starts nothing here; how nodes find each other is meeting.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/memory.h"
#include "muster/launch/environment.h"
#include "muster/launch/pmix_job.h"

namespace muster::launch {

struct Surroundings {
  std::string launcher{};  // "slurm", "mpi", "pmix", "hand"; empty: nobody, and this machine is all
  std::string reason{};    // by which variables, in words
  std::string name{};      // of this start: the same on all nodes, and no other's
  std::string job{};       // what stays when the launcher starts it again; empty: nothing does
  int nodes = 1;
  int node = 0;                      // which of them this is
  std::vector<std::string> names{};  // of all nodes, where the launcher says them
  // What this node was granted, where the launcher says it.
  std::optional<int> cores{};
  std::optional<std::uint64_t> memory_bytes{};
  // Addresses in the network of the nodes, the likeliest first: the way to them shows this node's own address.
  std::vector<std::string> towards{};
  // Whether a signal to this process is one for all nodes (a time limit, a preemption), so that it ends the job and not
  // only this node's part in it.
  bool together = false;
  // Whether what this process starts can be a rank of an MPI: one on each node.
  bool ranks_of_mpi = false;
  int restarts = 0;  // how often the launcher has started this job again
  // By hand alone: where the nodes meet, and by what they trust each other.
  std::string coordinator{};  // HOST:PORT of node 0
  std::string folder{};       // that all nodes see
  std::string certs{};
  std::string interface {};  // to the other nodes
  bool insecure = false;
  // What makes these surroundings unusable for a job of several nodes, and what to do; empty: nothing.
  std::string trouble{};
  std::string remedy{};

  bool several() const { return nodes > 1; }
};

// Throws Error{kInvalidInput} naming a variable whose value makes no sense.
Surroundings detect_surroundings(const Lookup& lookup = process_environment(), const AskPmix& ask = ask_pmix);

// "Slurm job 42, step 0: node 1 of 2 (n1, n2)" and the like: what was detected, for people.
std::string to_string(const Surroundings& surroundings);

// Throws Error{kInvalidInput} with the trouble and its remedy, if there is one.
void require_usable(const Surroundings& surroundings);

// What a job may take on this machine: what is free, or what was granted, if that is less.
Memory memory_in(const Surroundings& surroundings);

// The names that Slurm writes as "n[1-3,7],login": all of them, in order. Throws Error{kInvalidInput} for what is no
// such list, or has more than 65,536 names.
std::vector<std::string> expand_node_list(const std::string& text);

// Tasks on each node, as Slurm writes them: "2(x3),1". Throws likewise.
std::vector<int> expand_task_counts(const std::string& text);

}  // namespace muster::launch
