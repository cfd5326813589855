// Tables of what follows for whoever would go on in the place of a coordinator that is gone.
#include "muster/coordinator/take_over_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::coordinator {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

control::LedCluster led() {
  return {.identity = "job",
          .term = 4,
          .listen = "10.0.0.1:7400",
          .relay = "relay",
          .interface = "eth0",
          .arguments = {"--quiet"},
          .agreed = {{"agreement/files", "these"}}};
}

JobTakenOver usual() {
  JobTakenOver job;
  job.run = "runs/far";
  job.of_a_file = true;
  job.replaces_workers = true;
  job.cluster = led();
  return job;
}

TEST(ObstacleOfJob, OnlyWhatANextCoordinatorCannotKeepUpIsRefused) {
  struct Row {
    const char* what;
    void (*change)(JobTakenOver&);
    const char* remedy;  // null: it can be taken over
  };
  const Row rows[] = {
      {"as usual", [](JobTakenOver&) {}, nullptr},
      {"a fixed group", [](JobTakenOver& job) { job.replaces_workers = false; }, "orphan_seconds"},
      {"servers", [](JobTakenOver& job) { job.needs_servers = true; }, "orphan_seconds"},
      {"data of other hosts", [](JobTakenOver& job) { job.data_from_hosts = true; }, "orphan_seconds"},
      {"a program", [](JobTakenOver& job) { job.of_a_file = false; }, "what the program has kept"},
  };
  for (const Row& row : rows) {
    JobTakenOver job = usual();
    row.change(job);
    const std::optional<Error> obstacle = obstacle_of_job(job);
    ASSERT_EQ(obstacle.has_value(), row.remedy != nullptr) << row.what;
    if (obstacle) {
      EXPECT_EQ(obstacle->kind(), ErrorKind::kUnsupported) << row.what;
      EXPECT_EQ(obstacle->where(), "runs/far");
      EXPECT_THAT(obstacle->remedy(), HasSubstr(row.remedy)) << row.what;
    }
    job.cluster.reset();
    EXPECT_FALSE(obstacle_of_job(job)) << row.what << ": of one host everything is here";
  }
}

TEST(HasPart, BelongsToTheHostOfTheLastCoordinatorAndToThoseWithAnAgent) {
  const control::Lease here{{12, 34}, 2, "here"};
  EXPECT_TRUE(has_part(here, "here", false));
  EXPECT_FALSE(has_part(here, "there", false));
  EXPECT_TRUE(has_part(here, "there", true));
  EXPECT_FALSE(has_part(std::nullopt, "here", false));
  EXPECT_FALSE(has_part(control::Lease{{12, 34}, 2, ""}, "here", false)) << "nobody knows where it was";
}

TEST(JudgeHolder, EndsWhoLivesHereAndIsNotThisProcess) {
  const ProcessId self{7, 70};
  const ProcessId other{12, 34};
  struct Row {
    const char* what;
    std::optional<control::Lease> holder;
    bool lives;
    bool end;
    const char* reason;
  };
  const Row rows[] = {
      {"nobody ever", std::nullopt, false, false, "nobody"},
      {"released", control::Lease{{}, 3, "here"}, false, false, "nobody"},
      {"lives here", control::Lease{other, 3, "here"}, true, true, "process 12 is ended"},
      {"gone", control::Lease{other, 3, "here"}, false, false, "gone"},
      {"its number lives here, it does not", control::Lease{other, 3, "there"}, true, false, "another machine"},
      {"nobody knows where", control::Lease{other, 3, ""}, true, false, "another machine"},
      {"an agent that has become this one", control::Lease{self, 3, "here"}, true, false, "become this process"},
  };
  for (const Row& row : rows) {
    const HolderVerdict verdict = judge_holder(row.holder, self, "here", row.lives);
    EXPECT_EQ(verdict.end, row.end) << row.what;
    EXPECT_THAT(verdict.reason, HasSubstr(row.reason)) << row.what;
  }
}

