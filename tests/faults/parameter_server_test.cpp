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
    const Finished result = train(2, {"parallel.servers=2"});
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
  // Who gets a lane of a step is chance; of several steps everybody gets one.
  std::string rules = "server.push.before_reply=kill@rank=0,attempt=0,call=30";
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
}

}  // namespace
}  // namespace muster
