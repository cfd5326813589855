// Fronts and ranks against brute force; areas against a count of small squares.
#include "muster/tuning/pareto.h"

#include <gtest/gtest.h>

#include "muster/base/random.h"

namespace muster::tuning {
namespace {

std::vector<std::vector<double>> points(std::size_t count, std::size_t objectives, std::uint64_t grid,
                                        std::uint64_t seed) {
  RandomStream random({.seed = seed});
  std::vector<std::vector<double>> made(count, std::vector<double>(objectives));
  for (auto& point : made) {
    for (double& x : point)
      x = static_cast<double>(random.below(grid)) / static_cast<double>(grid);
  }
  return made;
}

// The rank is the longest chain of points that dominate one another up to this one.
std::size_t chain(const std::vector<std::vector<double>>& all, std::size_t point) {
  std::size_t longest = 0;
  for (std::size_t other = 0; other < all.size(); ++other) {
    if (dominates(all[other], all[point])) longest = std::max(longest, chain(all, other) + 1);
  }
  return longest;
}

TEST(ParetoTest, RanksAreTheLongestChains) {
  for (const std::size_t objectives : {1u, 2u, 3u}) {
    for (const std::uint64_t grid : {4u, 1000u}) {  // with many equal points, and with none
      for (const std::size_t count : {1u, 2u, 12u}) {
        const auto all = points(count, objectives, grid, count + grid);
        const std::vector<std::size_t> ranks = pareto_ranks(all);
        for (std::size_t i = 0; i < count; ++i)
          EXPECT_EQ(ranks[i], chain(all, i)) << objectives << " " << grid << " " << i;
      }
    }
  }
  EXPECT_TRUE(pareto_ranks({}).empty());
}

TEST(ParetoTest, TheAreaIsWhatIsDominated) {
  const auto all = points(9, 2, 20, 5);
  const std::vector<double> reference = {0.9, 0.8};
  int squares = 0;
  constexpr int kFine = 200;
  for (int i = 0; i < kFine; ++i) {
    for (int j = 0; j < kFine; ++j) {
      const std::vector<double> middle = {(i + 0.5) / kFine, (j + 0.5) / kFine};
      bool dominated = false;
      for (const auto& point : all)
        dominated = dominated || (point[0] <= middle[0] && point[1] <= middle[1]);
      squares += dominated && middle[0] < reference[0] && middle[1] < reference[1];
    }
  }
  EXPECT_NEAR(hypervolume_2d(all, reference), squares / static_cast<double>(kFine * kFine), 1e-9);
}

TEST(ParetoTest, TheFrontOfAHistoryIsSortedAndKnowsGoals) {
  History history;
  const std::vector<std::vector<double>> results = {{0.5, 10}, {0.7, 20}, {0.6, 5}, {0.9, 40}, {0.4, 50}};
  for (std::uint64_t i = 0; i < results.size(); ++i) {
    history.add({.number = i});
    history.finish(i, results[i]);
  }
  history.add({.number = 5});
  history.fail(5, "died");
  // Accuracy up, time down: 3 is the most accurate, 2 the fastest, 1 between; 0 loses to 2, 4 to all.
  EXPECT_EQ(pareto_front(history, {Goal::kMaximise, Goal::kMinimise}), (std::vector<std::uint64_t>{3, 1, 2}));
}

}  // namespace
}  // namespace muster::tuning
