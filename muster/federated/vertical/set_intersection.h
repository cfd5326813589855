// Private set intersection by elliptic-curve Diffie-Hellman: two sides find which ids both have, and tell nothing else
// of theirs but how many there are (Huberman, Franklin, Hogg 1999; both sides follow the protocol and are curious).
//
//   1. The asking side has a secret a, the answering side a secret b; each is drawn for this intersection alone.
//   2. asking -> answering: H(x)^a for each id x of its own, in an order that is drawn.
//   3. answering -> asking: each of these to the power b, in the order in which they came; and H(y)^b for each id y of
//      its own, in an order that is drawn.
//   4. The asking side raises the latter to the power a. Where two points are the same, so are their ids: it knows
//   which
//      of its ids the other has, and at which place of the other's order.
//   5. asking -> answering: places of the ids that are to count. The answering side learns these and no others.
//
// Points are those of curve.h, one behind the other. What comes is refused if it is no point, is there twice, or is not
// as many as it has to be: Error{kDamaged}. Thread safety: one thread at a time. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/vertical/curve.h"

namespace muster::federated {

// Of a side. 33 bytes for each, three times, are in memory.
inline constexpr std::uint64_t kMostIds = 10'000'000;

using PointList = std::vector<std::byte>;

// The rows that take part: of rows with the same id the first, and none without an id.
struct DistinctIds {
  std::vector<std::string> ids{};
  std::vector<std::uint64_t> rows{};  // of each id
  std::uint64_t repeated = 0;
  std::uint64_t missing = 0;
};
// Throws Error{kInvalidInput} for more than kMostIds.
DistinctIds distinct_ids(std::span<const std::string> ids);

// Called between points: what it throws ends the work.
using BetweenPoints = std::function<void()>;

class AskingSide {
 public:
  // REQUIRES: ids that differ; they outlive it.
  explicit AskingSide(std::span<const std::string> ids, const BetweenPoints& between = {});

  const PointList& points() const { return points_; }

  // An id that both have: the asking side's, as it was given, and its place at the other side.
  struct Common {
    std::uint64_t own = 0;
    std::uint64_t place = 0;
    bool operator==(const Common&) const = default;
  };
  // Rising by `own`.
  std::vector<Common> intersect(const PointList& raised, const PointList& others, const BetweenPoints& between = {});

 private:
  CurveSecret secret_;
  std::vector<std::uint64_t> order_;
  PointList points_;
};

class AnsweringSide {
 public:
  // REQUIRES: as AskingSide.
  explicit AnsweringSide(std::span<const std::string> ids, const BetweenPoints& between = {});

  const PointList& points() const { return points_; }
  PointList raise(const PointList& others, const BetweenPoints& between = {});
  // Which of its ids stand at these places, in their order.
  std::vector<std::uint64_t> ids_at(std::span<const std::uint64_t> places) const;

 private:
  CurveSecret secret_;
  std::vector<std::uint64_t> order_;
  PointList points_;
};

}  // namespace muster::federated