TEST(ObstacleOfPlace, IsToldBeforeAnybodyIsEnded) {
  struct Row {
    const char* what;
    bool several;
    LeadView view;
    std::optional<ErrorKind> refused;
    const char* message;
  };
  const Row rows[] = {
      {"one host", false, {}, std::nullopt, ""},
      {"one host whose record is elsewhere", false, {.moves = true}, std::nullopt, ""},
      {"one host that is to listen", false, {.listen = "a:1"}, ErrorKind::kInvalidInput, "nobody could join"},
      {"the coordinator's host", true, {}, std::nullopt, ""},
      {"the same, somewhere else", true, {.listen = "a:1"}, std::nullopt, ""},
      {"an agent's host", true, {.moves = true, .listen = "a:1"}, std::nullopt, ""},
      {"that nobody would find", true, {.moves = true}, ErrorKind::kInvalidInput, "where should the others find it?"},
      {"elected, and nobody would find it",
       true,
       {.moves = true, .elected = true},
       ErrorKind::kInvalidInput,
       "where should the others find it?"},
      {"a coordinator that lives",
       true,
       {.moves = true, .listen = "a:1", .answering = "b:2"},
       ErrorKind::kMismatch,
       "answers, at b:2"},
      {"one that lives and was not elected",
       true,
       {.moves = true, .elected = true, .listen = "a:1", .answering = "b:2"},
       std::nullopt,
       ""},
  };
  for (const Row& row : rows) {
    JobTakenOver job = usual();
    if (!row.several) job.cluster.reset();
    const std::optional<Error> obstacle = obstacle_of_place(job, row.view);
    ASSERT_EQ(obstacle.has_value(), row.refused.has_value()) << row.what;
    if (!obstacle) continue;
    EXPECT_EQ(obstacle->kind(), *row.refused) << row.what;
    EXPECT_THAT(obstacle->message(), HasSubstr(row.message)) << row.what;
    EXPECT_FALSE(obstacle->remedy().empty()) << row.what;
  }
}

TEST(NextLead, HasTheNextTermAndKeepsWhatNobodyHasSaid) {
  const Lead same = next_lead(led(), {});
  control::LedCluster expected = led();
  expected.term = 5;
  EXPECT_EQ(same.cluster, expected);
  EXPECT_EQ(same.listen, "10.0.0.1:7400");
  EXPECT_EQ(same.interface, "eth0");
  const Lead moved = next_lead(led(), {.moves = true, .listen = "10.0.0.2:7400", .interface = "eth1"});
  EXPECT_EQ(moved.cluster, expected) << "as the one before has left it, but for the term";
  EXPECT_EQ(moved.listen, "10.0.0.2:7400");
  EXPECT_EQ(moved.interface, "eth1");
}

TEST(EtcdThatDecides, IsTheOneThatWasAskedForElseTheRunsOwn) {
  control::EtcdOptions given;
  given.prefix = "asked";
  control::EtcdOptions pointed;
  pointed.prefix = "muster/jobs/far-1";
  EXPECT_FALSE(etcd_that_decides(std::nullopt, std::nullopt));
  EXPECT_EQ(etcd_that_decides(given, std::nullopt)->prefix, "asked");
  EXPECT_EQ(etcd_that_decides(given, pointed)->prefix, "asked");
  EXPECT_EQ(etcd_that_decides(std::nullopt, pointed)->prefix, "muster/jobs") << "without the name of the run";
}

TEST(LeadsForCertain, WhoHadTheEtcdsWordInTheSecondHalfOfASilence) {
  struct Row {
    std::chrono::nanoseconds left, lease, patience;
    bool certain;
  };
  const Row rows[] = {
      {1ns, 5s, 0s, true},      // one host: the lease alone counts
      {0s, 5s, 0s, false},      // it has ended
      {2501ms, 5s, 5s, true},   // heard of 2.499 s ago
      {2500ms, 5s, 5s, false},  // heard of half a silence ago
      {1ns, 5s, 10s, true},     // half a silence is the whole lease
      {1ns, 5s, 60s, true},     // and more than it
      {0s, 5s, 60s, false},     // which is no excuse
  };
  for (const Row& row : rows)
    EXPECT_EQ(leads_for_certain(row.left, row.lease, row.patience), row.certain)
        << row.left.count() << " ns left, patience " << row.patience.count();
}

}  // namespace
}  // namespace muster::coordinator
