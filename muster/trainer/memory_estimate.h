// How much memory a job takes on this host at its peak, and what to change when that is too much. Pure; no torch here.
//
// The figures are measured by preflight.h. What is counted and how well it agrees with running jobs: docs/memory.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/memory.h"
#include "muster/model/profile.h"
#include "muster/strategies/registry.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::trainer {

// What the memory of a job depends on.
struct MemoryFigures {
  strategies::StrategyChoice strategy = strategies::default_strategy();
  std::uint64_t workers = 1;  // the most there may be
  std::uint64_t batch = 1;
  std::uint64_t lanes = 1;
  std::uint64_t slots = 0;               // of the optimizer's state
  double lanes_kept = 1;                 // whose activations a worker keeps at a time (stages.h)
  std::uint64_t passage_bytes = 0;       // of a lane, between the stages of a pipeline
  model::ModelMemory model = {};         // steps are 0 where they could not be measured
  std::string unmeasured = {};           // why they could not; empty: they were
  bool hollow = false;                   // workers have no first weights of their own (build.h, may_be_hollow)
  bool may_recompute = false;            // the model has model.recompute and does not use it
  std::uint64_t evaluation_samples = 0;  // of an evaluation, at most a batch of it
  std::uint64_t sample_bytes = 0;        // of one sample as it is loaded
  std::uint64_t prefetch = 0;            // lanes that are read ahead
  std::uint64_t data_bytes = 0;          // what each process holds of the data set
  std::uint64_t process_bytes = 0;       // what each process has for itself, once it has computed
  std::uint64_t launcher_bytes = 0;      // what the process that starts several workers has
  std::uint64_t library_bytes = 0;       // code, which all of them share
};

struct MemoryItem {
  std::string name;
  std::uint64_t bytes = 0;
};

struct MemoryEstimate {
  std::vector<MemoryItem> items;  // of the moment that takes most; none is 0
  std::uint64_t total() const;
  Json to_json() const;  // {"total": ..., "items": {name: bytes}}
};

// REQUIRES: batch, lanes and workers are at least 1.
MemoryEstimate estimate_memory(const MemoryFigures& figures);

// "2.1 GB for 2 workers: gradients 1.2 GB, ...", the largest first.
std::string describe(const MemoryEstimate& estimate, std::uint64_t workers);

// The changes of the job that would each make it fit, with what it would then take: "data.batch = 64 (2.1 GB)".
std::vector<std::string> changes_that_fit(const MemoryFigures& figures, std::uint64_t usable_bytes);

// kUnsupported, with the table of the estimate and what to change. REQUIRES: the estimate is above `usable`.
Error memory_refusal(const MemoryFigures& figures, const Memory& usable);

}  // namespace muster::trainer
