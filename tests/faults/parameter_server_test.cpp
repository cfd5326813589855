// muster train with parameter servers: workers and servers that are killed, resuming, and what is promised of the
// result.
#include <signal.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/random.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::expect_same_end;
using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::train_arguments;

constexpr int kSteps = 16;     // of the job: 2 epochs of 8 steps
constexpr int kLanes = 4 * 8;  // of an epoch

class ParameterServers : public ::testing::Test {
 protected:
  ParameterServers() {
    testing::spill(folder_ / "job.toml", testing::stateful_job("served", {"parallel.strategy=\"parameter_server\""}));
  }

  Finished train(int workers, std::vector<std::string> more = {}) {
    return run_program(folder_.path(), train_arguments(workers, more));
  }
  Json by_shared_sync() {
    testing::spill(folder_ / "plain.toml", testing::stateful_job("plain"));
    const Finished result = run_program(folder_.path(), {"train", "plain.toml", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return rows(result.out).back();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ParameterServers, WithBspTheResultIsThatOfSharedSync) {
  const Json expected = by_shared_sync();
  expect_same_end(train(1), expected, "one worker, one server");
  expect_same_end(train(3, {"parallel.servers=2", "parallel.copies=2"}), expected, "three workers, two servers");
  expect_same_end(train(2, {"parallel.servers=0"}), expected, "every worker serves");
  expect_same_end(train(2, {"parallel.servers=2", "parallel.transport=grpc"}), expected, "over gRPC");
  expect_same_end(train(2, {"parallel.servers=0", "parallel.transport=grpc"}), expected, "over gRPC, co-located");
}

TEST_F(ParameterServers, AWorkerThatIsKilledAnywhereInAStepChangesNoBitOfBsp) {
  const Json expected = by_shared_sync();
  // Who ends a step is chance: there it may be any of them, one after the other.
  for (const char* rule : {"parameter_server.push.before=kill@rank=1,step=3,attempt=0;parameter_server.push.before_"
                           "book=kill@rank=0,step=6,attempt=0",
                           "parameter_server.finish.before_apply=kill@step=3,attempt=0",
                           "parameter_server.finish.before_book=kill@step=5,attempt=0"}) {
    const testing::Failpoints armed(rule);
    const Finished result = train(2, {"parallel.servers=2", "parallel.claims=static"});
    expect_same_end(result, expected, rule);
    EXPECT_THAT(result.err, HasSubstr("is lost")) << rule << ": nobody was killed";
  }
}

TEST_F(ParameterServers, AServerThatIsKilledChangesNoBitOfBsp) {
  const Json expected = by_shared_sync();
  for (const char* point : {"server.push.before_copies", "server.push.before_reply", "server.copy.before_reply"}) {
    const testing::Failpoints armed(fmt::format("{}=kill@rank=1,attempt=0,call=40", point));
    const Finished result = train(2, {"parallel.servers=3", "parallel.copies=2", "parallel.chunk_kb=64"});
    expect_same_end(result, expected, point);
    EXPECT_THAT(result.err, HasSubstr("parameter server 1 ")) << point << ": it was not killed";
  }
}

TEST_F(ParameterServers, AServerThatIsKilledChangesNoBitOfBspOverGrpcEither) {
  const Json expected = by_shared_sync();
  const testing::Failpoints armed("server.push.before_reply=kill@rank=1,attempt=0,call=40");
  const Finished result =
      train(2, {"parallel.servers=3", "parallel.copies=2", "parallel.chunk_kb=64", "parallel.transport=grpc"});
  expect_same_end(result, expected, "over gRPC");
  EXPECT_THAT(result.err, HasSubstr("parameter server 1 ")) << "it was not killed";
}

TEST_F(ParameterServers, WhoeverIsKilledUnderAspEveryLaneIsAppliedOnce) {
  // Who gets a lane of a step is chance; of several steps everybody gets one, where the others dawdle at the first.
  std::string rules = "server.push.before_reply=kill@rank=0,attempt=0,call=30";
  for (const char* others : {"rank=0,step=2", "rank=2,step=2", "rank=1,step=8", "rank=2,step=8"})
    rules += fmt::format(";parameter_server.push.before=delay=1000@{},call=0", others);
  for (int step = 2; step < 8; ++step)
    rules += fmt::format(";parameter_server.push.before_book=kill@rank=1,step={},attempt=0", step);
  for (int step = 8; step < 16; ++step)
    rules += fmt::format(";parameter_server.push.before=kill@rank=0,step={},attempt=0", step);
  const testing::Failpoints armed(rules);
  const Finished result =
      train(3, {"parallel.consistency=asp", "parallel.servers=2", "parallel.copies=2", "job.ledger=true"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json end = rows(result.out).back();
  EXPECT_EQ(end.at("step"), kSteps);
  EXPECT_EQ(end.at("servers").at("updates"), 2 * kLanes);
  EXPECT_THAT(result.err, HasSubstr("worker 1 "));
  EXPECT_THAT(result.err, HasSubstr("worker 0 "));
  EXPECT_THAT(result.err, HasSubstr("parameter server 0 "));
}

// The leader is slow: it hears of many lanes at once, and then of none.
TEST_F(ParameterServers, RowsOfMetricsUnderAspTellOfWhatWasTrained) {
  const testing::Failpoints armed("parameter_server.push.before=delay=60@rank=0");
  const Finished result = train(2, {"parallel.consistency=asp"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::filesystem::path run = folder_.path() / rows(result.out).back().at("run").get<std::string>();
  int steps = 0;
  for (const Json& row : rows(testing::slurp(run / "metrics.jsonl"))) {
    if (row.at("event") != "step") continue;
    ++steps;
    EXPECT_GT(row.at("samples").get<int>(), 0) << row;
    EXPECT_GT(row.at("loss").get<double>(), 0) << row;
  }
  EXPECT_GT(steps, 1);
}

TEST_F(ParameterServers, WorkersThatServeSurviveTheLossOfOne) {
  const Json expected = by_shared_sync();
  const testing::Failpoints armed("parameter_server.push.before_book=kill@rank=1,step=5,attempt=0");
  expect_same_end(train(3, {"parallel.servers=0", "parallel.copies=2"}), expected, "co-located");
}

// Which steps a worker has lanes of depends on how fast it is: it is killed in the first of these, at the beginning of
// which the other one takes its time.
std::string in_the_first_step_of(const std::vector<int>& steps) {
  std::string rules = fmt::format("parameter_server.push.before=delay=1000@rank=0,step={},call=0", steps.front());
  for (const int step : steps)
    rules += fmt::format(";parameter_server.push.before_book=kill@rank=1,step={},attempt=0", step);
  return rules;
}

// Its part goes back to what it had written down, and the lanes since then are computed again: every part of the model
// has every lane once in the end, and what was lost on the way is counted.
TEST_F(ParameterServers, ALostServerWithoutCopiesGoesOnFromItsSnapshot) {
  struct Case {
    const char* what;
    std::string rule;
    std::vector<std::string> keys;
  };
  const std::vector<Case> cases{
      {"only-server", "server.push.before_copies=kill@attempt=0,call=90", {"parallel.consistency=ssp"}},
      {"first-of-two",
       "server.push.before_copies=kill@rank=0,attempt=0,call=40",
       {"parallel.consistency=asp", "parallel.servers=2", "parallel.chunk_kb=64"}},
      {"second-of-two",
       "server.push.before_copies=kill@rank=1,attempt=0,call=40",
       {"parallel.consistency=ssp", "parallel.servers=2", "parallel.chunk_kb=64"}},
      {"worker-that-serves",
       in_the_first_step_of({3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15}),
       {"parallel.consistency=asp", "parallel.servers=0", "parallel.chunk_kb=64"}}};
  for (const Case& one : cases) {
    const testing::Failpoints armed(one.rule);
    const std::filesystem::path events = folder_.path() / one.what;
    std::vector<std::string> keys = one.keys;
    // Written down at the beginning and at the validation between the epochs, and then no more.
    keys.insert(keys.end(), {"parallel.snapshot_seconds=1000", "job.ledger=true",
                             fmt::format("parallel.event_log=\"{}\"", events.string())});
    const Finished result = train(2, keys);
    ASSERT_EQ(result.exit_code, 0) << one.what << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("is lost")) << one.what << ": nobody was killed";
    const Json end = rows(result.out).back();
    EXPECT_EQ(end.at("step"), kSteps);
    EXPECT_EQ(end.at("servers").at("updates"), 2 * kLanes) << one.what << ": " << end << result.err;
    // The log has a lane as often as it came into the book: once more for each time that it was lost. The last push
    // before the server died was in the log perhaps, and never acknowledged.
    const auto lost = end.at("servers").at("lost_updates").get<int>();
    int again = -2 * kLanes;
    for (const Json& event : rows(testing::slurp(events)))
      again += event.at("event") == "push" ? 1 : 0;
    // How much a server lost is known from what it had acknowledged to those who live: a worker that serves takes with
    // it what was acknowledged to itself alone.
    const bool told_by_all = one.what != std::string_view("worker-that-serves");
    EXPECT_GE(lost, told_by_all ? 1 : 0) << one.what << ": nothing was lost\n" << result.err;
    EXPECT_TRUE(again >= lost && (!told_by_all || again <= lost + 1))
        << one.what << ": " << again << " and not " << lost << result.err;
    const std::string run = end.at("run");
    for (const Json& row : rows(testing::slurp(folder_.path() / run / "metrics.jsonl"))) {
      if (row.at("event") == "step") {
        EXPECT_LE(row.at("samples").get<double>(), 500) << one.what << ": " << row;
      }
    }
    const Finished ledger = run_program(folder_.path(), {"ledger", "check", run});
    EXPECT_EQ(ledger.exit_code, 0) << one.what << ": " << ledger.out << ledger.err;
  }
}

// Written down again and again while it trains, so that a server goes back to any moment.
TEST_F(ParameterServers, ALostServerGoesOnFromASnapshotOfAnyMoment) {
  for (const int call : {10, 25, 60}) {
    const testing::Failpoints armed(fmt::format("server.push.before_copies=kill@rank=0,attempt=0,call={}", call));
    const Finished result = train(2, {"parallel.consistency=asp", "parallel.servers=2", "parallel.chunk_kb=64",
                                      "parallel.snapshot_seconds=0.02", "job.ledger=true"});
    ASSERT_EQ(result.exit_code, 0) << call << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("parameter server 0 ")) << call << ": it was not killed";
    const Json end = rows(result.out).back();
    EXPECT_EQ(end.at("step"), kSteps);
    EXPECT_EQ(end.at("servers").at("updates"), 2 * kLanes) << call << ": " << end << result.err;
    EXPECT_LE(end.at("servers").at("lost_updates").get<int>(), 2 * kLanes) << "a total that ran below zero";
    const Finished ledger = run_program(folder_.path(), {"ledger", "check", end.at("run")});
    EXPECT_EQ(ledger.exit_code, 0) << call << ": " << ledger.out << ledger.err;
  }
}

// A server that can never start is no reason to wait for ever.
TEST_F(ParameterServers, ServersThatCannotStartEndTheJobWithWhatTheySaid) {
  const testing::Failpoints armed("server.start=error");
  const Finished result = train(2, {"parallel.servers=1"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err,
              ::testing::AllOf(HasSubstr("parameter server 0 has failed 5 times in a row"),
                               HasSubstr("before the job could begin; the last time: "), HasSubstr("server.start")));
}

TEST_F(ParameterServers, AResumedRunEndsAsOneThatWentOn) {
  ASSERT_EQ(train(2, {"job.epochs=1", "optimizer.schedule=constant", "job.runs=there"}).exit_code, 0);
  const std::vector<std::string> constant{"optimizer.schedule=constant", "job.runs=whole"};
  const Json whole = rows(train(2, constant).out).back();
  const Finished resumed = train(2, {"--resume", "job.runs=there", "optimizer.schedule=constant"});
  expect_same_end(resumed, whole, "resumed");
}

TEST_F(ParameterServers, WithBackupsTheSlowLaneIsDroppedAndCounted) {
  const testing::Failpoints armed("parameter_server.push.before=delay=300@rank=1");
  const Finished result = train(2, {"parallel.consistency=backup", "parallel.backups=2", "parallel.claims=static"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json counted = rows(result.out).back().at("servers");
  EXPECT_EQ(counted.at("updates"), kSteps);
  // It is still at a lane of the first steps when the last one is over; how many it has done until then is chance.
  EXPECT_GE(counted.at("dropped").get<int>(), 1);
}

TEST_F(ParameterServers, WrongKeysAreNamed) {
  const Finished copies = train(2, {"parallel.copies=2"});
  EXPECT_EQ(copies.exit_code, 2);
  EXPECT_THAT(copies.err, HasSubstr("parallel.copies"));
  const Finished words = train(2, {"parallel.consistency=bps"});
  EXPECT_EQ(words.exit_code, 2);
  EXPECT_THAT(words.err, HasSubstr("bsp"));
  const Finished transport = train(2, {"parallel.transport=tcp"});
  EXPECT_EQ(transport.exit_code, 2);
  EXPECT_THAT(transport.err, HasSubstr("grpc"));
  const Finished other = train(2, {"parallel.strategy=shared_sync", "parallel.staleness=9"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("parameter_server"));
  struct Row {
    std::vector<std::string> keys;
    const char* words;
  };
  const std::vector<Row> table{
      {{"parallel.staleness=9"}, "parallel.staleness: has no effect with consistency"},
      {{"parallel.consistency=asp", "parallel.backups=2"}, "parallel.backups: has no effect with consistency"},
      {{"parallel.staleness_rate=true"}, "parallel.staleness_rate: has no effect with consistency"},
      {{"parallel.snapshot_seconds=1"}, "parallel.snapshot_seconds: cannot go with bsp"},
      {{"parallel.consistency=asp:3, bsp", "parallel.snapshot_seconds=1"}, "copies = 2"},
      {{"parallel.consistency=asp", "parallel.snapshot_seconds=1", "parallel.servers=2", "parallel.copies=2"},
       "has no effect with copies"}};
  for (const Row& row : table) {
    const Finished refused = train(2, row.keys);
    EXPECT_EQ(refused.exit_code, 2) << row.words;
    EXPECT_THAT(refused.err, HasSubstr(row.words));
  }
}

}  // namespace
}  // namespace muster
