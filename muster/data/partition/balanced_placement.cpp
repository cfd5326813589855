// Ties are broken by number, of shards and of members:
// the placement is a function of its arguments on every machine.
#include "muster/data/partition/balanced_placement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::data {

Placement place_balanced(std::span<const double> weights, std::span<const Member> members) {
  if (members.empty()) throw Error(ErrorKind::kInvalidInput, "there is no member to place shards on");
  for (const Member& member : members) {
    if (!(member.speed > 0) || !std::isfinite(member.speed)) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("the speed of member \"{}\" is {}; it must be above 0", member.name, member.speed));
    }
  }
  for (std::size_t shard = 0; shard < weights.size(); ++shard) {
    if (!(weights[shard] >= 0) || !std::isfinite(weights[shard])) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("shard {} weighs {}", shard, weights[shard]));
    }
  }
  std::vector<std::size_t> heaviest_first(weights.size());
  std::iota(heaviest_first.begin(), heaviest_first.end(), 0);
  std::stable_sort(heaviest_first.begin(), heaviest_first.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  std::vector<double> load(members.size());
  std::vector<std::uint64_t> held(members.size());  // so that shards without weight are spread too
  Placement placement;
  placement.member_of.resize(weights.size());
  for (const std::size_t shard : heaviest_first) {
    std::uint32_t best = 0;
    const auto cost = [&](std::uint32_t member) {
      return std::tuple((load[member] + weights[shard]) / members[member].speed, held[member], member);
    };
    for (std::uint32_t member = 1; member < members.size(); ++member) {
      if (cost(member) < cost(best)) best = member;
    }
    load[best] += weights[shard];
    ++held[best];
    placement.member_of[shard] = best;
  }
  return placement;
}

}  // namespace muster::data
