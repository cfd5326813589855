// What can be asked of any placement. moved_part() is the measure by which policies are compared when members come and
// go.
#include "muster/data/partition/placement.h"

#include "muster/base/check.h"

namespace muster::data {

std::vector<std::uint64_t> Placement::shards_of(std::uint32_t member) const {
  std::vector<std::uint64_t> shards;
  for (std::uint64_t shard = 0; shard < member_of.size(); ++shard) {
    if (member_of[shard] == member) shards.push_back(shard);
  }
  return shards;
}

std::vector<Member> numbered_members(const std::string& prefix, std::uint64_t count) {
  std::vector<Member> members;
  for (std::uint64_t i = 0; i < count; ++i)
    members.push_back({.name = prefix + std::to_string(i)});
  return members;
}

double moved_part(const Placement& before, std::span<const Member> members_before, const Placement& after,
                  std::span<const Member> members_after) {
  MUSTER_CHECK(!before.member_of.empty() && before.member_of.size() == after.member_of.size(),
               "placements of different shards");
  std::size_t moved = 0;
  for (std::size_t shard = 0; shard < before.member_of.size(); ++shard) {
    moved += members_before[before.member_of[shard]].name != members_after[after.member_of[shard]].name;
  }
  return static_cast<double>(moved) / static_cast<double>(before.member_of.size());
}

}  // namespace muster::data
