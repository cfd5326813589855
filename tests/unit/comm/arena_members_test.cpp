// What a worker under a supervisor does with its arena beside steps: it asks to be let in, waits for the generation
// that it is a member of, and leaves notes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/process.h"
#include "muster/comm/arena.h"
#include "muster/comm/arena_address.h"
#include "support/errors.h"
#include "support/sandbox.h"
#include "unit/comm/arena_job.h"

namespace muster::comm {
namespace {

using muster::testing::expect_error;
using muster::testing::status_of_child;
using testing::job_options;
using testing::kJobNonce;
using testing::note_of;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}
Deadline at_once() {
  return Deadline::after(std::chrono::milliseconds(5));
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

// --- Who decides

TEST_F(ArenaMembers, NobodyIsMissedBeforeTheFirstHasCome) {
  EXPECT_FALSE(supervisor_.abandoned());
}

TEST_F(ArenaMembers, OneProcessAtATimeIsInCharge) {
  const ProcessId self = this_process();
  const ProcessId other = process_of(::getppid());
  EXPECT_TRUE(supervisor_.take_charge(self));
  EXPECT_TRUE(supervisor_.take_charge(self)) << "it has it already";
  EXPECT_FALSE(attach(1).take_charge(other));
  EXPECT_FALSE(attach(1).abandoned());
  attach(1).leave_charge(other);
  EXPECT_FALSE(attach(1).abandoned()) << "it was not its to leave";
  supervisor_.leave_charge(self);
  EXPECT_TRUE(attach(1).abandoned());
  EXPECT_TRUE(attach(1).take_charge(other));
}

TEST_F(ArenaMembers, TheDeadAreInChargeOfNothing) {
  status_of_child([&] {
    supervisor_.take_charge(this_process());
    return ::kill(::getpid(), SIGKILL);
  });
  EXPECT_TRUE(attach(1).abandoned());
  EXPECT_TRUE(attach(1).take_charge(this_process()));
  EXPECT_FALSE(attach(1).abandoned());
}

TEST_F(ArenaMembers, AnObserverSeesWhoIsAMember) {
  EXPECT_EQ(supervisor_.present_members(), 0U);
  supervisor_.begin_generation(3, 0b101);
  EXPECT_EQ(attach(kAnyRank).present_members(), 0b101U);
}

// --- Coming in

TEST_F(ArenaMembers, WhoAsksToEnterIsSeenBeforeItIsAMember) {
  EXPECT_FALSE(supervisor_.board().occupant(1));
  Arena worker = attach(1);
  worker.ask_to_enter();
  ASSERT_TRUE(supervisor_.board().occupant(1));
  EXPECT_EQ(*supervisor_.board().occupant(1), this_process());
  EXPECT_GT(supervisor_.board().last_beat(1).count(), 0);
  EXPECT_EQ(worker.members(), 0U);
}

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

TEST_F(ArenaMembers, ANewcomerWaitsForAGenerationThatItIsAMemberOf) {
  supervisor_.begin_generation(1, 0b011);
  Arena newcomer = attach(1);
  // Its seat was a member's: that one was another process.
  expect_error(ErrorKind::kTimeout, "no generation after 1 with rank 1 has begun",
               [&] { newcomer.enter_next(at_once()); });
  supervisor_.begin_generation(2, 0b101);
  expect_error(ErrorKind::kTimeout, "no generation after 1 with rank 1", [&] { newcomer.enter_next(at_once()); });
  std::thread waits([&] { newcomer.enter_next(soon()); });
  supervisor_.begin_generation(3, 0b001);
  supervisor_.begin_generation(4, 0b111);
  waits.join();
  EXPECT_EQ(newcomer.generation(), 4U);
  EXPECT_EQ(newcomer.members(), 0b111U);
}

TEST_F(ArenaMembers, GenerationsThatWereOvertakenAreSkipped) {
  supervisor_.begin_generation(1, 0b11);
  Arena worker = attach(0);
  supervisor_.begin_generation(2, 0b11);
  supervisor_.begin_generation(7, 0b01);
  worker.enter_next(soon());
  EXPECT_EQ(worker.generation(), 7U);
  expect_error(ErrorKind::kTimeout, "no generation after 7", [&] { worker.enter_next(at_once()); });
}

// Generations follow each other as fast as they can, while two workers enter whichever they get hold of.
TEST_F(ArenaMembers, EnteringKeepsUpWithGenerationsThatChangeMeanwhile) {
  constexpr std::uint64_t kLast = 500;
  std::atomic<int> entered = 0;
  std::vector<Arena> arenas{attach(0), attach(1)};
  std::vector<std::thread> workers;
  for (Arena& worker : arenas) {
    workers.emplace_back([&] {
      std::uint64_t before = 0;
      while (worker.generation() < kLast) {
        worker.enter_next(soon());
        EXPECT_GT(worker.generation(), before);
        before = worker.generation();
        ++entered;
      }
    });
  }
  for (std::uint64_t generation = 1; generation <= kLast; ++generation) {
    supervisor_.begin_generation(generation, generation % 3 == 0 && generation < kLast ? 0b010 : 0b011);
    std::this_thread::yield();
  }
  for (std::thread& worker : workers)
    worker.join();
  EXPECT_GE(entered, 2);
}

TEST_F(ArenaMembers, NobodyEntersAClosedArena) {
  supervisor_.begin_generation(1, 0b01);
  Arena member = attach(0);
  Arena other = attach(1);
  supervisor_.close();
  expect_error(ErrorKind::kMismatch, "stale: its job has ended", [&] { other.enter_next(soon()); });
  supervisor_.begin_generation(2, 0b01);
  expect_error(ErrorKind::kMismatch, "stale: its job has ended", [&] { member.enter_next(soon()); });
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

// --- Notes

TEST_F(ArenaMembers, ADeathWhileANoteIsWrittenLeavesTheOneBefore) {
  for (const char* point : {"arena.note.before_write", "arena.note.before_publish"}) {
    for (const int notes_before : {0, 1, 2}) {
      const auto region = std::make_shared<const SharedRegion>(SharedRegion::create(Arena::bytes(job_options(1))));
      const Arena observer = Arena::create(region, job_options(1));
      const int status = status_of_child([&] {
        Arena writer = Arena::attach(region, kJobNonce, 0);
        for (int i = 0; i < notes_before; ++i)
          writer.write_note("note " + std::to_string(i));
        arm_failpoints(std::string(point) + "=kill");
        writer.write_note("the note that nobody sees");
        return 0;
      });
      ASSERT_TRUE(WIFSIGNALED(status)) << status;
      const std::string before = notes_before == 0 ? "" : "note " + std::to_string(notes_before - 1);
      EXPECT_EQ(observer.note(), before) << point;
      Arena::attach(region, kJobNonce, 0).write_note("after all");
      EXPECT_EQ(observer.note(), "after all");
      Arena::attach(region, kJobNonce, 0).write_note("and again");
      EXPECT_EQ(observer.note(), "and again");
    }
  }
}

// --- Addresses

TEST(ArenaAddress, ReadsBackWhatItWrites) {
  for (const std::uint64_t nonce : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    const ArenaAddress address = ArenaAddress::parse(ArenaAddress{"muster-0a1b", nonce}.text());
    EXPECT_EQ(address.server, "muster-0a1b");
    EXPECT_EQ(address.nonce, nonce);
  }
  EXPECT_EQ((ArenaAddress{"muster-0a1b", 0xff}.text()), "muster-0a1b:00000000000000ff");
}

TEST(ArenaAddress, RefusesWhatIsNone) {
  for (const char* text : {"", ":", "muster", "muster:", ":12", "muster:x", "muster:12 ", "muster:-1", "muster:1:2",
                           "muster:11111111111111111"}) {
    expect_error(ErrorKind::kInvalidInput, "is no address of an arena", [&] { ArenaAddress::parse(text); });
  }
}

TEST(ArenaKeys, AnAppointedFounderHasTheNextRound) {
  const std::shared_ptr<Store> store = make_memory_store();
  EXPECT_EQ(open_round(*store), 0);
  store->set(arena_key(0), appointment(12));
  EXPECT_EQ(open_round(*store), 1);
  EXPECT_EQ(appointed_by(store->get(arena_key(0), Deadline::after(std::chrono::nanoseconds(0)))), 12);
  store->set(arena_key(1), ArenaAddress{"muster-0123", 0x89ab}.text());
  EXPECT_EQ(open_round(*store), 2);
  EXPECT_EQ(appointed_by(store->get(arena_key(1), Deadline::after(std::chrono::nanoseconds(0)))), std::nullopt);
  for (const char* nobody : {"by:", "by:-1", "by:1x", "1"})
    EXPECT_EQ(appointed_by(nobody), std::nullopt) << nobody;
}

}  // namespace
}  // namespace muster::comm
