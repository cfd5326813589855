// all_reduce: synchronous data parallelism with a replica of the whole state in every worker, over any group.
//
// The fallback where workers share no memory, and the yardstick of shared_sync. A step:
//   1. each worker computes its own lanes (replica/replica_strategy.h);
//   2. it sums them by the tree into fusion buckets (bucket_reducer.h), and each bucket is summed over the workers;
//   3. marks, reports and buffers of all lanes are gathered;
//   With overlap a bucket is summed while backward goes on, as soon as the worker's last lane has its gradients
//   (bucket_pipeline.h): the same sums, so the same bits. A lane then has one backward(), and a loop must not be left
//   inside a step. Over MPI the worker must not use its group inside a lane.
//   4. every worker judges, measures and updates all blocks alike, and flips.
// Replicas stay equal bit by bit. When lanes / workers is a power of two and the codec is the plain one, the bits are
// those of shared_sync, for a short last batch too. Otherwise they depend on the number of workers, never on timing.
//
// A failure before the last collective ends leaves the committed version as it was. A worker that saw that collective
// end while another did not is one step ahead of it, and finds out at its next step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/strategies/strategy_choice.h"

namespace muster::strategies {

class GradientCodec;  // replica/bucket_reducer.h

struct AllReduce {
  std::int64_t bucket_kb = 4096;           // of a fusion bucket; at least one block goes into each
  bool overlap = false;                    // sum buckets in a thread of their own while backward goes on
  std::shared_ptr<GradientCodec> codec{};  // how a bucket is summed over the workers; none: as it is

  static constexpr std::string_view kName = "all_reduce";

  Traits traits() const;
  void add_keys(Section& parallel);
  StateMemory memory(const StateFigures& figures) const;
  std::vector<std::string> free_keys() const { return {"bucket_kb", "overlap"}; }
  std::vector<std::pair<std::string, std::string>> more() const;
  std::unique_ptr<Strategy> make(StrategyOptions needs) const;
};

}  // namespace muster::strategies
