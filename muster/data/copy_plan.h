// Which hosts keep which part of a job's packed shards (data.access = "copy"). Pure; every host that knows the hosts
// and the data knows the whole plan, and nothing has to be sent.
//
// A *portion* is a run of pieces of one shard (piece_map.h), so that there are at most 65,536 of them however large the
// data is. Portions are placed by consistent hashing with bounded load, `copies` each, on different hosts: one that
// comes or goes moves about its own part. Where lanes have samples of their own (placement local) a host also keeps
// whatever the lanes read that it computes, and the copies by hash come on top of that only where they are too few.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/data/piece_map.h"

namespace muster::data {

// The portions of all shards of a catalog. A value.
class Portions {
 public:
  // From the number of pieces of each shard, with piece 0, which is in no portion: every host has all of these.
  explicit Portions(std::span<const std::uint64_t> pieces);

  std::uint64_t count() const { return begins_.back(); }
  // Whether there is such a piece, other than piece 0.
  bool has(const PieceId& piece) const;
  // REQUIRES: has(piece).
  std::uint64_t of(const PieceId& piece) const;
  // REQUIRES: portion < count().
  PieceRun pieces(std::uint64_t portion) const;

 private:
  std::vector<std::uint64_t> pieces_;  // of each shard, without piece 0
  std::uint64_t each_ = 1;             // pieces of a portion; the last one of a shard may have fewer
  std::vector<std::uint64_t> begins_;  // of each shard: its first portion; and the end
};

// A host, as the plan sees it.
struct CopyMember {
  std::string name{};          // stays when it is lost and comes back
  std::uint64_t number = 0;    // tells hosts of one name apart
  std::size_t first_lane = 0;  // that it computes now
  std::size_t last_lane = 0;   // one past
  bool operator==(const CopyMember&) const = default;
};

// The portions that each lane reads, in rising order. Empty: any lane reads any.
using LanePortions = std::vector<std::vector<std::uint64_t>>;

struct CopyPlan {
  std::string id{};  // of everything that it was made of: hosts with the same one have the same plan
  // Of each portion, as places in `members`: the primary first. Fewer than `copies` only where there are fewer hosts.
  std::vector<std::vector<std::uint32_t>> holders{};
  std::string reason{};  // in words

  // Those that a member holds as the primary first, then its copies of others'.
  std::vector<std::uint64_t> portions_of(std::uint32_t member) const;
};

// `data` names the data (ShardCatalog::print). REQUIRES: copies > 0; members, of different numbers.
CopyPlan plan_copies(const std::string& data, std::uint64_t portions, std::uint32_t copies,
                     std::span<const CopyMember> members, const LanePortions& lanes);

}  // namespace muster::data
