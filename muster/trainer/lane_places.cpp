// By the same cut as the order of lanes (datasets.h). The samples of packed shards keep their numbers in what trains,
// whatever is around them.
#include "muster/trainer/lane_places.h"

#include <numeric>

#include "muster/data/fetched_dataset.h"
#include "muster/data/partition/partition.h"

namespace muster::trainer {
namespace {

constexpr std::chrono::seconds kViewTime{60};
constexpr std::size_t kMostRuns = 4096;  // as the door takes them

// From the first to the last of each shard: more than the lane reads, and all of it.
std::vector<data::PieceRun> widened(const std::vector<data::PieceRun>& runs) {
  std::vector<data::PieceRun> wide;
  for (const data::PieceRun& run : runs) {
    if (wide.empty() || wide.back().shard != run.shard)
      wide.push_back(run);
    else
      wide.back().count = run.first + run.count - wide.back().first;
  }
  return wide;
}

}  // namespace

void tell_lanes(const std::shared_ptr<data::PieceDoor>& door, const ResolvedJob& resolved, const data::Dataset& train) {
  using Policy = data::PartitionOptions::Policy;
  const Job& job = resolved.job;
  if (job.data.placement != "local") return;
  const data::PartitionOptions partition = data::parse_partition(job.data.partition);
  if (partition.policy == Policy::kStratified || partition.policy == Policy::kDirichlet) return;
  const data::DepotView view = door->open(Deadline::after(kViewTime));
  if (view.cache.empty()) return;
  const data::FetchedDataset set(door, view, "train");
  if (set.size() != train.size()) return;
  const data::LaneShards cut =
      data::partition_lanes(partition, train.size(), resolved.lanes, static_cast<std::uint64_t>(job.seed),
                            [] { return std::vector<std::int64_t>(); });
  for (std::uint32_t lane = 0; lane < resolved.lanes; ++lane) {
    std::vector<std::uint64_t> ids;
    for (const std::uint64_t shard : cut.lane_of.shards_of(lane))
      for (std::uint64_t index = 0; index < cut.shards.size(shard); ++index)
        ids.push_back(cut.shards.sample(shard, index));
    std::vector<data::PieceRun> runs = set.pieces_of(ids);
    if (runs.size() > kMostRuns) runs = widened(runs);
    try {
      door->place_lane(lane, resolved.lanes, runs);
    } catch (const Error& error) {
      if (!error.retryable()) throw;
      return;  // the agent is gone for now: where the data lies is its business, and later its successor's
    }
  }
}

}  // namespace muster::trainer
