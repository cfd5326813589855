// The book as workers talk to it, without servers: leases, bounds, backups, and beginning again from what was written
// down.
#include "muster/strategies/parameter_server/book.h"

#include <cstring>
#include <limits>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::strategies {
namespace {

constexpr std::uint32_t kLanes = 4;

ServerPlan plan_of(std::vector<Phase> phases) {
  ServerPlan plan;
  plan.layout = model::FlatLayout({{"w", {4}}});
  plan.rules.resize(1);
  plan.buffers.add("mean", model::Dtype::kF32, {1}, 4);
  plan.lanes = kLanes;
  plan.phases = std::move(phases);
  plan.bound = 2;
  plan.backups = 1;
  plan.workers = 2;
  return plan;
}

// A book and the words that workers say to it.
class Talk {
 public:
  explicit Talk(Consistency consistency) : plan_(plan_of({{0, consistency}})), book_(plan_) {}

  std::optional<LeaseReply> ask(Want want, std::uint64_t step, std::uint32_t worker = 0, std::uint64_t generation = 1) {
    return book_.lease(worker, {want, step, kLanes, worker, 2, generation});
  }
  // The lane that is given, -1 for none left, -2 for "wait".
  int lane(std::uint64_t step, std::uint32_t worker = 0, Want want = Want::kLane, std::uint64_t generation = 1) {
    const auto answer = ask(want, step, worker, generation);
    if (!answer) return -2;
    return answer->grant == Grant::kLane ? static_cast<int>(answer->lane) : -1;
  }
  Status push(std::uint64_t step, std::uint32_t lane, LaneManner manner = LaneManner::kAtOnce,
              std::uint64_t version = 0, const LaneEntry& entry = {.loss_sum = 2, .score = 1, .samples = 10}) {
    std::vector<std::byte> buffers(plan_.buffers.bytes);
    const auto mean = static_cast<float>(lane);
    std::memcpy(buffers.data(), &mean, sizeof mean);
    return book_.push(0, {step, lane, kLanes, version, manner, entry}, buffers);
  }
  Status close(std::uint64_t step, std::uint64_t mask) { return book_.close(0, {step, mask}); }
  float mean() const {
    float value;
    std::memcpy(&value, book_.buffers().data(), sizeof value);
    return value;
  }

  const ServerPlan plan_;
  Book book_;
};

TEST(Book, AWorkerGetsItsOwnLanesFirstAndThenThoseOfOthersFromTheBack) {
  Talk talk(Consistency::kAsp);
  for (const int expected : {1, 3, 2, 0}) {
    EXPECT_EQ(talk.lane(0, 1), expected);
    talk.push(0, static_cast<std::uint32_t>(expected));
  }
  EXPECT_EQ(talk.lane(0, 0), -1);
}

TEST(Book, WithStaticClaimsNobodyTakesTheLanesOfOthers) {
  Talk talk(Consistency::kBsp);
  EXPECT_EQ(talk.lane(0, 1, Want::kOwnLane), 1);
  talk.push(0, 1, LaneManner::kKept);
  EXPECT_EQ(talk.lane(0, 1, Want::kOwnLane), 3);
  talk.push(0, 3, LaneManner::kKept);
  EXPECT_EQ(talk.lane(0, 1, Want::kOwnLane), -1);
}

TEST(Book, ALaneIsLeasedOnceUntilTheWorkersChange) {
  Talk talk(Consistency::kAsp);
  std::set<int> lanes;
  for (std::uint32_t worker = 0; worker < kLanes; ++worker)
    lanes.insert(talk.lane(0, worker));
  EXPECT_EQ(lanes.size(), kLanes);
  EXPECT_EQ(talk.lane(0, kLanes), -1);
  talk.push(0, 2);
  // A new generation: what was leased and is not done is free again.
  const auto first = talk.ask(Want::kLane, 0, 0, 2);
  ASSERT_TRUE(first);
  std::set<int> again{static_cast<int>(first->lane)};
  for (std::uint32_t worker = 1; worker < kLanes; ++worker)
    again.insert(talk.lane(0, worker, Want::kLane, 2));
  EXPECT_EQ(again, (std::set<int>{-1, 0, 1, 3}));
}

// It was on its way, or waited for an answer, when its worker left: nobody would ever compute what it is given.
TEST(Book, ARequestOfAnEarlierGenerationIsGivenNothing) {
  Talk talk(Consistency::kBsp);
  EXPECT_EQ(talk.lane(0, 0, Want::kLane, 2), 0);
  EXPECT_EQ(talk.lane(0, 1, Want::kLane, 1), -2) << "lane 1 would be leased to one that is gone";
  for (const int expected : {2, 3, 1}) {
    talk.push(0, static_cast<std::uint32_t>(expected == 2 ? 0 : expected == 3 ? 2 : 3), LaneManner::kKept);
    EXPECT_EQ(talk.lane(0, 0, Want::kLane, 2), expected);
  }
  talk.push(0, 1, LaneManner::kKept);
  EXPECT_FALSE(talk.ask(Want::kCommitted, 0, 1, 1)) << "it would never end the step";
  const auto last = talk.ask(Want::kCommitted, 0, 0, 2);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->grant, Grant::kFinish);
}

