// Shards are put together into columns that fit a line of a terminal: # is all of a column's shards, + some of them, .
// none.
#include "muster/data/partition/partition_picture.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace muster::data {
namespace {

constexpr std::uint64_t kMostColumns = 96;
constexpr std::size_t kMostLabels = 12;  // more would not fit a line

// How many samples of each label lie in the shards.
std::vector<std::uint64_t> count_labels(const Shards& shards, std::span<const std::uint64_t> of,
                                        std::span<const std::int64_t> labels) {
  const auto most = static_cast<std::size_t>(*std::max_element(labels.begin(), labels.end()));
  std::vector<std::uint64_t> counts(most + 1);
  for (const std::uint64_t shard : of) {
    for (std::uint64_t i = 0; i < shards.size(shard); ++i)
      ++counts[static_cast<std::size_t>(labels[shards.sample(shard, i)])];
  }
  return counts;
}

std::string draw_shards(std::span<const std::uint64_t> held, std::uint64_t count) {
  const std::uint64_t columns = std::min(count, kMostColumns);
  const Shards column = Shards::consecutive(count, columns);  // shards of a column
  std::vector<std::uint64_t> in_column(columns);
  std::uint64_t at = 0;
  std::uint64_t end = column.size(0);
  for (const std::uint64_t shard : held) {
    while (shard >= end)
      end += column.size(++at);
    ++in_column[at];
  }
  std::string line;
  for (std::uint64_t c = 0; c < columns; ++c)
    line += in_column[c] == 0 ? '.' : in_column[c] == column.size(c) ? '#' : '+';
  return line;
}

}  // namespace

std::string draw_partition(const LaneShards& partition, std::uint64_t lanes, const DrawingOptions& options) {
  const Shards& shards = partition.shards;
  std::string text = fmt::format("{} samples in {} shards on {} lanes, computed by {} workers\n", shards.samples(),
                                 shards.count(), lanes, options.workers);
  for (std::uint64_t lane = 0; lane < lanes; ++lane) {
    const std::vector<std::uint64_t> held = partition.lane_of.shards_of(static_cast<std::uint32_t>(lane));
    std::uint64_t samples = 0;
    for (const std::uint64_t shard : held)
      samples += shards.size(shard);
    text += fmt::format("lane {:<3} {}  {} samples, worker {}", lane, draw_shards(held, shards.count()), samples,
                        lane % options.workers);
    if (!options.labels.empty()) {
      const std::vector<std::uint64_t> counts = count_labels(shards, held, options.labels);
      if (counts.size() <= kMostLabels) text += fmt::format("  by class {}", fmt::join(counts, " "));
    }
    text += '\n';
  }
  return text;
}

}  // namespace muster::data
