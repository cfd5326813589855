// Cuts against brute force over all of them.
#include "muster/pipeline/cut.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::pipeline {
namespace {

std::uint64_t largest(std::span<const std::uint64_t> costs, const std::vector<PieceRange>& parts) {
  std::uint64_t most = 0;
  for (const PieceRange& part : parts)
    most = std::max(most, std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(part.first),
                                          costs.begin() + static_cast<std::ptrdiff_t>(part.last), std::uint64_t{0}));
  return most;
}

// The smallest largest part of all cuts.
std::uint64_t best(std::span<const std::uint64_t> costs, std::size_t parts) {
  if (parts == 1) return std::accumulate(costs.begin(), costs.end(), std::uint64_t{0});
  std::uint64_t found = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t first = 0;
  for (std::size_t cut = 1; cut + parts - 1 <= costs.size(); ++cut) {
    first += costs[cut - 1];
    found = std::min(found, std::max(first, best(costs.subspan(cut), parts - 1)));
  }
  return found;
}

TEST(Cut, IsAsEvenAsAnyCut) {
  RandomStream random({.seed = 5, .purpose = Purpose::kVerify});
  for (int round = 0; round < 400; ++round) {
    std::vector<std::uint64_t> costs(1 + random.below(10));
    for (std::uint64_t& cost : costs)
      cost = random.below(4) == 0 ? 0 : random.below(100);
    for (std::size_t parts = 1; parts <= costs.size(); ++parts) {
      const std::vector<PieceRange> made = cut_by_cost(costs, parts);
      ASSERT_EQ(made.size(), parts);
      std::size_t next = 0;
      for (const PieceRange& part : made) {
        EXPECT_EQ(part.first, next);
        EXPECT_GT(part.last, part.first) << "an empty part";
        next = part.last;
      }
      EXPECT_EQ(next, costs.size());
      EXPECT_EQ(largest(costs, made), best(costs, parts)) << round << ", " << parts;
      const std::uint64_t sum = std::accumulate(costs.begin(), costs.end(), std::uint64_t{0});
      EXPECT_LE(largest(costs, made), sum / parts + 1 + *std::ranges::max_element(costs));
    }
  }
}

TEST(Cut, EqualPiecesGiveEqualParts) {
  const std::vector<std::uint64_t> costs(12, 7);
  EXPECT_EQ(cut_by_cost(costs, 4), (std::vector<PieceRange>{{0, 3}, {3, 6}, {6, 9}, {9, 12}}));
}

TEST(Cut, RefusesMorePartsThanPieces) {
  EXPECT_THROW(cut_by_cost(std::vector<std::uint64_t>{1, 2}, 3), Error);
  EXPECT_THROW(cut_by_cost(std::vector<std::uint64_t>{}, 1), Error);
}

TEST(Cut, GoesByTheNamesThatAreGiven) {
  const std::vector<std::string> pieces{"embed", "h.0", "h.1", "h.2", "head"};
  const std::vector<std::string> begins{"h.1", "head"};
  EXPECT_EQ(cut_at(pieces, begins, 3), (std::vector<PieceRange>{{0, 2}, {2, 4}, {4, 5}}));
  EXPECT_EQ(cut_at(pieces, {}, 1), (std::vector<PieceRange>{{0, 5}}));
}

TEST(Cut, RefusesNamesThatCutNothing) {
  const std::vector<std::string> pieces{"embed", "h.0", "h.1", "head"};
  const auto refused = [&](const std::vector<std::string>& begins, std::size_t parts) -> std::string {
    try {
      cut_at(pieces, begins, parts);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_NE(refused({"h1"}, 2).find("did you mean"), std::string::npos) << refused({"h1"}, 2);
  EXPECT_NE(refused({"embed"}, 2), "");
  EXPECT_NE(refused({"h.1", "h.0"}, 3), "");
  EXPECT_NE(refused({"h.1", "h.1"}, 3), "");
  EXPECT_NE(refused({"h.1"}, 3), "");
}

}  // namespace
}  // namespace muster::pipeline
