// The primary of a portion is the host whose lanes read it, where lanes have samples of their own; else the first by
// hash. Members are looked at in the order of their numbers, so that all hosts make the same plan of the same hosts.
#include "muster/data/copy_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/hash.h"
#include "muster/data/partition/hash_placement.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kMostPortions = 65536;
constexpr std::size_t kPlanDigits = 16;

// By name, so that a host that comes back holds what it held; by number too where two have the same name.
std::vector<Member> hashed_members(std::span<const CopyMember> members) {
  std::map<std::string, int> named;
  for (const CopyMember& member : members)
    ++named[member.name];
  std::vector<Member> made;
  for (const CopyMember& member : members)
    made.push_back({named[member.name] == 1 ? member.name : fmt::format("{}/{}", member.name, member.number)});
  return made;
}

std::string plan_id_of(const std::string& data, std::uint64_t portions, std::uint32_t copies,
                       std::span<const CopyMember> members, const LanePortions& lanes) {
  std::string text = fmt::format("{} {} {}\n", data, portions, copies);
  for (const CopyMember& member : members) {
    text += fmt::format("{} {}", member.number, member.name);
    if (!lanes.empty()) text += fmt::format(" {}-{}", member.first_lane, member.last_lane);
    text += '\n';
  }
  for (const std::vector<std::uint64_t>& lane : lanes)
    text += fmt::format("{} ", lane.size());
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  for (const std::vector<std::uint64_t>& lane : lanes)
    hash.update(std::as_bytes(std::span(lane)));
  return hash.finish().substr(0, kPlanDigits);
}

void add_holder(std::vector<std::uint32_t>& holders, std::uint32_t member) {
  if (std::ranges::find(holders, member) == holders.end()) holders.push_back(member);
}

}  // namespace

Portions::Portions(std::span<const std::uint64_t> pieces) : begins_{0} {
  for (const std::uint64_t shard : pieces)
    pieces_.push_back(shard == 0 ? 0 : shard - 1);
  const std::uint64_t all = std::accumulate(pieces_.begin(), pieces_.end(), std::uint64_t{0});
  each_ = std::max<std::uint64_t>(1, (all + kMostPortions - 1) / kMostPortions);
  for (const std::uint64_t shard : pieces_)
    begins_.push_back(begins_.back() + (shard + each_ - 1) / each_);
}

bool Portions::has(const PieceId& piece) const {
  return piece.shard < pieces_.size() && piece.piece > 0 && piece.piece <= pieces_[piece.shard];
}

std::uint64_t Portions::of(const PieceId& piece) const {
  MUSTER_CHECK(has(piece), "a piece");
  return begins_[piece.shard] + (piece.piece - 1) / each_;
}

PieceRun Portions::pieces(std::uint64_t portion) const {
  MUSTER_CHECK(portion < count(), "a portion");
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), portion);
  const auto shard = static_cast<std::size_t>(after - begins_.begin()) - 1;
  const std::uint64_t first = (portion - begins_[shard]) * each_;
  return {shard, first + 1, std::min(each_, pieces_[shard] - first)};
}

std::vector<std::uint64_t> CopyPlan::portions_of(std::uint32_t member) const {
  std::vector<std::uint64_t> primary;
  std::vector<std::uint64_t> copies;
  for (std::uint64_t portion = 0; portion < holders.size(); ++portion) {
    const auto found = std::ranges::find(holders[portion], member);
    if (found == holders[portion].end()) continue;
    (found == holders[portion].begin() ? primary : copies).push_back(portion);
  }
  primary.insert(primary.end(), copies.begin(), copies.end());
  return primary;
}

CopyPlan plan_copies(const std::string& data, std::uint64_t portions, std::uint32_t copies,
                     std::span<const CopyMember> members, const LanePortions& lanes) {
  MUSTER_CHECK(copies > 0 && !members.empty(), "copies on hosts");
  MUSTER_CHECK(std::ranges::is_sorted(members, {}, &CopyMember::number), "hosts by number");
  CopyPlan plan;
  plan.id = plan_id_of(data, portions, copies, members, lanes);
  plan.holders.resize(portions);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const auto computes = [&](const CopyMember& member) {
      return member.first_lane <= lane && lane < member.last_lane;
    };
    const auto who = std::ranges::find_if(members, computes);
    if (who == members.end()) continue;
    for (const std::uint64_t portion : lanes[lane])
      if (portion < portions) add_holder(plan.holders[portion], static_cast<std::uint32_t>(who - members.begin()));
  }
  const std::vector<std::vector<std::uint32_t>> hashed =
      place_copies_by_hash(portions, copies, hashed_members(members));
  const std::size_t wanted = std::min<std::size_t>(copies, members.size());
  for (std::uint64_t portion = 0; portion < portions; ++portion)
    for (const std::uint32_t member : hashed[portion])
      if (plan.holders[portion].size() < wanted) add_holder(plan.holders[portion], member);
  plan.reason = fmt::format("{} cop{} of each of {} portions on {} host{}, {}", wanted, wanted == 1 ? "y" : "ies",
                            portions, members.size(), members.size() == 1 ? "" : "s",
                            lanes.empty() ? "by hash" : "by the lanes that they compute, then by hash");
  return plan;
}

}  // namespace muster::data
