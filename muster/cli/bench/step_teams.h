// The processes that take turns in `bench step`: Muster's own, and PyTorch DDP's. On one host or on several.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/team.h"
#include "muster/launch/child_process.h"

namespace muster::cli {

// all_reduce with its option, as a strategy of its own: both take turns in one run.
constexpr const char* kOverlapped = "all_reduce+overlap";
// The same of shared_sync between hosts: exchange_early.
constexpr const char* kEarly = "shared_sync+early";
// shared_sync between hosts that know each other by certificates: what mutual TLS costs.
constexpr const char* kWithCerts = "shared_sync+certs";

// Not a strategy: as many processes that each train a model of their own and share nothing, which is all that the
// machine's cores and memory allow.
constexpr const char* kApart = "apart";

// Throws Error{kInvalidInput} for a strategy or a peer that there is not.
void check_teams(const StepBench& options);

// The arguments of a process of this program that trains as the options say, with one strategy.
std::vector<std::string> step_words(const StepBench& options, const std::string& strategy);

// On this machine; `folder` is the team's own.
std::unique_ptr<Team> start_team(const StepBench& options, const std::string& strategy, std::int64_t workers,
                                 const std::string& folder);

struct DdpPlace {
  std::int64_t rank = 0;
  std::int64_t size = 1;
  std::string meeting;    // PyTorch's init_method
  std::string interface;  // of the network between the ranks
  std::string turns{};    // a path without its ending (.in, .out); empty: standard input and output
};
launch::Command ddp_command(const StepBench& options, const DdpPlace& place);

}  // namespace muster::cli
