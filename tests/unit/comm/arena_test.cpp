// The arena's rules one by one, with ranks as views and threads of one process; kills are in arena_kill_test.
#include "muster/comm/arena.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "support/sandbox.h"
#include "unit/comm/arena_job.h"

namespace muster::comm {
namespace {

using muster::testing::status_of_child;
using ::testing::AllOf;
using testing::do_step;
using testing::fill_first_version;
using ::testing::HasSubstr;
using testing::job_options;
using testing::kJobLanes;
using testing::kJobNonce;
using testing::kJobWords;
using testing::SerialReference;

using Region = std::shared_ptr<const SharedRegion>;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}
Deadline at_once() {
  return Deadline::after(std::chrono::milliseconds(5));
}

Region make_region(std::size_t bytes) {
  return std::make_shared<const SharedRegion>(SharedRegion::create(bytes));
}

void expect_error(ErrorKind kind, const ::testing::Matcher<std::string>& words, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(std::string(error.what()), words);
  }
}

std::uint64_t mask_of(int ranks) {
  return (std::uint64_t{1} << ranks) - 1;
}

// An arena in generation 1 and a view of it for every rank.
class ArenaOf {
 public:
  explicit ArenaOf(int ranks, std::uint64_t first_step = 0)
      : region(make_region(Arena::bytes(job_options(ranks, first_step)))),
        parent(Arena::create(region, job_options(ranks, first_step))) {
    fill_first_version(parent);
    parent.begin_generation(1, mask_of(ranks));
    for (int r = 0; r < ranks; ++r) {
      rank.push_back(Arena::attach(region, kJobNonce, r));
      rank.back().enter(1, soon());
    }
  }

  Region region;
  Arena parent;
  std::vector<Arena> rank;
};

// --- Making and attaching

TEST(Arena, PutsItsPartsSideBySide) {
  for (const std::size_t version_bytes : {0UL, 1UL, 4096UL, 4097UL, 1000003UL}) {
    for (const std::size_t lane_bytes : {0UL, 1UL, 4095UL, 70001UL}) {
      for (const int lanes : {1, 3, 64}) {
        ArenaOptions options;
        options.ranks = 7;
        options.lanes = lanes;
        options.version_bytes = version_bytes;
        options.lane_bytes = lane_bytes;
        const Region region = make_region(Arena::bytes(options));
        const Arena arena = Arena::create(region, options);
        std::vector<std::span<std::byte>> parts{arena.version(0), arena.version(1)};
        for (int lane = 0; lane < lanes; ++lane)
          parts.push_back(arena.lane(lane));
        const std::byte* end =
            region->bytes().data() + Roster::bytes({7}) + 320 + 64 * (7 + static_cast<std::size_t>(lanes));
        for (std::size_t part = 0; part < parts.size(); ++part) {
          EXPECT_EQ(parts[part].size(), part < 2 ? version_bytes : lane_bytes);
          EXPECT_GE(parts[part].data(), end) << "part " << part << " overlaps";
          EXPECT_EQ((parts[part].data() - region->bytes().data()) % 4096, 0);
          end = parts[part].data() + parts[part].size();
        }
        EXPECT_LE(end, region->bytes().data() + region->bytes().size());
      }
    }
  }
}

TEST(Arena, RefusesImpossibleSizes) {
  const auto with = [](const std::function<void(ArenaOptions&)>& change) {
    ArenaOptions options = job_options(2);
    change(options);
    expect_error(ErrorKind::kInvalidInput, HasSubstr("are possible"), [&] { Arena::bytes(options); });
  };
  with([](ArenaOptions& o) { o.ranks = 0; });
  with([](ArenaOptions& o) { o.ranks = 65; });
  with([](ArenaOptions& o) { o.ranks = -1; });
  with([](ArenaOptions& o) { o.lanes = 0; });
  with([](ArenaOptions& o) { o.lanes = -1; });
  with([](ArenaOptions& o) { o.lanes = 4097; });
  with([](ArenaOptions& o) { o.version_bytes = ~std::size_t{0}; });
  with([](ArenaOptions& o) { o.lane_bytes = ~std::size_t{0} / 3; });
  with([](ArenaOptions& o) { o.step = kMostStep + 1; });
  expect_error(ErrorKind::kInvalidInput, HasSubstr("bytes are needed and the region has"),
               [] { Arena::create(make_region(4096), job_options(2)); });
}