TEST(Book, AWorkerThatAsksAgainHasNeverGotTheAnswer) {
  Talk talk(Consistency::kBsp);
  EXPECT_EQ(talk.lane(0, 0), 0);
  EXPECT_EQ(talk.lane(0, 0), 0) << "or this lane would be nobody's for ever";
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    talk.push(0, lane, LaneManner::kKept);
  ASSERT_TRUE(talk.ask(Want::kCommitted, 0, 1));
  const auto again = talk.ask(Want::kCommitted, 0, 1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->grant, Grant::kFinish);
}

TEST(Book, WithABoundNobodyRunsFurtherAhead) {
  Talk talk(Consistency::kSsp);
  EXPECT_EQ(talk.lane(0, 0), 0);
  EXPECT_GE(talk.lane(2, 1), 0);
  EXPECT_EQ(talk.lane(3), -2);
  for (std::uint32_t lane = 0; lane < kLanes - 1; ++lane)
    talk.push(0, lane);
  EXPECT_EQ(talk.lane(3), -2) << "one lane of step 0 is missing";
  talk.push(0, 3);
  EXPECT_GE(talk.lane(3), 0);
  EXPECT_EQ(talk.lane(4), -2);
}

TEST(Book, StalenessIsTheUpdatesBetweenLeaseAndPush) {
  Talk talk(Consistency::kAsp);
  talk.push(0, 0, LaneManner::kAtOnce, 0);
  talk.push(0, 1, LaneManner::kAtOnce, 0);
  talk.push(0, 2, LaneManner::kAtOnce, 2);
  talk.push(0, 3, LaneManner::kAtOnce, 0);
  EXPECT_EQ(talk.book_.counts().staleness[0], 2U);
  EXPECT_EQ(talk.book_.counts().staleness[1], 1U);
  EXPECT_EQ(talk.book_.counts().staleness[3], 1U);
  EXPECT_EQ(talk.book_.counts().updates, 4U);
}

TEST(Book, ALaneThatIsSentTwiceCountsOnce) {
  Talk talk(Consistency::kAsp);
  EXPECT_EQ(talk.push(0, 1), Status::kDone);
  EXPECT_EQ(talk.push(0, 1), Status::kDuplicate);
  EXPECT_EQ(talk.book_.counts().updates, 1U);
  EXPECT_EQ(talk.book_.counts().repeated, 1U);
}

TEST(Book, ASynchronousStepIsFinishedByOneWorkerWhenAllLanesAreThere) {
  Talk talk(Consistency::kBsp);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    EXPECT_FALSE(talk.ask(Want::kCommitted, 0));
    EXPECT_EQ(talk.push(0, lane, LaneManner::kKept), Status::kDone);
  }
  const auto finish = talk.ask(Want::kCommitted, 0, 1);
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->grant, Grant::kFinish);
  EXPECT_EQ(finish->mask, 0xfU);
  EXPECT_EQ(finish->samples, 40U);
  EXPECT_FALSE(talk.ask(Want::kCommitted, 0, 0)) << "one is enough";
  EXPECT_EQ(talk.lane(1), -2) << "the step is not over";
  EXPECT_EQ(talk.close(0, 0xf), Status::kDone);
  EXPECT_EQ(talk.close(0, 0xf), Status::kDuplicate);
  const auto over = talk.ask(Want::kCommitted, 0, 0);
  ASSERT_TRUE(over && over->result);
  EXPECT_DOUBLE_EQ(over->result->loss_sum, 8);
  EXPECT_EQ(over->result->samples, 40U);
  EXPECT_FLOAT_EQ(talk.mean(), 1.5F);
  EXPECT_GE(talk.lane(1), 0);
}

TEST(Book, AFinisherThatIsLostIsReplaced) {
  Talk talk(Consistency::kBsp);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    talk.push(0, lane, LaneManner::kKept);
  ASSERT_TRUE(talk.ask(Want::kCommitted, 0, 0));
  EXPECT_FALSE(talk.ask(Want::kCommitted, 0, 1));
  const auto again = talk.ask(Want::kCommitted, 0, 1, 2);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->grant, Grant::kFinish);
}

