// Coordinators that take over, are fenced off and race each other, on a real store.
#include "muster/control/job_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

using muster::testing::error_of;
using muster::testing::status_of_child;
using muster::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ProcessId kNobody{2'000'000'000, 1};  // above the largest pid there can be

class JobRecordTest : public ::testing::Test {
 protected:
  std::shared_ptr<Store> store() const { return make_sqlite_store(folder_ / "job.db"); }
  // A record whose lease this process holds.
  std::unique_ptr<JobRecord> led(const WantedState& wanted = {1, 4, 2, false}) const {
    auto record = std::make_unique<JobRecord>(store());
    record->take_over(this_process());
    record->begin({"fashion", "runs/fashion-1", "20261115-193427"}, wanted);
    return record;
  }

  TemporaryFolder folder_;
};

TEST_F(JobRecordTest, NewRecordHasNothing) {
  const JobRecord record(store());
  EXPECT_FALSE(record.identity());
  EXPECT_FALSE(record.lease());
  EXPECT_FALSE(record.endpoint());
  EXPECT_TRUE(record.changes().empty());
  EXPECT_EQ(record.membership(), Membership{});
  EXPECT_EQ(record.standing(), Standing{});
}

TEST_F(JobRecordTest, WhatTheLeaderWritesOthersRead) {
  const auto leader = led();
  const Membership membership{3,
                              {{0, this_process(), 0, WorkerState::kRunning}, {1, kNobody, 5, WorkerState::kStopped}}};
  const Standing standing{JobPhase::kRunning, "because", 12, 100};
  leader->put_membership(membership);
  leader->put_standing(standing);
  leader->put_endpoint("unix-abstract:x");
  const JobRecord reader(store());
  EXPECT_EQ(reader.identity()->name, "fashion");
  EXPECT_EQ(reader.identity()->created, "20261115-193427");
  EXPECT_EQ(reader.wanted(), (WantedState{1, 4, 2, false}));
  EXPECT_EQ(reader.membership(), membership);
  EXPECT_EQ(reader.standing(), standing);
  EXPECT_EQ(reader.endpoint(), "unix-abstract:x");
  EXPECT_EQ(reader.lease()->holder, this_process());
}

TEST_F(JobRecordTest, WhatIsKnownOfOtherHostsIsForTheNextCoordinatorAndNotForTheNextLifeOfTheRun) {
  const auto record = led();
  EXPECT_EQ(record->cluster(), std::nullopt);
  const LedCluster cluster{
      "job", 3, "10.0.0.1:7400", "unix-abstract:name,/token", "eth0", {"--quiet"}, {{"agreement/files", "{}"}}};
  record->put_cluster(cluster);
  EXPECT_EQ(record->cluster(), cluster);
  EXPECT_EQ(record->served_in(), "");
  record->put_endpoint("unix-abstract:other");
  EXPECT_EQ(record->served_in(), process_space());
  record->begin({}, {});
  EXPECT_EQ(record->cluster(), std::nullopt);
}

TEST_F(JobRecordTest, GenerationNeverGoesBackAlsoWhenResumed) {
  auto leader = led();
  leader->put_membership({.generation = 7});
  EXPECT_EQ(error_of([&] { leader->put_membership({.generation = 6}); }).kind(), ErrorKind::kMismatch);
  leader->release();
  leader = led();
  EXPECT_EQ(leader->membership(), Membership{.generation = 7});
}

TEST_F(JobRecordTest, SecondCoordinatorIsRefusedWhileTheFirstRuns) {
  const auto first = led();
  JobRecord second(store());
  const Error error = error_of([&] { second.take_over(this_process()); });
  EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
  EXPECT_THAT(error.what(), HasSubstr(std::to_string(this_process().pid)));
}

TEST_F(JobRecordTest, EpochGrowsWithEveryCoordinator) {
  EXPECT_EQ(JobRecord(store()).take_over(kNobody).epoch, 1u);
  EXPECT_EQ(JobRecord(store()).take_over(kNobody).epoch, 2u);  // the holder is gone
  JobRecord third(store());
  EXPECT_EQ(third.take_over(this_process()).epoch, 3u);
  third.release();
  EXPECT_EQ(third.lease()->holder, ProcessId{});
  EXPECT_EQ(JobRecord(store()).take_over(this_process()).epoch, 4u);
}

TEST_F(JobRecordTest, EveryWriteOfAFencedCoordinatorIsRefused) {
  const auto old = led();
  old->put_membership({.generation = 1});
  old->put_endpoint("unix-abstract:old");
  old->change("r0", "optimizer.lr=0.1");
  JobRecord fresh(store());
  fresh.take_over(this_process(), true);
  EXPECT_FALSE(fresh.endpoint());  // the old address is not the new leader's
  const Json before = [&] {
    Json all;
    for (const Entry& entry : store()->list(""))
      all[entry.key] = entry.value;
    return all;
  }();
  for (const auto& write : std::vector<std::function<void()>>{
           [&] { old->put_membership({.generation = 9}); },
           [&] { old->put_standing({.step = 99}); },
           [&] { old->put_endpoint("unix-abstract:older"); },
           [&] { old->mark_applied(1, 5); },
           [&] {
             old->begin({"x", "y", "z"}, {});
           },
           [&] { old->scale("r1", {.workers = 3}); },
           [&] { old->stop("r2"); },
           [&] { old->change("r3", "optimizer.lr=1"); },
       }) {
    const Error error = error_of(write);
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("epoch 2"));
  }
  old->release();  // must not give up a lease that is another's
  Json after;
  for (const Entry& entry : store()->list(""))
    after[entry.key] = entry.value;
  EXPECT_EQ(after, before);
  fresh.put_membership({.generation = 2});
}

