// muster data partition: a picture of which lane, and so which worker, holds what. By the functions that training uses:
// it shows what a job would do, and needs no job to run.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/json.h"
#include "muster/cli/data_flags.h"
#include "muster/data/partition/partition.h"
#include "muster/data/partition/partition_picture.h"

namespace muster::cli {
namespace {

struct PartitionFlags {
  std::string what;
  std::string path;
  std::vector<std::string> assignments;
  std::vector<std::string> policies;
  std::uint64_t lanes = 4;
  std::uint64_t workers = 2;
  bool json = false;
};

Json row(const std::string& policy, const data::LaneShards& partition, std::uint64_t lanes) {
  Json row{{"policy", policy}, {"shards", partition.shards.count()}, {"lanes", Json::array()}};
  for (std::uint64_t lane = 0; lane < lanes; ++lane)
    row["lanes"].push_back(partition.lane_of.shards_of(static_cast<std::uint32_t>(lane)));
  return row;
}

void run_partition(const PartitionFlags& flags) {
  const data::SourceOptions options = chosen_data(flags.what, flags.path, flags.assignments);
  const data::Data source = data::open_source(options);
  std::vector<std::int64_t> labels;  // read once, and only if a policy asks
  const auto read = [&] {
    if (labels.empty()) labels = data::read_labels(*source.train);
    return labels;
  };
  for (const std::string& policy : flags.policies) {
    const data::PartitionOptions wanted = data::parse_partition(policy);
    const data::LaneShards partition =
        data::partition_lanes(wanted, source.train->size(), flags.lanes, options.seed, read);
    if (flags.json) {
      fmt::print("{}\n", row(policy, partition, flags.lanes).dump());
      continue;
    }
    const bool by_label = wanted.policy == data::PartitionOptions::Policy::kStratified ||
                          wanted.policy == data::PartitionOptions::Policy::kDirichlet;
    data::DrawingOptions picture{.workers = flags.workers};
    if (by_label) picture.labels = labels;
    fmt::print("{}: {}\n", policy, data::draw_partition(partition, flags.lanes, picture));
  }
}

}  // namespace

void add_data_partition(CLI::App& data) {
  CLI::App* command = data.add_subcommand("partition", "Draw who holds what with placement = \"local\".");
  auto flags = std::make_shared<PartitionFlags>();
  flags->policies = {"consecutive", "random", "hash", "balanced"};
  command->add_option("source", flags->what, "Name of a source, a job file, or a file or folder of data")->required();
  command->add_option("--path", flags->path, "File or folder of the source");
  command->add_option("--set", flags->assignments, "data.key=value, as for muster train; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--policy", flags->policies, "Values of data.partition, with commas between them")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--lanes", flags->lanes, "Lanes of the job")->capture_default_str()->check(CLI::Range(1, 1024));
  command->add_option("--workers", flags->workers, "Workers of the job")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", flags->json, "One JSON object a policy: the shards of each lane");
  command->footer(
      "A line is a lane, a column a shard. What the policies are for: docs/partitioning.md.\n"
      "\nExamples:\n"
      "  muster data partition fashion-mnist\n"
      "  muster data partition job.toml --policy stratified,dirichlet:0.3 --lanes 8 --workers 4");
  command->callback([flags] { run_partition(*flags); });
}

}  // namespace muster::cli
