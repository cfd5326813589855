// Decisions from snapshots of seats, with their reasons; time is a number.
#include "muster/control/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::control {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Clock::Instant kNow{24h};

Worker seat(WorkerState state) {
  Worker worker;
  worker.state = state;
  worker.started = kNow;
  return worker;
}
Worker empty_after(int failures, std::chrono::nanoseconds since) {
  Worker worker;
  worker.failures = failures;
  worker.failed = kNow - since;
  return worker;
}
Worker lost() {
  Worker worker = empty_after(1, 0ns);
  worker.lost = true;
  return worker;
}
const Worker kEmptySeat = seat(WorkerState::kEmpty);
const Worker kStartingSeat = seat(WorkerState::kStarting);
const Worker kReadySeat = seat(WorkerState::kReady);
const Worker kMemberSeat = seat(WorkerState::kRunning);

// A job that trains: it is in a generation and has an arena.
JobView training(int target, std::vector<Worker> seats) {
  JobView job;
  job.now = kNow;
  job.generation = 3;
  job.target = target;
  job.workers = std::move(seats);
  job.arena = true;
  return job;
}
JobView beginning(int target, std::vector<Worker> seats) {
  JobView job = training(target, std::move(seats));
  job.generation = 0;
  return job;
}

TEST(BackOff, DoublesFromASecondAndEndsInQuarantine) {
  EXPECT_EQ(back_off(0), 0ns);
  EXPECT_EQ(back_off(1), 0ns) << "the first failure is made good at once";
  EXPECT_EQ(back_off(2), 1s);
  EXPECT_EQ(back_off(3), 2s);
  EXPECT_EQ(back_off(4), 4s);
  EXPECT_EQ(back_off(5), 10min);
  EXPECT_EQ(back_off(1000), 10min);
}

TEST(Membership, NothingToDoHasNoReason) {
  const MembershipDecision decision = decide_members(training(2, {kMemberSeat, kMemberSeat}));
  EXPECT_THAT(decision.start, IsEmpty());
  EXPECT_THAT(decision.evict, IsEmpty());
  EXPECT_FALSE(decision.new_generation);
  EXPECT_FALSE(decision.all_lost);
  EXPECT_EQ(decision.reason, "");
}

TEST(Membership, EmptySeatsAreFilledFromTheFirstUpToTheTarget) {
  JobView job;
  job.target = 3;
  job.workers.resize(4);
  EXPECT_THAT(decide_members(job).start, ElementsAre(0, 1, 2));
  job.workers[1].state = WorkerState::kStarting;
  EXPECT_THAT(decide_members(job).start, ElementsAre(0, 2));
  job.target = 0;
  EXPECT_THAT(decide_members(job).start, IsEmpty());
}

TEST(Membership, ASeatThatFailsIsLeftEmptyForAWhileAndAnotherIsTaken) {
  EXPECT_THAT(decide_members(training(2, {kMemberSeat, empty_after(1, 0ns)})).start, ElementsAre(1));
  EXPECT_THAT(decide_members(training(2, {kMemberSeat, empty_after(2, 999ms)})).start, IsEmpty());
  EXPECT_THAT(decide_members(training(2, {kMemberSeat, empty_after(2, 1s)})).start, ElementsAre(1));
  EXPECT_THAT(decide_members(training(2, {kMemberSeat, empty_after(5, 9min)})).start, IsEmpty());
  EXPECT_THAT(decide_members(training(2, {kMemberSeat, empty_after(5, 10min)})).start, ElementsAre(1)) << "readmitted";
  EXPECT_THAT(decide_members(training(2, {kMemberSeat, empty_after(5, 1s), kEmptySeat})).start, ElementsAre(2));
}

TEST(Membership, WhoHasLeftInGoodOrderIsNotReplacedAndOthersAre) {
  Worker left = kEmptySeat;
  left.done = true;
  EXPECT_THAT(decide_members(training(3, {kMemberSeat, left, kEmptySeat})).start, ElementsAre(2));
  EXPECT_THAT(decide_members(training(2, {kMemberSeat, left, kEmptySeat})).start, IsEmpty()) << "nor by another seat";
  EXPECT_THAT(decide_members(training(1, {kMemberSeat, left})).evict, IsEmpty());
  EXPECT_TRUE(decide_members(training(2, {empty_after(kMostFailures, 0ns), left})).all_lost);
}

TEST(Membership, TheFirstGenerationWaitsForThoseThatStart) {
  JobView job = beginning(3, {kReadySeat, kReadySeat, kStartingSeat});
  EXPECT_FALSE(decide_members(job).new_generation);
  job.workers[2].started = kNow - kGathering;
  MembershipDecision decision = decide_members(job);
  EXPECT_TRUE(decision.new_generation) << "but not for ever";
  EXPECT_EQ(decision.members, 0b011U);
  job.workers[2] = kReadySeat;
  decision = decide_members(job);
  EXPECT_TRUE(decision.new_generation);
  EXPECT_EQ(decision.members, 0b111U);
  EXPECT_THAT(decision.reason, HasSubstr("workers are ready; members are 0, 1, 2"));
  job.arena = false;
  EXPECT_FALSE(decide_members(job).new_generation);
}

TEST(Membership, LaterGenerationsWaitForNobody) {
  const MembershipDecision decision = decide_members(training(3, {kMemberSeat, kReadySeat, kStartingSeat}));
  EXPECT_TRUE(decision.new_generation);
  EXPECT_EQ(decision.members, 0b011U);
}

