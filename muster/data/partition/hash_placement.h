// Consistent hashing with virtual nodes and bounded load: when one of N members joins or leaves, about 1/N of the
// shards move (and a few more, to keep the bound); nobody ever holds more than its bound.
//
// Every member stands at `virtual_nodes` places of a circle of 2^64, given by hashes of its name; a shard stands at the
// hash of its number and goes to the first member after it that has room. Shards are placed in the order of their
// numbers (Mirrokni, Thorup, Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/data/partition/placement.h"

namespace muster::data {

struct HashOptions {
  std::uint32_t virtual_nodes = 128;  // of a member of mean speed; others in proportion, at least one
  double slack = 0.25;                // how far a load may be above the member's fair share
};

// Most shards that each member may hold: ceil((1 + slack) * shards * its part of the speeds).
std::vector<std::uint64_t> hash_bounds(std::uint64_t shards, std::span<const Member> members,
                                       const HashOptions& options = {});

// Throws Error{kInvalidInput}: no members, two of one name, a speed or a slack that is not positive and finite, more
// than 2^24 virtual nodes.
Placement place_by_hash(std::uint64_t shards, std::span<const Member> members, const HashOptions& options = {});

// Several copies of every shard, on different members, the first one first: a shard goes to the first `copies` members
// after it on the circle that have room, of a bound that counts copies, and are of different domains. Where there are
// too few domains several copies share one; fewer copies where there are fewer members.
std::vector<std::vector<std::uint32_t>> place_copies_by_hash(std::uint64_t shards, std::uint32_t copies,
                                                             std::span<const Member> members,
                                                             const HashOptions& options = {});

}  // namespace muster::data
