// The strategy parameter_server: workers lease lanes, pull the parameters, compute, and push gradients to servers that
// hold the model in chunks and apply them. How lanes become updates is chosen in the job (consistency.h).
//
// bsp gives the bits of shared_sync. asp and ssp apply every lane for itself, with its share of the step's weight; a
// lane is applied exactly once, whoever dies (book.h). backup leaves out the last lanes of a step. Buffers of the
// model: with bsp and backup as shared_sync merges them, else those of the lane that was applied last.
//
// Servers are processes that somebody else has started (launch/server_keeper.h), or threads of the workers
// themselves; they find each other through the job's store. docs/parameter-server.md has the user's side.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/strategies/strategy_choice.h"

namespace muster::strategies {

struct ParameterServer {
  std::string consistency = "bsp";  // consistency.h; several with their steps: "asp:200, bsp"
  std::int64_t servers = 0;         // processes that somebody else has started; 0: every worker serves a part
  std::int64_t copies = 1;          // of every chunk, on different servers
  std::int64_t staleness = 3;       // ssp: steps that a worker may be ahead of the slowest
  std::int64_t backups = 1;         // backup: lanes that a step does not wait for
  bool staleness_rate = false;      // an update that comes n versions late has 1/n of the learning rate
  std::int64_t chunk_kb = 1024;
  std::string transport = "shared_memory";  // or "grpc": streams over a Unix socket, with a token
  double snapshot_seconds = 0;              // how often servers write their chunks to `folder`; 0: never
  std::string event_log{};                  // file in which is written down what was leased and applied; empty: none
  std::string folder{};                     // for snapshots; empty: the job's

  static constexpr std::string_view kName = "parameter_server";

  Traits traits() const;
  void add_keys(Section& parallel);
  std::vector<std::string> free_keys() const {
    return {"servers", "copies", "chunk_kb", "transport", "snapshot_seconds", "event_log"};
  }
  void check(const JobFacts& job) const;
  std::vector<Doubt> doubts(std::uint64_t steps) const;
  ServerProcesses server_processes() const;
  StateMemory memory(const StateFigures& figures) const;
  // Throws Error{kInvalidInput} for options that contradict each other.
  std::unique_ptr<Strategy> make(StrategyOptions needs) const;
};

// REQUIRES: the options were found good.
std::unique_ptr<Strategy> make_parameter_server(const ParameterServer& chosen, StrategyOptions needs);

}  // namespace muster::strategies