TEST(Arena, IsAttachedWithTheSizesItWasMadeWith) {
  const ArenaOf arena(3, 17);
  const Arena other = Arena::attach(arena.region, kJobNonce, kAnyRank);
  EXPECT_EQ(other.options().ranks, 3);
  EXPECT_EQ(other.options().lanes, kJobLanes);
  EXPECT_EQ(other.options().version_bytes, kJobWords * 8);
  EXPECT_EQ(other.committed(), (CommitWord{1, 17, 0}));
  EXPECT_EQ(other.lane(2).data(), arena.parent.lane(2).data());
}

class ArenaAttach : public ::testing::Test {
 protected:
  ArenaAttach() { arena_.begin_generation(1, 1); }
  template <typename T>
  void poke(std::size_t offset, T value) {
    std::memcpy(region_->bytes().data() + offset, &value, sizeof(value));
  }
  void expect_refused(ErrorKind kind, const std::string& words) {
    expect_error(kind, HasSubstr(words), [&] { Arena::attach(region_, kJobNonce, 0); });
  }

  Region region_ = make_region(Arena::bytes(job_options(1)));
  Arena arena_ = Arena::create(region_, job_options(1));
};

TEST_F(ArenaAttach, RefusesWhatIsNoArena) {
  expect_error(ErrorKind::kMismatch, HasSubstr("foreign: it does not begin as a roster does"),
               [] { Arena::attach(make_region(1 << 20), kJobNonce, 0); });
  poke<std::uint64_t>(0, 12345);
  expect_refused(ErrorKind::kMismatch, "foreign");
}

TEST_F(ArenaAttach, RefusesAnotherLayout) {
  poke<std::uint32_t>(8, 99);
  expect_refused(ErrorKind::kMismatch, "the roster has layout 99 and this program knows 7");
}

TEST_F(ArenaAttach, RefusesTheArenaOfAnotherJob) {
  expect_error(ErrorKind::kMismatch, HasSubstr("it belongs to another job"),
               [&] { Arena::attach(region_, kJobNonce + 1, 0); });
}

TEST_F(ArenaAttach, RefusesAClosedArena) {
  arena_.close();
  expect_refused(ErrorKind::kMismatch, "stale: its job has ended");
}

TEST_F(ArenaAttach, RefusesATruncatedRegion) {
  for (const std::size_t bytes : {100UL, 512UL, region_->bytes().size() - 1}) {
    const Region cut = make_region(bytes);
    std::memcpy(cut->bytes().data(), region_->bytes().data(), std::min(bytes, cut->bytes().size()));
    if (cut->bytes().size() >= region_->bytes().size()) continue;  // rounded up to huge pages
    expect_error(ErrorKind::kDamaged, HasSubstr("the region is truncated"), [&] { Arena::attach(cut, kJobNonce, 0); });
  }
}

TEST_F(ArenaAttach, RefusesSizesThatMakeNoSense) {
  poke<std::uint32_t>(12, 1000);  // ranks
  expect_refused(ErrorKind::kDamaged, "sizes make no sense");
  poke<std::uint32_t>(12, 1);
  const std::size_t version_bytes = Roster::bytes({1}) + 16;
  poke(version_bytes, ~std::uint64_t{0});
  expect_refused(ErrorKind::kDamaged, "sizes make no sense");
  poke<std::uint64_t>(version_bytes, 100000);
  expect_refused(ErrorKind::kDamaged, "truncated");
}

TEST_F(ArenaAttach, RefusesARankThatHasNoPlace) {
  for (const int rank : {1, 63, 64, -2}) {
    expect_error(ErrorKind::kInvalidInput, HasSubstr("has no place: the roster has 1 ranks"),
                 [&] { Arena::attach(region_, kJobNonce, rank); });
  }
}

TEST_F(ArenaAttach, RefusesToMakeAnArenaTwice) {
  expect_error(ErrorKind::kMismatch, HasSubstr("in use"), [&] { Arena::create(region_, job_options(1)); });
}

// --- Generations