TEST(Membership, ALostMemberMakesAGenerationOfTheOthersAtOnceAndIsReplaced) {
  const MembershipDecision decision = decide_members(training(3, {kMemberSeat, lost(), kMemberSeat}));
  EXPECT_TRUE(decision.new_generation);
  EXPECT_EQ(decision.members, 0b101U);
  EXPECT_THAT(decision.start, ElementsAre(1));
  EXPECT_THAT(decision.reason, HasSubstr("a member is lost; members are 0, 2"));
}

TEST(Membership, MembersThatHaveToLookAgainMakeAGenerationOfTheSame) {
  JobView job = training(2, {kMemberSeat, kMemberSeat});
  job.regroup = true;
  const MembershipDecision decision = decide_members(job);
  EXPECT_TRUE(decision.new_generation);
  EXPECT_EQ(decision.members, 0b11U);
  EXPECT_THAT(decision.reason, HasSubstr("a server has gone back; members are 0, 1"));
  job = training(1, {lost(), kStartingSeat});
  job.regroup = true;
  EXPECT_EQ(decide_members(job).members, 0U);
  job = beginning(1, {kStartingSeat});
  job.regroup = true;
  EXPECT_FALSE(decide_members(job).new_generation);
}

TEST(Membership, WhenAllMembersAreLostOthersAreStartedInTheArena) {
  const MembershipDecision decision = decide_members(training(2, {lost(), lost()}));
  EXPECT_FALSE(decision.all_lost);
  EXPECT_THAT(decision.start, ElementsAre(0, 1));
  EXPECT_EQ(decision.members, 0U) << "nobody yet";
}

TEST(Membership, AllIsLostWhenOthersWouldFailAsWell) {
  JobView job = training(2, {lost(), lost()});
  job.failed = true;
  EXPECT_TRUE(decide_members(job).all_lost);
  EXPECT_THAT(decide_members(job).start, IsEmpty());
  job.workers[0] = kMemberSeat;
  EXPECT_FALSE(decide_members(job).all_lost) << "somebody still trains";
  job.workers[0] = lost();
  job.finishing = true;
  EXPECT_FALSE(decide_members(job).all_lost) << "the job is done";
}

TEST(Membership, AllIsLostWhenEverySeatIsInQuarantine) {
  EXPECT_TRUE(decide_members(training(2, {empty_after(5, 1s), empty_after(6, 1s)})).all_lost);
  EXPECT_FALSE(decide_members(training(2, {empty_after(5, 1s), empty_after(4, 1s)})).all_lost);
  EXPECT_FALSE(decide_members(training(2, {empty_after(5, 1s), kReadySeat})).all_lost);
}

TEST(Membership, AJobWhoseWorkersCannotBeginEnds) {
  EXPECT_TRUE(decide_members(beginning(2, {kStartingSeat, empty_after(kMostFailures, 0s)})).all_lost);
  EXPECT_FALSE(decide_members(beginning(2, {kStartingSeat, empty_after(kMostFailures - 1, 0s)})).all_lost);
}

TEST(Membership, ThoseThatDoNotTrainYetGoFirstThenTheLast) {
  const std::vector<Worker> seats{kStartingSeat, kMemberSeat, kReadySeat, kMemberSeat, kStartingSeat};
  EXPECT_THAT(decide_members(training(4, seats)).evict, ElementsAre(4));
  EXPECT_THAT(decide_members(training(2, seats)).evict, ElementsAre(4, 0, 2));
  EXPECT_THAT(decide_members(training(1, seats)).evict, ElementsAre(4, 0, 2, 3));
  EXPECT_THAT(decide_members(training(5, seats)).evict, IsEmpty());
}

TEST(Membership, WhoIsOneTooManyIsNotLetIn) {
  const MembershipDecision decision = decide_members(training(2, {kReadySeat, kMemberSeat, kMemberSeat}));
  EXPECT_THAT(decision.evict, ElementsAre(0));
  EXPECT_FALSE(decision.new_generation);
}

TEST(Membership, WhoWasToldToGoIsNotCountedTwice) {
  // It takes a while to die: meanwhile nobody else has to go in its place, and nobody comes.
  JobView job = training(2, {kReadySeat, kMemberSeat, kMemberSeat, kEmptySeat});
  job.workers[0].leaving = true;
  MembershipDecision decision = decide_members(job);
  EXPECT_THAT(decision.evict, IsEmpty());
  EXPECT_THAT(decision.start, IsEmpty());
  EXPECT_FALSE(decision.new_generation);
  job.workers[0] = kMemberSeat;
  job.workers[0].leaving = true;
  decision = decide_members(job);
  EXPECT_THAT(decision.evict, IsEmpty());
  // A generation needs confirmed deaths: until then it is a member.
  job.workers[2] = lost();
  EXPECT_EQ(decide_members(job).members, 0b011U);
}

TEST(Membership, AJobThatFinishesStartsAndAdmitsNobody) {
  JobView job = training(3, {kMemberSeat, kReadySeat, kEmptySeat, lost()});
  job.finishing = true;
  MembershipDecision decision = decide_members(job);
  EXPECT_TRUE(decision.new_generation) << "those who still work must not wait for the lost one";
  EXPECT_EQ(decision.members, 0b0001U);
  EXPECT_THAT(decision.start, IsEmpty());
  job.target = 0;
  EXPECT_THAT(decide_members(job).evict, IsEmpty());
  job.workers[3] = kEmptySeat;
  EXPECT_FALSE(decide_members(job).new_generation);
}

TEST(Membership, ThereCanBe64Seats) {
  const MembershipDecision decision = decide_members(beginning(64, std::vector<Worker>(64, kReadySeat)));
  EXPECT_EQ(decision.members, ~std::uint64_t{0});
}

}  // namespace
}  // namespace muster::control
