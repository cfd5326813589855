// Labels are taken in rising order, and the samples of each in a keyed order of its own, so that the cut depends on
// labels and seed and on nothing else.
#include "muster/data/partition/label_shards.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "muster/base/check.h"
#include "muster/base/random.h"
#include "muster/data/gamma_draw.h"
#include "muster/data/permutation.h"

namespace muster::data {
namespace {

// The samples of every label, labels in rising order, each in an order of its own.
std::map<std::int64_t, std::vector<std::uint64_t>> samples_by_label(std::span<const std::int64_t> labels) {
  std::map<std::int64_t, std::vector<std::uint64_t>> samples;
  for (std::uint64_t id = 0; id < labels.size(); ++id) {
    MUSTER_CHECK(labels[id] >= 0, "a label below 0");
    samples[labels[id]].push_back(id);
  }
  return samples;
}

StreamKey key_of(std::uint64_t seed, std::int64_t label, std::uint64_t use) {
  return {.seed = seed, .purpose = Purpose::kPartition, .lane = use, .sample = static_cast<std::uint64_t>(label)};
}

std::vector<double> dirichlet(std::uint64_t count, double alpha, RandomStream& draws) {
  std::vector<double> parts(count);
  for (double& part : parts)
    part = draw_log_gamma(alpha, draws);
  // Relative to the largest: a small alpha gives numbers that are all below the smallest double.
  const double largest = *std::max_element(parts.begin(), parts.end());
  double sum = 0;
  for (double& part : parts)
    sum += part = std::exp(part - largest);
  for (double& part : parts)
    part /= sum;
  return parts;
}

}  // namespace

Shards stratified_shards(std::span<const std::int64_t> labels, std::uint64_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> shard_of(labels.size());
  // Each label starts where the one before ended, which keeps the sizes of the shards even too.
  std::uint64_t next = 0;
  for (const auto& [label, samples] : samples_by_label(labels)) {
    const Permutation order(samples.size(), key_of(seed, label, 1));
    for (std::uint64_t i = 0; i < samples.size(); ++i)
      shard_of[samples[order(i)]] = static_cast<std::uint32_t>(next++ % count);
  }
  return Shards::listed(shard_of, count);
}

Shards dirichlet_shards(std::span<const std::int64_t> labels, std::uint64_t count, double alpha, std::uint64_t seed) {
  MUSTER_CHECK(alpha > 0, "a Dirichlet distribution has a positive parameter");
  std::vector<std::uint32_t> shard_of(labels.size());
  for (const auto& [label, samples] : samples_by_label(labels)) {
    const Permutation order(samples.size(), key_of(seed, label, 1));
    RandomStream draws(key_of(seed, label, 2));
    const std::vector<double> parts = dirichlet(count, alpha, draws);
    double end = 0;
    std::uint64_t i = 0;
    for (std::uint64_t shard = 0; shard < count; ++shard) {
      end += parts[shard] * static_cast<double>(samples.size());
      // The last shard takes what rounding left.
      const auto last = shard + 1 == count ? samples.size() : static_cast<std::uint64_t>(std::llround(end));
      for (; i < std::min<std::uint64_t>(last, samples.size()); ++i)
        shard_of[samples[order(i)]] = static_cast<std::uint32_t>(shard);
    }
  }
  return Shards::listed(shard_of, count);
}

double label_skew(const Shards& shards, std::span<const std::int64_t> labels) {
  if (labels.empty()) return 0;
  const auto all = static_cast<double>(labels.size());
  std::map<std::int64_t, double> whole;
  for (const std::int64_t label : labels)
    whole[label] += 1 / all;
  double skew = 0;
  for (std::uint64_t shard = 0; shard < shards.count(); ++shard) {
    const auto size = static_cast<double>(shards.size(shard));
    std::map<std::int64_t, double> here;
    for (std::uint64_t i = 0; i < shards.size(shard); ++i)
      here[labels[shards.sample(shard, i)]] += 1 / size;
    double distance = 0;
    for (const auto& [label, part] : whole)
      distance += std::abs(here[label] - part) / 2;
    skew += distance * size / all;
  }
  return skew;
}

}  // namespace muster::data