TEST(ArenaGeneration, IsEnteredByItsMembersOnly) {
  const Region region = make_region(Arena::bytes(job_options(3)));
  Arena parent = Arena::create(region, job_options(3));
  Arena rank1 = Arena::attach(region, kJobNonce, 1);
  Arena rank2 = Arena::attach(region, kJobNonce, 2);
  expect_error(ErrorKind::kTimeout, HasSubstr("rank 1: the deadline passed: generation 1 has not begun"),
               [&] { rank1.enter(1, at_once()); });
  parent.begin_generation(1, 0b011);
  rank1.enter(1, soon());
  EXPECT_EQ(rank1.members(), 0b011U);
  expect_error(ErrorKind::kMismatch, HasSubstr("rank 2 is no member of generation 1"), [&] { rank2.enter(1, soon()); });
  parent.begin_generation(5, 0b110);
  expect_error(ErrorKind::kMismatch, HasSubstr("generation 1 is stale: generation 5 has begun"),
               [&] { rank2.enter(1, soon()); });
  rank2.enter(5, soon());
  EXPECT_EQ(rank2.members(), 0b110U);
  EXPECT_EQ(parent.committed(), (CommitWord{5, 0, 0}));
  parent.close();
  expect_error(ErrorKind::kMismatch, HasSubstr("stale: its job has ended"), [&] { rank1.enter(5, soon()); });
}

TEST(ArenaGeneration, CannotGoBackOrChangeItsMembers) {
  ArenaOf arena(2);
  arena.parent.begin_generation(4, 0b01);
  arena.parent.begin_generation(4, 0b01);
  expect_error(ErrorKind::kMismatch, HasSubstr("generation 4 has, with members 0x1"),
               [&] { arena.parent.begin_generation(4, 0b11); });
  expect_error(ErrorKind::kMismatch, HasSubstr("generation 3 cannot begin"),
               [&] { arena.parent.begin_generation(3, 0b01); });
  arena.parent.begin_generation(kMostGeneration, 0b11);
  expect_error(ErrorKind::kUnsupported, HasSubstr("generation 1048576 is beyond 1048575"),
               [&] { arena.parent.begin_generation(kMostGeneration + 1, 0b11); });
  EXPECT_EQ(arena.parent.committed().generation, kMostGeneration);
}

TEST(ArenaGeneration, FreesWhatTheGoneHadNotFinishedAndKeepsTheRest) {
  ArenaOf arena(3);
  for (const int lane : {0, 1}) {  // rank 2: one done, one started
    ASSERT_TRUE(arena.rank[2].claim(lane));
    ASSERT_TRUE(arena.rank[2].start(lane));
  }
  arena.rank[2].finish(0);
  ASSERT_TRUE(arena.rank[2].claim(2));
  ASSERT_TRUE(arena.rank[0].claim(3));
  ASSERT_TRUE(arena.rank[0].start(3));
  ASSERT_TRUE(arena.rank[1].claim(4));
  arena.parent.begin_generation(2, 0b011);
  arena.rank[1].enter(2, soon());  // whoever comes first
  const auto state = [&](int lane) { return arena.rank[0].lane_state(lane).state; };
  EXPECT_EQ(state(0), LaneState::kDone);
  EXPECT_EQ(state(1), LaneState::kFree);
  EXPECT_EQ(state(2), LaneState::kFree);
  EXPECT_EQ(state(3), LaneState::kStarted) << "a survivor's work goes on";
  EXPECT_EQ(state(4), LaneState::kFree) << "whoever enters has nothing in hand";
  arena.rank[0].finish(3);
  arena.rank[0].enter(2, soon());
  EXPECT_EQ(state(3), LaneState::kDone);
}

TEST(ArenaGeneration, FencesOffThoseWhoAreStillInTheOldOne) {
  ArenaOf arena(2);
  ASSERT_TRUE(arena.rank[0].claim(0));
  arena.parent.begin_generation(2, 0b11);
  const auto words = HasSubstr("rank 0: the members changed: generation 2 has begun, this rank is in 1");
  Arena& old = arena.rank[0];
  expect_error(ErrorKind::kPeerLost, words, [&] { old.claim(1); });
  expect_error(ErrorKind::kPeerLost, words, [&] { old.start(0); });
  expect_error(ErrorKind::kPeerLost, words, [&] { old.take_back(1); });
  expect_error(ErrorKind::kPeerLost, words, [&] { old.release(0); });
  expect_error(ErrorKind::kPeerLost, words, [&] { old.arrive(1); });
  expect_error(ErrorKind::kPeerLost, words, [&] { old.wait_all_done(kJobLanes, soon()); });
  expect_error(ErrorKind::kPeerLost, words, [&] { old.wait_arrived(1, soon()); });
  expect_error(ErrorKind::kPeerLost, words, [&] { old.next_version(soon()); });
  expect_error(ErrorKind::kPeerLost, words, [&] { old.commit(Outcome::kFlip, soon()); });
  EXPECT_EQ(arena.parent.committed(), (CommitWord{2, 0, 0}));
}