TEST(Book, WithBackupsTheLastLanesAreDroppedAndCountedExactly) {
  Talk talk(Consistency::kBackup);
  for (const std::uint32_t lane : {3U, 0U, 2U})
    EXPECT_EQ(talk.push(0, lane, LaneManner::kKept), Status::kDone);
  const auto finish = talk.ask(Want::kCommitted, 0);
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->mask, 0b1101U);
  EXPECT_EQ(finish->samples, 30U);
  talk.close(0, 0b1101);
  EXPECT_EQ(talk.push(0, 1, LaneManner::kKept), Status::kLate);
  EXPECT_EQ(talk.push(0, 1, LaneManner::kKept), Status::kDuplicate) << "late once";
  EXPECT_EQ(talk.push(0, 0, LaneManner::kKept), Status::kDuplicate) << "it was in the step";
  EXPECT_EQ(talk.book_.counts().dropped, 1U);
}

TEST(Book, AWishCountsFromTheSameStepOnForAll) {
  Talk talk(Consistency::kAsp);
  talk.lane(7, 1);
  talk.push(2, 0, LaneManner::kAtOnce, 0, {.stop = 1, .change = 5, .samples = 10});
  EXPECT_EQ(talk.ask(Want::kCommitted, 6)->result->stop, 0U);
  EXPECT_EQ(talk.ask(Want::kCommitted, 6)->result->change, 0U);
  EXPECT_EQ(talk.ask(Want::kCommitted, 7)->result->stop, 1U);
  EXPECT_EQ(talk.ask(Want::kCommitted, 8)->result->change, 5U);
}

// A worker that asks late is told what its step came to; or that nobody knows any more, but never of a step in which
// nothing was.
TEST(Book, WhatAStepCameToIsToldToThoseWhoAskLateOrNotAtAll) {
  Talk talk(Consistency::kBsp);
  constexpr std::uint64_t kSteps = Book::kClosedSteps + 2;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      talk.push(step, lane, LaneManner::kKept);
    ASSERT_EQ(talk.close(step, 0xf), Status::kDone);
  }
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const auto answer = talk.ask(Want::kCommitted, step);
    ASSERT_TRUE(answer && answer->grant == Grant::kClosed) << step;
    EXPECT_EQ(answer->floor, kSteps);
    if (step < 2) {
      EXPECT_FALSE(answer->result) << step;
    } else {
      ASSERT_TRUE(answer->result && answer->result->samples == 40 && answer->result->loss_sum == 8) << step;
    }
  }
}

TEST(Book, PhasesFollowEachOtherAtAStep) {
  const ServerPlan plan = plan_of(parse_phases("asp:2, bsp"));
  Talk talk(Consistency::kAsp);
  const_cast<ServerPlan&>(talk.plan_).phases = plan.phases;
  EXPECT_EQ(talk.lane(2), -2) << "asp has to be over";
  for (std::uint64_t step = 0; step < 2; ++step) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      talk.push(step, lane);
  }
  EXPECT_GE(talk.lane(2), 0);
}

TEST(Book, ItsStateIsWholeAfterATripAsBytes) {
  Talk talk(Consistency::kBsp);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    talk.push(0, lane, LaneManner::kKept);
  Talk other(Consistency::kBsp);
  other.book_.write(talk.book_.read());
  EXPECT_TRUE(other.ask(Want::kCommitted, 0)) << "lanes that are kept travel, too";
  EXPECT_EQ(other.close(0, 0xf), Status::kDone);
  EXPECT_FLOAT_EQ(other.mean(), 1.5F);
}

TEST(Book, DamagedBytesAreRefusedOrHarmless) {
  Talk talk(Consistency::kBsp);
  talk.push(0, 2, LaneManner::kKept);
  const std::vector<std::byte> whole = talk.book_.read();
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes = whole;
    if (i % 3 == 0) bytes.resize(random() % whole.size());
    for (int flips = 0; flips < 3 && !bytes.empty(); ++flips)
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    Talk other(Consistency::kBsp);
    try {
      other.book_.write(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
      continue;
    }
    // What was taken can be worked with.
    const std::uint64_t step = other.book_.floor();
    if (const auto finish = other.ask(Want::kCommitted, step)) other.close(step, finish->mask);
    other.ask(Want::kCommitted, step);
  }
}

std::vector<std::byte> bytes_of(const AppliedSet& set) {
  ByteWriter bytes;
  set.save(bytes);
  return bytes.take();
}

