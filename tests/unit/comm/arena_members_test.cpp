// What a generation means for an arena: whose state its host has, whose loss ends a wait, where steps begin. Members by
// themselves are in roster_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/comm/arena.h"
#include "support/errors.h"
#include "support/sandbox.h"
#include "unit/comm/arena_job.h"

namespace muster::comm {
namespace {

using muster::testing::expect_error;
using muster::testing::status_of_child;
using testing::job_options;
using testing::kJobNonce;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

class ArenaMembers : public ::testing::Test {
 protected:
  Arena attach(int rank) const { return Arena::attach(region_, kJobNonce, rank); }

  std::shared_ptr<const SharedRegion> region_ =
      std::make_shared<const SharedRegion>(SharedRegion::create(Arena::bytes(job_options(3))));
  Arena supervisor_ = Arena::create(region_, job_options(3));
};

// --- The state of another host

TEST_F(ArenaMembers, TakeUpTheStateOfAHostThatIsAhead) {
  const auto both = [&](const std::function<void(Arena&, int)>& act) {
    std::vector<std::thread> ranks;
    for (const int rank : {0, 2}) {
      ranks.emplace_back([&, rank] {
        Arena arena = attach(rank);
        arena.enter(supervisor_.committed().generation, soon());
        act(arena, rank);
      });
    }
    for (std::thread& rank : ranks)
      rank.join();
  };
  supervisor_.mark_fresh();
  EXPECT_TRUE(attach(0).fresh());
  for (std::uint64_t round = 1; round <= 3; ++round) {
    // The first time the step is the one that the arena has already.
    const std::uint64_t step = 10 * (round - 1);
    supervisor_.begin_generation(round, 0b101);
    both([&](Arena& arena, int rank) {
      const std::span<std::byte> next = arena.next_version(soon());
      const std::size_t half = next.size() / 2;
      std::ranges::fill(next.subspan(rank == 0 ? 0 : half, half), static_cast<std::byte>(round));
      arena.adopt(step, soon());
      EXPECT_EQ(arena.step(), step);
      EXPECT_EQ(arena.lane_state(0).state, LaneState::kFree);
    });
    EXPECT_EQ(supervisor_.committed(), (CommitWord{round, step, round % 2, 1}));
    for (const std::byte byte : supervisor_.version(round % 2))
      ASSERT_EQ(byte, static_cast<std::byte>(round));
  }
  EXPECT_TRUE(supervisor_.fresh()) << "until somebody says otherwise";
  supervisor_.begin_generation(4, 0b101);
  EXPECT_TRUE(supervisor_.fresh()) << "in the next generation, too";
  both([&](Arena& arena, int) { arena.settle(); });
  EXPECT_EQ(supervisor_.committed(), (CommitWord{4, 20, 1, 0}));
  Arena late = attach(0);  // of a generation that is over when it comes to it
  supervisor_.begin_generation(5, 0b101);
  expect_error(ErrorKind::kPeerLost, "generation 5", [&] { late.settle(); });
}

TEST_F(ArenaMembers, ADeathBeforeAllHaveTakenUpTheStateLeavesTheOldOne) {
  supervisor_.begin_generation(1, 0b11);
  const int status = status_of_child([&] {
    Arena arena = attach(1);
    arena.enter(1, soon());
    return 0;
  });
  EXPECT_EQ(status, 0);
  Arena arena = attach(0);
  arena.enter(1, soon());
  expect_error(ErrorKind::kPeerLost, "rank 1", [&] { arena.adopt(5, soon()); });
  EXPECT_EQ(supervisor_.committed(), (CommitWord{1, 0, 0}));
}

// --- Coming in

// The generation goes on without it: nobody would begin another one because of it.
TEST_F(ArenaMembers, TheDeathOfOneThatIsNoMemberIsNobodysLoss) {
  supervisor_.begin_generation(1, 0b011);
  Arena member = attach(0);
  member.enter(1, soon());
  attach(1).enter(1, soon());
  status_of_child([&] {
    attach(2).ask_to_enter();
    return ::kill(::getpid(), SIGKILL);
  });
  ASSERT_TRUE(supervisor_.board().occupant(2));
  expect_error(ErrorKind::kTimeout, "no rank has claimed lane 0",
               [&] { member.wait_all_done(1, Deadline::after(std::chrono::milliseconds(200))); });
  EXPECT_FALSE(member.board().failed());
  // As a member it would be.
  supervisor_.begin_generation(2, 0b111);
  member.enter(2, soon());
  status_of_child([&] {
    attach(2).enter(2, soon());
    return ::kill(::getpid(), SIGKILL);
  });
  expect_error(ErrorKind::kPeerLost, "rank 2 (pid", [&] { member.wait_all_done(1, soon()); });
}

TEST_F(ArenaMembers, TheFirstStepCanBeSetUntilTheFirstGeneration) {
  supervisor_.set_first_step(17);
  EXPECT_EQ(supervisor_.committed(), (CommitWord{0, 17, 0}));
  EXPECT_EQ(attach(0).options().step, 17U);
  expect_error(ErrorKind::kUnsupported, "is beyond", [&] { supervisor_.set_first_step(kMostStep + 1); });
  supervisor_.begin_generation(1, 0b01);
  Arena worker = attach(0);
  supervisor_.begin_generation(2, 0b01);
  worker.enter_next(soon());
  EXPECT_EQ(worker.step(), 17U);
}

}  // namespace
}  // namespace muster::comm