TEST(ArenaGeneration, IsEnteredOnce) {
  ArenaOf arena(2);
  expect_error(ErrorKind::kMismatch, HasSubstr("rank 1 has entered generation 1 before"),
               [&] { Arena::attach(arena.region, kJobNonce, 1).enter(1, soon()); });
}

// One that has not come may still be writing what it owned before.
TEST(ArenaGeneration, IsNotWrittenToBeforeAllItsMembersHaveEntered) {
  ArenaOf arena(2);
  arena.parent.begin_generation(2, 0b11);
  arena.rank[1].enter(2, soon());
  expect_error(ErrorKind::kTimeout, AllOf(HasSubstr("rank 0 (pid "), HasSubstr("has not entered generation 2")),
               [&] { arena.rank[1].next_version(at_once()); });
  std::thread other([&] { arena.rank[0].enter(2, soon()); });
  EXPECT_EQ(arena.rank[1].next_version(soon()).data(), arena.parent.version(1).data());
  other.join();
}

// --- Lanes

TEST(ArenaLane, IsClaimedStartedAndFinishedByOneRank) {
  ArenaOf arena(2);
  Arena& mine = arena.rank[0];
  Arena& other = arena.rank[1];
  EXPECT_FALSE(mine.start(0)) << "not claimed";
  EXPECT_TRUE(mine.claim(0));
  EXPECT_FALSE(mine.claim(0));
  EXPECT_FALSE(other.claim(0));
  EXPECT_FALSE(other.start(0));
  EXPECT_TRUE(mine.start(0));
  EXPECT_FALSE(other.take_back(0)) << "started";
  mine.finish(0);
  EXPECT_FALSE(other.claim(0));
  EXPECT_FALSE(other.take_back(0));
  EXPECT_EQ(other.lane_state(0), (LaneWord{1, 0, LaneState::kDone, 0}));
  expect_error(ErrorKind::kPeerLost, HasSubstr("lane 0 of step 0 is not this rank's"), [&] { other.finish(0); });
}

TEST(ArenaLane, NextFreeIsTheLowest) {
  ArenaOf arena(2);
  EXPECT_EQ(arena.rank[0].claim_next(kJobLanes), 0);
  EXPECT_EQ(arena.rank[1].claim_next(kJobLanes), 1);
  arena.rank[0].release(0);
  EXPECT_EQ(arena.rank[1].claim_next(kJobLanes), 0);
  EXPECT_EQ(arena.rank[1].claim_next(2), std::nullopt);
  EXPECT_EQ(arena.rank[1].claim_next(kJobLanes), 2);
}

TEST(ArenaLane, CanBeTakenBackUntilItIsStarted) {
  ArenaOf arena(2);
  ASSERT_TRUE(arena.rank[0].claim(3));
  EXPECT_FALSE(arena.rank[0].take_back(3)) << "its own";
  EXPECT_FALSE(arena.rank[1].take_back(2)) << "nobody's";
  EXPECT_TRUE(arena.rank[1].take_back(3));
  EXPECT_FALSE(arena.rank[0].start(3));
  arena.rank[0].release(3);
  EXPECT_TRUE(arena.rank[1].start(3));
  arena.rank[1].release(3);
  EXPECT_EQ(arena.rank[0].lane_state(3).state, LaneState::kFree) << "broken off";
}

TEST(ArenaLane, IsFreeAgainInTheNextStep) {
  ArenaOf arena(1);
  Arena& rank = arena.rank[0];
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(rank.lane_state(1).state, LaneState::kFree);
    ASSERT_TRUE(rank.claim(1));
    ASSERT_TRUE(rank.start(1));
    rank.finish(1);
    rank.commit(Outcome::kFlip, soon());
    EXPECT_EQ(rank.step(), step + 1);
  }
}

// --- Waits

TEST(ArenaWait, NamesWhatIsMissingWhenTheDeadlinePasses) {
  ArenaOf arena(2);
  ASSERT_TRUE(arena.rank[1].claim(0));
  expect_error(ErrorKind::kTimeout, AllOf(HasSubstr("rank 1 (pid "), HasSubstr("has not finished lane 0 of step 0")),
               [&] { arena.rank[0].wait_all_done(kJobLanes, at_once()); });
  ASSERT_TRUE(arena.rank[1].start(0));
  arena.rank[1].finish(0);
  expect_error(ErrorKind::kTimeout, HasSubstr("no rank has claimed lane 1 of step 0"),
               [&] { arena.rank[0].wait_all_done(kJobLanes, at_once()); });
  arena.rank[0].wait_all_done(1, soon());
  arena.rank[0].wait_all_done(0, soon());
  arena.rank[1].arrive(2);
  arena.rank[0].wait_arrived(2, soon());
  expect_error(ErrorKind::kTimeout, AllOf(HasSubstr("rank 1 (pid "), HasSubstr("has not come to phase 3 of step 0")),
               [&] { arena.rank[0].wait_arrived(3, at_once()); });
  expect_error(ErrorKind::kTimeout, HasSubstr("has not come to the commit of step 0"),
               [&] { arena.rank[0].commit(Outcome::kFlip, at_once()); });
}

