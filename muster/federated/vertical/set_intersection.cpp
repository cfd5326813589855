// Orders are drawn from the system's generator: a seed that somebody guesses would tell where each id stood. Points are
// compared as they are written, since each has one compressed form.
#include "muster/federated/vertical/set_intersection.h"

#include <openssl/err.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::federated {
namespace {

constexpr std::string_view kIdDomain = "MUSTER-V1-ROW-IDS-with-P256_XMD:SHA-256_SSWU_RO_";

// As the standard library's algorithms want it.
struct SystemBits {
  using result_type = std::uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() {
    result_type bits = 0;
    if (RAND_bytes(reinterpret_cast<unsigned char*>(&bits), sizeof bits) != 1) {
      ERR_clear_error();
      throw Error(ErrorKind::kResource, "OpenSSL cannot draw random numbers", "set intersection");
    }
    return bits;
  }
};

std::vector<std::uint64_t> drawn_order(std::size_t count) {
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  std::shuffle(order.begin(), order.end(), SystemBits());
  return order;
}

Error not_the_protocol(const std::string& what) {
  return {ErrorKind::kDamaged, what, "set intersection",
          "The other side does not follow the protocol: do not trust it."};
}

std::size_t count_of(const PointList& points) {
  if (points.size() % kPointBytes != 0 || points.size() / kPointBytes > kMostIds)
    throw not_the_protocol(fmt::format("{} bytes are no list of points", points.size()));
  return points.size() / kPointBytes;
}

std::span<const std::byte> point_at(const PointList& points, std::size_t i) {
  return std::span(points).subspan(i * kPointBytes, kPointBytes);
}
std::string_view text_of(std::span<const std::byte> point) {
  return {reinterpret_cast<const char*>(point.data()), point.size()};
}

void go_on(const BetweenPoints& between, std::size_t done) {
  constexpr std::size_t kOften = 256;
  if (between && done % kOften == 0) between();
}

PointList blinded(CurveSecret& secret, std::span<const std::string> ids, const std::vector<std::uint64_t>& order,
                  const BetweenPoints& between) {
  PointList points;
  points.reserve(ids.size() * kPointBytes);
  for (std::size_t i = 0; i < order.size(); ++i) {
    go_on(between, i);
    const CurvePoint point = secret.blind(ids[order[i]], kIdDomain);
    points.insert(points.end(), point.begin(), point.end());
  }
  return points;
}

PointList raised_by(CurveSecret& secret, const PointList& others, const BetweenPoints& between) {
  const std::size_t count = count_of(others);
  PointList points;
  points.reserve(others.size());
  for (std::size_t i = 0; i < count; ++i) {
    go_on(between, i);
    const CurvePoint point = secret.raise(point_at(others, i));
    points.insert(points.end(), point.begin(), point.end());
  }
  return points;
}

// Where each point stands. Ids differ, and so do their points.
std::unordered_map<std::string_view, std::uint64_t> places_of(const PointList& points) {
  std::unordered_map<std::string_view, std::uint64_t> places;
  const std::size_t count = count_of(points);
  places.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!places.emplace(text_of(point_at(points, i)), i).second) throw not_the_protocol("the same point came twice");
  }
  return places;
}

}  // namespace

DistinctIds distinct_ids(std::span<const std::string> ids) {
  DistinctIds distinct;
  std::unordered_set<std::string_view> seen;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    if (ids[row].empty()) {
      ++distinct.missing;
    } else if (!seen.insert(ids[row]).second) {
      ++distinct.repeated;
    } else {
      distinct.ids.push_back(ids[row]);
      distinct.rows.push_back(row);
    }
  }
  if (distinct.ids.size() > kMostIds)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} rows are more than {}", distinct.ids.size(), kMostIds),
                "set intersection", "Train with a part of them.");
  return distinct;
}

AskingSide::AskingSide(std::span<const std::string> ids, const BetweenPoints& between)
    : order_(drawn_order(ids.size())), points_(blinded(secret_, ids, order_, between)) {
}

std::vector<AskingSide::Common> AskingSide::intersect(const PointList& raised, const PointList& others,
                                                      const BetweenPoints& between) {
  if (count_of(raised) != order_.size())
    throw not_the_protocol(fmt::format("{} points came back for {}", count_of(raised), order_.size()));
  const PointList both = raised_by(secret_, others, between);
  const auto at_other = places_of(both);
  const auto own = places_of(raised);
  std::vector<Common> common;
  for (const auto& [point, i] : own) {
    go_on(between, i);
    secret_.check(point_at(raised, i));
    const auto found = at_other.find(point);
    if (found != at_other.end()) common.push_back({order_[i], found->second});
  }
  std::ranges::sort(common, {}, &Common::own);
  return common;
}

AnsweringSide::AnsweringSide(std::span<const std::string> ids, const BetweenPoints& between)
    : order_(drawn_order(ids.size())), points_(blinded(secret_, ids, order_, between)) {
}

PointList AnsweringSide::raise(const PointList& others, const BetweenPoints& between) {
  places_of(others);  // each once: a point that is there twice would ask whether the answer is the same
  return raised_by(secret_, others, between);
}

std::vector<std::uint64_t> AnsweringSide::ids_at(std::span<const std::uint64_t> places) const {
  std::vector<bool> taken(order_.size());
  std::vector<std::uint64_t> ids;
  ids.reserve(places.size());
  for (const std::uint64_t place : places) {
    if (place >= order_.size() || taken[place])
      throw not_the_protocol(fmt::format("a place that cannot be: {}", place));
    taken[place] = true;
    ids.push_back(order_[place]);
  }
  return ids;
}

}  // namespace muster::federated
