// Placement: which member holds each shard. What the policies of this folder decide, one file each.
//
// Members are whoever data is placed on: worker groups, hosts, lanes, clients of federated training. A policy is a pure
// function of its arguments; all members that know them know the whole placement, and nothing has to be sent.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster::data {

struct Member {
  std::string name;  // stays when others come and go, unlike a rank
  double speed = 1;  // its part of the work against the others': measured samples a second, cores, ...; positive
  // Members of one domain (a host) may be lost together: copies are kept apart. Empty: a domain of its own.
  std::string domain{};
};

// A value: member_of[shard] is an index into the members that were given.
struct Placement {
  std::vector<std::uint32_t> member_of = {};

  // In rising order.
  std::vector<std::uint64_t> shards_of(std::uint32_t member) const;
  bool operator==(const Placement&) const = default;
};

// `count` members of equal speed, named PREFIX0, PREFIX1, ...
std::vector<Member> numbered_members(const std::string& prefix, std::uint64_t count);

// The part of the shards that have another holder (by name) in `after` than in `before`: what a change of members
// moves. REQUIRES: the same number of shards, at least one.
double moved_part(const Placement& before, std::span<const Member> members_before, const Placement& after,
                  std::span<const Member> members_after);

}  // namespace muster::data
