// The circle is a sorted array of hashes. Bounds come from the members' speeds; who is full is passed over, so that a
// change of members moves few shards beyond its own.
#include "muster/data/partition/hash_placement.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::data {
namespace {

constexpr double kMostNodes = 1 << 24;

// Every bit of the result depends on every bit of the value (the finaliser of a 64-bit multiplicative hash).
std::uint64_t scramble(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
  return scramble(hash);
}

struct Node {
  std::uint64_t place;
  std::uint32_t member;

  auto operator<=>(const Node&) const = default;
};

double total_speed(std::span<const Member> members) {
  double total = 0;
  for (const Member& member : members)
    total += member.speed;
  return total;
}

void check(std::span<const Member> members, const HashOptions& options) {
  if (members.empty()) throw Error(ErrorKind::kInvalidInput, "there is no member to place shards on");
  if (!(options.slack > 0) || !std::isfinite(options.slack)) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("a load cannot be bounded with a slack of {}", options.slack));
  }
  std::set<std::string_view> names;
  for (const Member& member : members) {
    if (!names.insert(member.name).second) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("two members are called \"{}\"", member.name));
    }
    if (!(member.speed > 0) || !std::isfinite(member.speed)) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("the speed of member \"{}\" is {}; it must be above 0", member.name, member.speed));
    }
  }
  if (static_cast<double>(options.virtual_nodes) * static_cast<double>(members.size()) > kMostNodes) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} virtual nodes for each of {} members are too many",
                                                      options.virtual_nodes, members.size()));
  }
}

std::vector<Node> make_circle(std::span<const Member> members, const HashOptions& options) {
  const double mean = total_speed(members) / static_cast<double>(members.size());
  std::vector<Node> circle;
  for (std::uint32_t member = 0; member < members.size(); ++member) {
    const double share = std::round(options.virtual_nodes * members[member].speed / mean);
    const auto nodes = static_cast<std::uint64_t>(std::max(1.0, share));
    const std::uint64_t name = hash_name(members[member].name);
    for (std::uint64_t node = 0; node < nodes; ++node)
      circle.push_back({scramble(name + scramble(node + 1)), member});
  }
  std::sort(circle.begin(), circle.end());
  return circle;
}

}  // namespace

std::vector<std::uint64_t> hash_bounds(std::uint64_t shards, std::span<const Member> members,
                                       const HashOptions& options) {
  const double total = total_speed(members);
  std::vector<std::uint64_t> bounds;
  for (const Member& member : members) {
    const double fair = static_cast<double>(shards) * (member.speed / total);
    bounds.push_back(static_cast<std::uint64_t>(std::ceil((1 + options.slack) * fair)));
  }
  return bounds;
}

Placement place_by_hash(std::uint64_t shards, std::span<const Member> members, const HashOptions& options) {
  check(members, options);
  const std::vector<Node> circle = make_circle(members, options);
  std::vector<std::uint64_t> room = hash_bounds(shards, members, options);
  Placement placement;
  placement.member_of.reserve(shards);
  for (std::uint64_t shard = 0; shard < shards; ++shard) {
    const Node place{scramble(~shard), 0};
    auto node = std::lower_bound(circle.begin(), circle.end(), place);
    // The bounds add up to more than the shards, so somebody has room.
    for (std::size_t seen = 0;; ++seen, ++node) {
      MUSTER_CHECK(seen <= circle.size(), "no member has room");
      if (node == circle.end()) node = circle.begin();
      if (room[node->member] > 0) break;
    }
    --room[node->member];
    placement.member_of.push_back(node->member);
  }
  return placement;
}

std::vector<std::vector<std::uint32_t>> place_copies_by_hash(std::uint64_t shards, std::uint32_t copies,
                                                             std::span<const Member> members,
                                                             const HashOptions& options) {
  check(members, options);
  const std::vector<Node> circle = make_circle(members, options);
  const std::size_t wanted = std::min<std::size_t>(copies, members.size());
  std::vector<std::uint64_t> room = hash_bounds(shards * wanted, members, options);
  std::vector<std::vector<std::uint32_t>> placement(shards);
  for (std::uint64_t shard = 0; shard < shards; ++shard) {
    std::vector<std::uint32_t>& holders = placement[shard];
    const auto start = std::lower_bound(circle.begin(), circle.end(), Node{scramble(~shard), 0});
    const auto near = [&](std::uint32_t member) {
      return !members[member].domain.empty() && std::any_of(holders.begin(), holders.end(), [&](std::uint32_t other) {
        return members[other].domain == members[member].domain;
      });
    };
    const auto walk = [&](bool bounded, bool apart) {
      auto node = start;
      for (std::size_t seen = 0; seen < circle.size() && holders.size() < wanted; ++seen, ++node) {
        if (node == circle.end()) node = circle.begin();
        const bool holds = std::find(holders.begin(), holders.end(), node->member) != holders.end();
        if (holds || (bounded && room[node->member] == 0) || (apart && near(node->member))) continue;
        if (room[node->member] > 0) --room[node->member];
        holders.push_back(node->member);
      }
    };
    walk(true, true);
    // All who have room may hold a copy of this shard already: that copies are apart counts more than the bound.
    walk(false, true);
    walk(true, false);
    walk(false, false);
  }
  return placement;
}

}  // namespace muster::data
