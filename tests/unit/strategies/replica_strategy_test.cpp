// Shares of lanes cover each lane once, for all small numbers of workers and lanes.
#include "muster/strategies/replica/replica_strategy.h"

#include <gtest/gtest.h>

namespace muster::strategies {
namespace {

TEST(LaneShares, CoverEveryLaneOnceAndDifferByAtMostOne) {
  for (const std::size_t lanes : {0UL, 1UL, 3UL, 8UL, 64UL}) {
    for (const std::size_t members : {1UL, 2UL, 3UL, 5UL, 64UL}) {
      std::size_t next = 0;
      for (std::size_t index = 0; index < members; ++index) {
        const ReplicaLanes share = share_of(lanes, index, members);
        EXPECT_EQ(share.first, next);
        EXPECT_TRUE(share.size() == lanes / members || share.size() == lanes / members + 1);
        EXPECT_LE(share.size(), share_of(lanes, 0, members).size()) << "the first share is the longest";
        next = share.last;
      }
      EXPECT_EQ(next, lanes);
    }
  }
}

}  // namespace
}  // namespace muster::strategies
