// Who of a host's workers trains, without anything else that they share: one process in charge, coming in, generations
// that follow each other, notes, and how the place is found. Deaths in between are in arena_kill_test.
#include "muster/comm/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

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

namespace muster::comm {
namespace {

using muster::testing::expect_error;
using muster::testing::status_of_child;

constexpr std::uint64_t kNonce = 0x1234567890abcdef;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}
Deadline at_once() {
  return Deadline::after(std::chrono::milliseconds(5));
}

class RosterTest : public ::testing::Test {
 protected:
  Roster attach(int rank) const { return Roster::attach(region_, kNonce, rank); }

  std::shared_ptr<const SharedRegion> region_ =
      std::make_shared<const SharedRegion>(SharedRegion::create(Roster::bytes({3})));
  Roster supervisor_ = Roster::create(region_, {3, kNonce});
};

// --- The place

TEST_F(RosterTest, HasNoStepsAndNoArenaBehindIt) {
  EXPECT_EQ(attach(0).options().ranks, 3);
  supervisor_.begin_generation(2, 0b1);
  EXPECT_EQ(supervisor_.committed(), (CommitWord{2, 0, 0}));
  EXPECT_FALSE(Arena::find(region_, kNonce, 0));
  expect_error(ErrorKind::kMismatch, "no arena behind it", [&] { Arena::attach(region_, kNonce, 0); });
}

TEST_F(RosterTest, OfAnArenaIsSeenWithoutTheArena) {
  const ArenaOptions options{
      .ranks = 2, .lanes = 3, .version_bytes = 100, .lane_bytes = 100, .nonce = kNonce, .step = 7};
  const auto region = std::make_shared<const SharedRegion>(SharedRegion::create(Arena::bytes(options)));
  Arena::create(region, options);
  Roster supervisor = Roster::attach(region, kNonce, kAnyRank);
  EXPECT_EQ(supervisor.options().ranks, 2);
  EXPECT_EQ(supervisor.committed().step, 7U);
  supervisor.begin_generation(1, 0b11);
  Arena worker = Arena::attach(region, kNonce, 1);
  worker.enter(1, soon());
  EXPECT_EQ(worker.step(), 7U);
  EXPECT_TRUE(worker.claim(0));
}

TEST_F(RosterTest, RefusesWhatIsNotItsOwn) {
  expect_error(ErrorKind::kMismatch, "it belongs to another job", [&] { Roster::attach(region_, kNonce + 1, 0); });
  expect_error(ErrorKind::kMismatch, "in use", [&] { Roster::create(region_, {3, kNonce}); });
  expect_error(ErrorKind::kInvalidInput, "rank 3 has no place", [&] { attach(3); });
  expect_error(ErrorKind::kInvalidInput, "ranks 65", [] { Roster::bytes({65}); });
  expect_error(ErrorKind::kInvalidInput, "ranks 0", [] { Roster::bytes({0}); });
}

// --- Who decides

TEST_F(RosterTest, NobodyIsMissedBeforeTheFirstHasCome) {
  EXPECT_FALSE(supervisor_.abandoned());
}

TEST_F(RosterTest, OneProcessAtATimeIsInCharge) {
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

TEST_F(RosterTest, TheDeadAreInChargeOfNothing) {
  status_of_child([&] {
    supervisor_.take_charge(this_process());
    return ::kill(::getpid(), SIGKILL);
  });
  EXPECT_TRUE(attach(1).abandoned());
  EXPECT_TRUE(attach(1).take_charge(this_process()));
  EXPECT_FALSE(attach(1).abandoned());
}

TEST_F(RosterTest, AnObserverSeesWhoIsAMember) {
  EXPECT_EQ(supervisor_.present_members(), 0U);
  supervisor_.begin_generation(3, 0b101);
  EXPECT_EQ(attach(kAnyRank).present_members(), 0b101U);
}

// --- Coming in

TEST_F(RosterTest, WhoAsksToEnterIsSeenBeforeItIsAMember) {
  EXPECT_FALSE(supervisor_.board().occupant(1));
  Roster worker = attach(1);
  worker.ask_to_enter();
  ASSERT_TRUE(supervisor_.board().occupant(1));
  EXPECT_EQ(*supervisor_.board().occupant(1), this_process());
  EXPECT_GT(supervisor_.board().last_beat(1).count(), 0);
  EXPECT_EQ(worker.members(), 0U);
}

TEST_F(RosterTest, ANewcomerWaitsForAGenerationThatItIsAMemberOf) {
  supervisor_.begin_generation(1, 0b011);
  Roster newcomer = attach(1);
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

TEST_F(RosterTest, GenerationsThatWereOvertakenAreSkipped) {
  supervisor_.begin_generation(1, 0b11);
  Roster worker = attach(0);
  supervisor_.begin_generation(2, 0b11);
  supervisor_.begin_generation(7, 0b01);
  worker.enter_next(soon());
  EXPECT_EQ(worker.generation(), 7U);
  expect_error(ErrorKind::kTimeout, "no generation after 7", [&] { worker.enter_next(at_once()); });
}

// Generations follow each other as fast as they can, while two workers enter whichever they get hold of.
TEST_F(RosterTest, EnteringKeepsUpWithGenerationsThatChangeMeanwhile) {
  constexpr std::uint64_t kLast = 500;
  std::atomic<int> entered = 0;
  std::vector<Roster> places;
  for (const int rank : {0, 1})
    places.push_back(attach(rank));
  std::vector<std::thread> workers;
  for (Roster& worker : places) {
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

TEST_F(RosterTest, NobodyEntersAClosedOne) {
  supervisor_.begin_generation(1, 0b01);
  Roster member = attach(0);
  Roster other = attach(1);
  supervisor_.close();
  expect_error(ErrorKind::kMismatch, "stale: its job has ended", [&] { other.enter_next(soon()); });
  supervisor_.begin_generation(2, 0b01);
  expect_error(ErrorKind::kMismatch, "stale: its job has ended", [&] { member.enter_next(soon()); });
}

// --- Notes

TEST_F(RosterTest, ADeathWhileANoteIsWrittenLeavesTheOneBefore) {
  for (const char* point : {"roster.note.before_write", "roster.note.before_publish"}) {
    for (const int notes_before : {0, 1, 2}) {
      const auto region = std::make_shared<const SharedRegion>(SharedRegion::create(Roster::bytes({1})));
      const Roster observer = Roster::create(region, {1, kNonce});
      const int status = status_of_child([&] {
        Roster writer = Roster::attach(region, kNonce, 0);
        for (int i = 0; i < notes_before; ++i)
          writer.write_note("note " + std::to_string(i));
        arm_failpoints(std::string(point) + "=kill");
        writer.write_note("the note that nobody sees");
        return 0;
      });
      ASSERT_TRUE(WIFSIGNALED(status)) << status;
      const std::string before = notes_before == 0 ? "" : "note " + std::to_string(notes_before - 1);
      EXPECT_EQ(observer.note(), before) << point;
      Roster::attach(region, kNonce, 0).write_note("after all");
      EXPECT_EQ(observer.note(), "after all");
      Roster::attach(region, kNonce, 0).write_note("and again");
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
