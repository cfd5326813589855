// Every word of the control page keeps every field up to its largest value.
#include "muster/comm/arena_words.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace muster::comm {
namespace {

const std::vector<std::uint64_t> kGenerations{0, 1, 777, kMostGeneration};
const std::vector<std::uint64_t> kSteps{0, 1, 4097, kMostStep};

TEST(ArenaWords, KeepEveryFieldUpToItsLargestValue) {
  std::set<std::uint64_t> commits;
  std::set<std::uint64_t> lanes;
  std::set<std::uint64_t> arrivals;
  for (const std::uint64_t generation : kGenerations) {
    for (const std::uint64_t step : kSteps) {
      for (const std::uint64_t buffer : {0, 1}) {
        const CommitWord word{generation, step, buffer};
        EXPECT_EQ(CommitWord::unpack(word.pack()), word);
        commits.insert(word.pack());
        EXPECT_EQ(PinWord::unpack(PinWord{step, buffer}.pack()), (PinWord{step, buffer}));
        EXPECT_NE((PinWord{step, buffer}.pack()), 0U);
      }
      for (const LaneState state : {LaneState::kFree, LaneState::kClaimed, LaneState::kStarted, LaneState::kDone}) {
        for (const int rank : {0, 1, 63}) {
          const LaneWord word{generation, step, state, rank};
          EXPECT_EQ(LaneWord::unpack(word.pack()), word);
          lanes.insert(word.pack());
        }
      }
      for (const int phase : {0, 1, 254, 255}) {
        const ArrivalWord word{generation, step, phase};
        EXPECT_EQ(ArrivalWord::unpack(word.pack()), word);
        arrivals.insert(word.pack());
      }
    }
  }
  EXPECT_EQ(commits.size(), 4U * 4 * 2);
  EXPECT_EQ(lanes.size(), 4U * 4 * 4 * 3);
  EXPECT_EQ(arrivals.size(), 4U * 4 * 4);
}

TEST(ArenaWords, ACommitWordHoldsAllStepsThatOthersHold) {
  const CommitWord word{kMostGeneration, (std::uint64_t{1} << 42) - 1, 1, 1};
  EXPECT_EQ(word.pack(), ~std::uint64_t{0});
  EXPECT_EQ(CommitWord::unpack(~std::uint64_t{0}), word);
}

TEST(ArenaWords, ALaneOfAnEarlierStepIsFree) {
  const LaneWord done{3, 10, LaneState::kDone, 5};
  EXPECT_EQ(done.in_step(10), done);
  EXPECT_EQ(done.in_step(11).state, LaneState::kFree);
  EXPECT_EQ(done.in_step(11).step, 11U);
}

TEST(ArenaWords, AProcessIsTakenForNoOther) {
  for (const std::int32_t pid : {1, 4096, (1 << 22) - 1}) {
    for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{7}, (std::uint64_t{1} << 42) - 1}) {
      const ProcessWord word = ProcessWord::of({pid, start});
      EXPECT_EQ(ProcessWord::unpack(word.pack()), word);
      EXPECT_NE(word.pack(), 0U);
      EXPECT_NE(word.pack(), ProcessWord::left().pack());
    }
  }
  const ProcessId self = this_process();
  EXPECT_TRUE(ProcessWord::unpack(ProcessWord::of(self).pack()).lives());
  EXPECT_FALSE(ProcessWord::of({self.pid, self.start_time + 1}).lives()) << "an earlier process with this number";
  EXPECT_FALSE(ProcessWord().lives());
  EXPECT_FALSE(ProcessWord::left().lives());
}

TEST(ArenaWords, ZeroIsFreeAndNowhere) {
  EXPECT_EQ(LaneWord::unpack(0), (LaneWord{0, 0, LaneState::kFree, 0}));
  EXPECT_EQ(CommitWord::unpack(0), (CommitWord{0, 0, 0}));
}

}  // namespace
}  // namespace muster::comm