TEST(ArenaWait, SaysThatAMemberNeverCame) {
  const Region region = make_region(Arena::bytes(job_options(2)));
  Arena::create(region, job_options(2)).begin_generation(1, 0b11);
  Arena rank = Arena::attach(region, kJobNonce, 0);
  rank.enter(1, soon());
  expect_error(ErrorKind::kTimeout, HasSubstr("rank 1 (which never joined) has not come to the commit of step 0"),
               [&] { rank.commit(Outcome::kFlip, at_once()); });
}

// Each kind of wait, begun in a thread, and ended by what `end` does.
void expect_all_waits_end(const std::function<void(ArenaOf&)>& end, const std::string& words) {
  const std::vector<std::function<void(Arena&)>> waits{
      [](Arena& rank) { rank.wait_all_done(kJobLanes, soon()); },
      [](Arena& rank) { rank.wait_done_or_free(1, soon()); },
      [](Arena& rank) { rank.wait_arrived(1, soon()); },
      [](Arena& rank) { rank.commit(Outcome::kFlip, soon()); },
      [](Arena& rank) { rank.next_version(soon()); },
  };
  for (std::size_t i = 0; i < waits.size(); ++i) {
    ArenaOf arena(2);
    ASSERT_TRUE(arena.rank[1].claim(0));
    std::optional<VersionPin> pin;
    if (i == 4) {  // a reader stands in the way of the update after next
      pin.emplace(arena.parent.pin());
      std::thread other([&] { arena.rank[1].commit(Outcome::kFlip, soon()); });
      arena.rank[0].commit(Outcome::kFlip, soon());
      other.join();
    }
    std::thread waiting(
        [&] { expect_error(ErrorKind::kPeerLost, HasSubstr(words), [&] { waits[i](arena.rank[0]); }); });
    // sleeps: most likely the other one waits by then; right in any case
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    end(arena);
    waiting.join();
  }
}

TEST(ArenaWait, EndsWhenAMemberIsReportedLost) {
  expect_all_waits_end([](ArenaOf& arena) { arena.parent.fail(1, "rank 1 (pid 77) was killed by signal 9"); },
                       "rank 1 (pid 77) was killed by signal 9");
}

TEST(ArenaWait, EndsWhenANewGenerationBegins) {
  expect_all_waits_end([](ArenaOf& arena) { arena.parent.begin_generation(2, 0b01); }, "generation 2 has begun");
}

TEST(ArenaWait, LeavesTheFailureOfTheOldGenerationBehind) {
  ArenaOf arena(2);
  arena.parent.fail(1, "rank 1 died");
  expect_error(ErrorKind::kPeerLost, HasSubstr("rank 1 died"), [&] { arena.rank[0].wait_arrived(1, soon()); });
  arena.parent.begin_generation(2, 0b01);
  arena.rank[0].enter(2, soon());
  arena.rank[0].commit(Outcome::kFlip, soon());
  EXPECT_EQ(arena.parent.committed(), (CommitWord{2, 1, 1}));
}

TEST(ArenaWait, ReturnsToWorkWhenALaneIsGivenBack) {
  ArenaOf arena(2);
  ASSERT_TRUE(arena.rank[1].claim(0));
  std::thread other([&] { arena.rank[1].release(0); });
  EXPECT_FALSE(arena.rank[0].wait_done_or_free(1, soon()));
  other.join();
  ASSERT_TRUE(arena.rank[0].claim(0));
  ASSERT_TRUE(arena.rank[0].start(0));
  arena.rank[0].finish(0);
  EXPECT_TRUE(arena.rank[1].wait_done_or_free(1, soon()));
}

// --- Commit

