// From the word of the job file to shards and lanes. There are many more shards than lanes, so that policies can be
// even, and never fewer: no lane is without data because of the cut.
#include "muster/data/partition/partition.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/partition/balanced_placement.h"
#include "muster/data/partition/hash_placement.h"
#include "muster/data/partition/label_shards.h"
#include "muster/data/partition/manual_placement.h"
#include "muster/data/partition/random_placement.h"

namespace muster::data {
namespace {

using Policy = PartitionOptions::Policy;

constexpr std::array<std::string_view, 7> kPolicies{"consecutive", "random",    "hash", "balanced",
                                                    "stratified",  "dirichlet", "file"};

Placement in_order(std::uint64_t shards, std::uint64_t lanes) {
  const Shards parts = Shards::consecutive(shards, lanes);
  Placement placement;
  for (std::uint64_t lane = 0; lane < lanes; ++lane)
    placement.member_of.insert(placement.member_of.end(), parts.size(lane), static_cast<std::uint32_t>(lane));
  return placement;
}

Placement place(const PartitionOptions& options, const Shards& shards, std::span<const Member> lanes,
                std::uint64_t seed) {
  switch (options.policy) {
    case Policy::kConsecutive:
    case Policy::kDirichlet:
      return in_order(shards.count(), lanes.size());
    case Policy::kRandom:
      return place_randomly(shards.count(), lanes.size(), seed);
    case Policy::kHash:
      return place_by_hash(shards.count(), lanes);
    case Policy::kBalanced:
    case Policy::kStratified:
      return place_balanced(shards.sizes(), lanes);
    case Policy::kFile:
      return read_manual_placement(options.file, shards.count(), lanes);
  }
  MUSTER_CHECK(false, "no such policy");
}

}  // namespace

PartitionOptions parse_partition(std::string_view word) {
  const std::size_t colon = word.find(':');
  const auto found = std::find(kPolicies.begin(), kPolicies.end(), word.substr(0, colon));
  if (found == kPolicies.end()) {
    const std::vector<std::string> names(kPolicies.begin(), kPolicies.end());
    throw Error(
        ErrorKind::kInvalidInput,
        fmt::format("unknown partition \"{}\"{}", excerpt(word, 60), did_you_mean(word.substr(0, colon), names)), {},
        fmt::format("Partitions are {}.", join_words(names)));
  }
  PartitionOptions options{.policy = static_cast<Policy>(found - kPolicies.begin())};
  std::optional<std::string_view> value;
  if (colon != std::string_view::npos) value = word.substr(colon + 1);
  bool good = !value;
  if (options.policy == Policy::kDirichlet) {
    const std::string_view text = value.value_or("");
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), options.alpha);
    good = failure == std::errc() && end == text.data() + text.size() && options.alpha >= 1e-3 && options.alpha <= 1e6;
  } else if (options.policy == Policy::kFile) {
    options.file = value.value_or("");
    good = !options.file.empty();
  }
  if (!good) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("the partition \"{}\" cannot be used", excerpt(word, 60)), {},
                "Write dirichlet:ALPHA with a number from 0.001 to 1e6, file:PATH, or one of the others alone.");
  }
  return options;
}

LaneShards partition_lanes(const PartitionOptions& options, std::uint64_t samples, std::uint64_t lanes,
                           std::uint64_t seed, const std::function<std::vector<std::int64_t>()>& labels) {
  MUSTER_CHECK(samples > 0 && lanes > 0, "samples for lanes");
  // Never more shards than samples, but one a lane: empty ones would only cost time.
  const std::uint64_t count = std::max(lanes, std::min(samples, lanes * kShardsPerLane));
  const std::vector<Member> members = numbered_members("lane", lanes);
  Shards shards = [&] {
    if (options.policy == Policy::kStratified) return stratified_shards(labels(), count, seed);
    if (options.policy == Policy::kDirichlet) return dirichlet_shards(labels(), lanes, options.alpha, seed);
    return Shards::consecutive(samples, count);
  }();
  MUSTER_CHECK(shards.samples() == samples, "a label for each sample");
  Placement lane_of = place(options, shards, members, seed);
  return {std::move(shards), std::move(lane_of)};
}

std::vector<std::int64_t> read_labels(const Dataset& dataset) {
  if (dataset.spec().input != InputKind::kFloats || dataset.spec().target != TargetKind::kClass) {
    throw Error(ErrorKind::kInvalidInput, "these samples have no class to be partitioned by", {},
                "Choose another data.partition.");
  }
  std::vector<std::int64_t> labels;
  labels.reserve(dataset.size());
  for (std::uint64_t id = 0; id < dataset.size(); ++id)
    labels.push_back(dataset.label(id));
  return labels;
}

}  // namespace muster::data