// A server that was lost begins again from what it had written down.
TEST(Book, LanesThatALostChunkDoesNotHaveAreComputedAgainAndCounted) {
  Talk talk(Consistency::kSsp);
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      talk.push(step, lane);
  }
  talk.push(3, 0);
  AppliedSet chunk(1);
  chunk.add(1, 0, kLanes);
  chunk.add(1, 2, kLanes);
  chunk.add(4, 1, kLanes);  // in the chunk, and not in the book: its worker has not come so far
  ASSERT_EQ(talk.book_.reopen(bytes_of(chunk)), Status::kDone);
  EXPECT_EQ(talk.book_.floor(), 1U);
  EXPECT_EQ(talk.lane(4), -2) << "too far ahead now";
  std::set<int> free;
  for (std::uint32_t worker = 0; worker < kLanes; ++worker)
    free.insert(talk.lane(1, worker));
  EXPECT_EQ(free, (std::set<int>{-1, 1, 3}));
  EXPECT_EQ(talk.push(1, 0), Status::kDuplicate);
  // The worker of one that was leased before may have been told that the chunk has it.
  EXPECT_EQ(talk.push(2, 1), Status::kStale);
  // By a worker of the next generation.
  const auto compute = [](Talk& book, std::uint64_t step) {
    const auto next = [&] { return book.lane(step, 0, Want::kLane, 2); };
    for (int lane = next(); lane >= 0; lane = next())
      EXPECT_EQ(book.push(step, static_cast<std::uint32_t>(lane)), Status::kDone);
  };
  compute(talk, 1);
  compute(talk, 2);
  // A book that moves goes on counting.
  Talk other(Consistency::kSsp);
  other.book_.write(talk.book_.read());
  compute(other, 3);
  EXPECT_EQ(other.book_.floor(), 4U);
  EXPECT_EQ(other.book_.counts().again, 2U + 4U + 1U);
  EXPECT_EQ(other.book_.counts().updates, 4 * kLanes + 7U);
}

TEST(Book, StepsThatWereTakenTogetherAreNotTakenAgain) {
  Talk talk(Consistency::kBsp);
  EXPECT_EQ(talk.book_.reopen(bytes_of(AppliedSet(0))), Status::kRefused);
  Talk far(Consistency::kAsp);
  far.book_.write(Book::first_state(far.plan_, AppliedSet::kFarthest + 1, std::vector<std::byte>(4)));
  EXPECT_EQ(far.book_.reopen(bytes_of(AppliedSet(0))), Status::kRefused);
  EXPECT_THROW(far.book_.reopen(std::vector<std::byte>(3)), Error);
}

TEST(AppliedSet, CommonAndAllLanesAreThoseOfPlainSets) {
  using Plain = std::set<std::pair<std::uint64_t, std::uint32_t>>;
  constexpr std::uint64_t kSteps = 12;
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    AppliedSet sets[2];
    Plain plain[2];
    for (int which : {0, 1}) {
      const std::uint64_t floor = random() % 4;
      sets[which] = AppliedSet(floor);
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
          if (step >= floor && random() % 4 == 0) continue;
          sets[which].add(step, lane, kLanes);
          plain[which].insert({step, lane});
        }
      }
    }
    AppliedSet common = sets[0];
    common.keep_common(sets[1]);
    AppliedSet all = sets[0];
    all.add_all(sets[1]);
    for (std::uint64_t step = 0; step < kSteps + 2; ++step) {
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
        const bool first = plain[0].contains({step, lane});
        const bool second = plain[1].contains({step, lane});
        ASSERT_EQ(common.contains(step, lane), first && second) << "step " << step << ", lane " << lane;
        ASSERT_EQ(all.contains(step, lane), first || second) << "step " << step << ", lane " << lane;
      }
    }
    // It goes on as a set that was made lane by lane.
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      for (std::uint32_t lane = 0; lane < kLanes; ++lane)
        common.add(step, lane, kLanes);
    }
    ASSERT_EQ(common.floor(), kSteps);
  }
}

TEST(Book, BodiesThatCannotBeRightAreRefused) {
  Talk talk(Consistency::kAsp);
  EXPECT_EQ(talk.book_.push(0, {.lanes = kLanes}, {}), Status::kRefused) << "no buffers";
  EXPECT_EQ(talk.push(0, 0, LaneManner::kAtOnce, 0, {.change = ~std::uint64_t{0}}), Status::kRefused);
  EXPECT_EQ(talk.push(0, 0, LaneManner::kAtOnce, 0, {.stop = 2}), Status::kRefused);
  for (const std::uint32_t lanes : {0U, kLanes + 1})
    EXPECT_THROW(talk.book_.lease(0, {.lanes = lanes}), Error) << lanes;
}

}  // namespace
}  // namespace muster::strategies