TEST(ArenaCommit, FlipsOrKeepsTheBufferAndCountsTheStep) {
  ArenaOf arena(1);
  Arena& rank = arena.rank[0];
  EXPECT_EQ(rank.next_version(soon()).data(), rank.version(1).data());
  rank.commit(Outcome::kFlip, soon());
  EXPECT_EQ(rank.committed(), (CommitWord{1, 1, 1}));
  EXPECT_EQ(rank.next_version(soon()).data(), rank.version(0).data());
  rank.commit(Outcome::kKeep, soon());
  EXPECT_EQ(rank.committed(), (CommitWord{1, 2, 1}));
  rank.commit(Outcome::kFlip, soon());
  EXPECT_EQ(rank.committed(), (CommitWord{1, 3, 0}));
}

TEST(ArenaCommit, NeedsEveryMember) {
  ArenaOf arena(2);
  expect_error(ErrorKind::kTimeout, HasSubstr("rank 1"), [&] { arena.rank[0].commit(Outcome::kFlip, at_once()); });
  EXPECT_EQ(arena.parent.committed().step, 0U);
  arena.rank[1].commit(Outcome::kFlip, soon());  // rank 0 has arrived: whoever sees all flips
  EXPECT_EQ(arena.parent.committed(), (CommitWord{1, 1, 1}));
  arena.rank[0].commit(Outcome::kFlip, soon());  // tried again, it finds the work done
  EXPECT_EQ(arena.rank[0].step(), 1U);
  EXPECT_EQ(arena.parent.committed(), (CommitWord{1, 1, 1}));
}

TEST(ArenaCommit, NamesARankThatWantsAnotherOutcome) {
  ArenaOf arena(2);
  std::thread other([&] {
    expect_error(ErrorKind::kMismatch, HasSubstr("rank 1: rank 0 does not skip step 0"),
                 [&] { arena.rank[1].commit(Outcome::kKeep, soon()); });
  });
  expect_error(ErrorKind::kMismatch, HasSubstr("rank 0: rank 1 skips step 0, and this rank does not"),
               [&] { arena.rank[0].commit(Outcome::kFlip, soon()); });
  other.join();
  EXPECT_EQ(arena.parent.committed().step, 0U);
}

TEST(ArenaCommit, StopsWhereStepsCannotBeCounted) {
  ArenaOf arena(1, kMostStep - 1);
  arena.rank[0].commit(Outcome::kFlip, soon());
  EXPECT_EQ(arena.rank[0].step(), kMostStep);
  expect_error(ErrorKind::kUnsupported, HasSubstr("step 68719476735 cannot be followed"),
               [&] { arena.rank[0].commit(Outcome::kFlip, soon()); });
  EXPECT_EQ(arena.parent.committed(), (CommitWord{1, kMostStep, 1}));
}

TEST(ArenaCommit, IsSeenThroughAReadOnlyMapping) {
  ArenaOf arena(1);
  const ReadOnlyMapping first = arena.parent.map_version_read_only(0);
  const ReadOnlyMapping second = arena.parent.map_version_read_only(1);
  arena.rank[0].next_version(soon())[kJobWords * 8 - 1] = std::byte{99};
  arena.rank[0].commit(Outcome::kFlip, soon());
  EXPECT_EQ(second.bytes().size(), kJobWords * 8);
  EXPECT_EQ(second.bytes().back(), std::byte{99});
  EXPECT_EQ(std::memcmp(first.bytes().data(), arena.parent.version(0).data(), first.bytes().size()), 0);
}

// Ranks as threads of one process, on one mapping: what the thread sanitizer can judge.
TEST(ArenaCommit, GivesTheSerialResultForAnyNumberOfRanksAsThreads) {
  for (const int ranks : {1, 2, 3, 7}) {
    ArenaOf arena(ranks);
    constexpr std::uint64_t kTarget = 60;
    arena.parent.begin_generation(2, mask_of(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        testing::work(arena.rank[static_cast<std::size_t>(rank)], rank, 2, kTarget, std::chrono::seconds(20));
      });
    }
    // New generations with the same members, in the middle of whatever they do.
    for (std::uint64_t generation = 3; generation < 9; ++generation) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));  // sleeps: until they are in the middle of something
      if (arena.parent.committed().step + 5 > kTarget) break;
      const VersionPin pin = arena.parent.pin();
      arena.parent.begin_generation(generation, mask_of(ranks));
    }
    for (std::thread& thread : threads)
      thread.join();
    SerialReference reference;
    const VersionPin last = arena.parent.pin();
    EXPECT_EQ(last.step(), kTarget);
    EXPECT_EQ(sha256(last.bytes()), reference.hash_at(kTarget)) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace muster::comm