TEST_F(JobRecordTest, TwoProcessesThatTakeOverAtOnceNeverBothLead) {
  store()->put("count", "0");
  std::vector<pid_t> children;
  constexpr int kCoordinators = 3;
  constexpr int kTurns = 5;
  for (int i = 0; i < kCoordinators; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      JobRecord record(make_sqlite_store(folder_ / "job.db", {.timeout = std::chrono::seconds(60)}));
      for (int turn = 0; turn < kTurns;) {
        try {
          record.take_over(this_process(), true);
          ++turn;
          record.put_standing({.step = 1});
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::kMismatch) ::_exit(1);
        }
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  // Each success took an epoch of its own.
  EXPECT_EQ(JobRecord(store()).lease()->epoch, static_cast<std::uint64_t>(kCoordinators * kTurns));
}

TEST_F(JobRecordTest, ScaleStaysInsideTheLimits) {
  const auto leader = led({2, 4, 3, false});
  for (const int workers : {-1, 0, 1, 5}) {
    const Error error = error_of([&] { leader->scale("r" + std::to_string(workers + 1), {.workers = workers}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.what(), HasSubstr("2 to 4"));
  }
  EXPECT_EQ(leader->scale("good", {.workers = 4}).target_workers, 4);
  EXPECT_EQ(leader->wanted(), (WantedState{2, 4, 4, false}));
}

// Of a mesh for one, whose job has no range of workers that could be changed.
TEST_F(JobRecordTest, ANumberThatIsFixedIsSaidToBe) {
  const Error error = error_of([leader = led({4, 4, 4, false})] { leader->scale("r", {.workers = 2}); });
  EXPECT_THAT(error.what(), HasSubstr("is fixed: by parallel.mesh"));
}

TEST_F(JobRecordTest, ServersAreScaledInsideTheirLimitsWhereThereAreAny) {
  const auto leader = led({1, 4, 2, false, 2, 8, 3});
  for (const int servers : {0, 1, 9}) {
    const Error error = error_of([&] { leader->scale("r" + std::to_string(servers), {.servers = servers}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.what(), HasSubstr("2 to 8"));
  }
  // One that is refused in part is refused as a whole.
  EXPECT_EQ(error_of([&] { leader->scale("both", {.workers = 3, .servers = 1}); }).kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(leader->wanted(), (WantedState{1, 4, 2, false, 2, 8, 3}));
  EXPECT_EQ(leader->scale("good", {.workers = 3, .servers = 2}), (WantedState{1, 4, 3, false, 2, 8, 2}));
  EXPECT_EQ(error_of([&] { leader->scale("nothing", {}); }).kind(), ErrorKind::kInvalidInput);
}

TEST_F(JobRecordTest, AJobWithoutServersSaysSo) {
  const auto leader = led();
  const Error error = error_of([&] { leader->scale("a", {.servers = 2}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
  EXPECT_THAT(error.what(), HasSubstr("no processes of parameter servers"));
}

TEST_F(JobRecordTest, RepeatedRequestTakesEffectOnce) {
  const auto leader = led();
  EXPECT_EQ(leader->scale("a", {.workers = 3}).target_workers, 3);
  leader->scale("b", {.workers = 1});
  EXPECT_EQ(leader->scale("a", {.workers = 3}).target_workers, 3);  // as it was answered then
  EXPECT_EQ(leader->wanted().target_workers, 1);                    // and nothing was changed
  const Change first = leader->change("c", "optimizer.lr=0.1");
  const Change second = leader->change("d", "optimizer.lr=0.1");
  EXPECT_EQ(leader->change("c", "optimizer.lr=0.1"), first);
  EXPECT_THAT(leader->changes(), ElementsAre(first, second));
  EXPECT_EQ(error_of([&] { leader->change("c", "optimizer.lr=9"); }).kind(), ErrorKind::kMismatch);
  EXPECT_EQ(error_of([&] { leader->stop("c"); }).kind(), ErrorKind::kMismatch);
  EXPECT_FALSE(leader->wanted().stop);
}

TEST_F(JobRecordTest, RepeatedRequestIsKnownToTheNextCoordinator) {
  auto leader = led();
  const Change change = leader->change("c", "optimizer.lr=0.1");
  leader->release();
  JobRecord next(store());
  next.take_over(this_process());
  EXPECT_EQ(next.change("c", "optimizer.lr=0.1"), change);
  EXPECT_EQ(next.changes().size(), 1u);
}

TEST_F(JobRecordTest, RemembersABoundedNumberOfRequests) {
  const auto leader = led();
  const auto raw = store();
  // Hundreds in three transactions: each write of its own would cost a sync of the disk.
  for (const char* batch : {"a", "b", "c"}) {
    Transaction transaction;
    for (int i = 0; i < 100; ++i)
      transaction.writes.push_back({fmt::format("job/request/{}-{}", batch, i), R"({"asked":{},"answer":{}})"});
    raw->commit(transaction);
  }
  leader->stop("new");
  EXPECT_EQ(raw->list("job/request/").size(), 256u);
  EXPECT_TRUE(raw->get("job/request/new"));
  EXPECT_EQ(raw->list("job/request/a-").size(), 55u);  // the oldest go
  EXPECT_EQ(raw->list("job/request/b-").size(), 100u);
  EXPECT_EQ(raw->list("job/request/c-").size(), 100u);
}

TEST_F(JobRecordTest, ChangesAreNumberedAndKeepTheStepTheyCameAt) {
  const auto leader = led();
  for (int i = 1; i <= 11; ++i)
    EXPECT_EQ(leader->change("r" + std::to_string(i), "optimizer.lr=" + std::to_string(i)).number,
              static_cast<std::uint64_t>(i));
  leader->mark_applied(10, 77);
  const std::vector<Change> changes = JobRecord(store()).changes();
  ASSERT_EQ(changes.size(), 11u);
  EXPECT_EQ(changes[9], (Change{10, "optimizer.lr=10", 77}));
  EXPECT_EQ(changes[10].applied_at_step, std::nullopt);
  EXPECT_EQ(error_of([&] { leader->mark_applied(12, 1); }).kind(), ErrorKind::kNotFound);
}

TEST_F(JobRecordTest, ThreadsThatCommandAtOnceAllSucceed) {
  const auto leader = led();
  muster::testing::run_ranks(3, [&](int rank) {
    for (int i = 0; i < 4; ++i)
      leader->change("r" + std::to_string(rank) + "-" + std::to_string(i), "optimizer.lr=1");
  });
  const std::vector<Change> changes = leader->changes();
  ASSERT_EQ(changes.size(), 12u);
  for (std::size_t i = 0; i < changes.size(); ++i)
    EXPECT_EQ(changes[i].number, i + 1);
}

TEST_F(JobRecordTest, RefusesRequestIdsThatAreNoWords) {
  const auto leader = led();
  for (const std::string& id : {std::string(), std::string("a/b"), std::string("A"), std::string(65, 'a')})
    EXPECT_EQ(error_of([&] { leader->stop(id); }).kind(), ErrorKind::kInvalidInput) << id;
}

TEST_F(JobRecordTest, DamagedValuesAreNamed) {
  const auto raw = store();
  for (const char* value : {"", "[]", "{}", R"({"generation":-1,"members":[]})", R"({"generation":1,"members":{}})",
                            R"({"generation":1})", R"({"generation":1,"members":[{"rank":0}]})"}) {
    raw->put("job/membership", value);
    const Error error = error_of([&] { JobRecord(store()).membership(); });
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged) << value;
    EXPECT_THAT(error.what(), HasSubstr("job/membership"));
  }
}

TEST(TakeOver, IsDecidedByWhatIsKnownOfTheHolder) {
  const Lease held{{42, 1}, 3};
  EXPECT_TRUE(decide_take_over(std::nullopt, ProcessState::kRunning).allowed);
  EXPECT_TRUE(decide_take_over(Lease{{}, 3}, ProcessState::kRunning).allowed);
  EXPECT_TRUE(decide_take_over(held, ProcessState::kGone).allowed);
  EXPECT_FALSE(decide_take_over(held, ProcessState::kRunning).allowed);
  EXPECT_FALSE(decide_take_over(held, ProcessState::kStopped).allowed);
  EXPECT_THAT(decide_take_over(held, ProcessState::kStopped).reason, HasSubstr("42"));
}

}  // namespace
}  // namespace muster::control
