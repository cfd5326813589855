// A job whose number of workers, or of parameter servers, changes while it trains, by the commands that people use: the
// result stays.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::train_arguments;

class Elastic : public ::testing::Test {
 protected:
  Elastic() {
    testing::spill(folder_ / "job.toml", testing::small_job("elastic", {"job.epochs=", "data.samples=6400"}));
  }

  // A command to the job, which prints into the other folder.
  Finished command(std::vector<std::string> arguments) const {
    const testing::TemporaryFolder aside;
    arguments.insert(arguments.end(), {"--runs", (folder_ / "runs").string()});
    return run_program(aside.path(), std::move(arguments));
  }
  Json status() const {
    const Finished result = command({"status", "elastic", "--json"});
    return result.exit_code == 0 ? rows(result.out).back() : Json();
  }
  // The status once so many workers train.
  Json wait_for_workers(std::size_t count) const {
    Json now;
    EXPECT_TRUE(testing::eventually([&] {
      now = status();
      return now.is_object() && running(now) == count;
    })) << "there are no "
        << count << " workers: " << now << "\n"
        << testing::slurp(folder_ / "stderr");
    return now;
  }
  static std::size_t running(const Json& status) {
    std::size_t count = 0;
    for (const Json& member : status.at("members"))
      count += member.at("state") == "running" ? 1 : 0;
    return count;
  }
  // Until so many servers are there, and none is on its way out.
  void wait_for_servers(int count) const {
    Json now;
    EXPECT_TRUE(testing::eventually([&] {
      now = status();
      return now.is_object() && now.at("servers").at("serving") == count && now.at("servers").at("leaving") == 0;
    })) << "there are no "
        << count << " servers: " << now << "\n"
        << testing::slurp(folder_ / "stderr");
  }
  // The checkpoint of that step has the weights of as many steps by one worker of shared_sync, in one go.
  void expect_undisturbed_weights(std::uint64_t step, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"job.runs=undisturbed", fmt::format("job.steps={}", step)});
    const Finished undisturbed = run_program(folder_.path(), train_arguments("1", more));
    ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.err;
    std::string file;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "runs")) {
      if (entry.path().filename() == "model.safetensors" &&
          entry.path().parent_path().filename() == fmt::format("step-{:012}", step))
        file = testing::slurp(entry.path());
    }
    ASSERT_FALSE(file.empty());
    EXPECT_TRUE(file == model(undisturbed)) << "the files of the weights differ";
  }
  // A worker that serves holds a part of the model: two of four that are told to go must not take it with them.
  void workers_that_serve_come_and_go(const std::string& copies) {
    std::uint64_t step = 0;
    {
      const testing::Failpoints slow("parameter_server.push.before=delay=10");
      Program program(folder_.path(),
                      train_arguments("2:4", {"parallel.strategy=parameter_server", "parallel.servers=0",
                                              "parallel.copies=" + copies, "job.steps=100000"}));
      wait_for_workers(4);
      ASSERT_EQ(command({"scale", "elastic", "2"}).exit_code, 0);
      const Json two = wait_for_workers(2);
      ASSERT_EQ(command({"scale", "elastic", "4"}).exit_code, 0);
      const Json again = wait_for_workers(4);
      ASSERT_TRUE(two.is_object() && again.is_object());
      EXPECT_LT(two.at("step"), again.at("step")) << "it trains meanwhile";
      ASSERT_EQ(command({"stop", "elastic"}).exit_code, 0);
      const Finished end = program.wait();
      ASSERT_TRUE(rows(end.out).back().contains("step")) << end.out << end.err;
      step = rows(end.out).back().at("step");
    }
    expect_undisturbed_weights(step);
  }
  void servers_come_and_go(int copies) {
    const std::vector<std::string> larger{"model.hidden=[256, 256]"};
    std::vector<std::string> wanted{"parallel.strategy=parameter_server", "parallel.servers=2", "parallel.chunk_kb=64",
                                    fmt::format("parallel.copies={}", copies), "job.steps=100000"};
    wanted.insert(wanted.end(), larger.begin(), larger.end());
    std::uint64_t step = 0;
    {
      const testing::Failpoints slow("parameter_server.push.before=delay=5");
      Program program(folder_.path(), train_arguments("2", wanted));
      ASSERT_TRUE(wait_for_workers(2).is_object());
      wait_for_servers(2);
      for (const int wrong : {copies - 1, 9}) {
        const Finished refused = command({"scale", "elastic", "--servers", std::to_string(wrong)});
        EXPECT_EQ(refused.exit_code, 2);
        EXPECT_THAT(refused.err, HasSubstr(fmt::format("{} to 8", copies)));
      }
      for (const int servers : {3, copies}) {
        const Json before = status();
        ASSERT_EQ(command({"scale", "elastic", "--servers", std::to_string(servers)}).exit_code, 0);
        wait_for_servers(servers);
        EXPECT_LT(before.at("step"), status().at("step")) << "it trains meanwhile";
      }
      EXPECT_THAT(command({"status", "elastic"}).out, HasSubstr(fmt::format("servers      {0} of {0}\n", copies)));
      ASSERT_EQ(command({"stop", "elastic"}).exit_code, 0);
      const Finished end = program.wait();
      EXPECT_THAT(end.err, HasSubstr("parameter server 2 has left"));
      EXPECT_THAT(end.err, ::testing::Not(HasSubstr("lost")));
      step = rows(end.out).back().at("step");
    }
    expect_undisturbed_weights(step, larger);
  }

  // Of the checkpoint with which a run ended.
  std::string model(const Finished& run) const {
    return testing::slurp(folder_ / rows(run.out).back().at("checkpoint").get<std::string>() / "model.safetensors");
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Elastic, ShrinkingGrowingStoppingAndResumingChangeSpeedAndNotTheResult) {
  std::uint64_t step = 0;
  {
    // So slow that the commands meet it at work.
    const testing::Failpoints slow("arena.commit.before_flip=delay=10");
    Program program(folder_.path(), train_arguments("1:3", {"job.steps=100000"}));
    const Json all = wait_for_workers(3);
    ASSERT_TRUE(all.is_object());
    EXPECT_EQ(all.at("workers"), (Json{{"min", 1}, {"max", 3}, {"target", 3}}));
    const Finished refused = command({"scale", "elastic", "4"});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("1 to 3"));
    const Finished no_servers = command({"scale", "elastic", "--servers", "2"});
    EXPECT_EQ(no_servers.exit_code, 2);
    EXPECT_THAT(no_servers.err, HasSubstr("no processes of parameter servers"));
    EXPECT_EQ(command({"scale", "elastic"}).exit_code, 2);

    ASSERT_EQ(command({"scale", "elastic", "1"}).exit_code, 0);
    const Json alone = wait_for_workers(1);
    ASSERT_EQ(command({"scale", "elastic", "3"}).exit_code, 0);
    const Json again = wait_for_workers(3);
    EXPECT_LT(all.at("step"), alone.at("step"));
    EXPECT_LT(alone.at("step"), again.at("step")) << "it trains meanwhile";
    EXPECT_LT(all.at("generation"), alone.at("generation"));
    EXPECT_LT(alone.at("generation"), again.at("generation"));

    const Finished stop = command({"stop", "elastic"});
    ASSERT_EQ(stop.exit_code, 0) << stop.err;
    EXPECT_THAT(stop.out, HasSubstr("stopped at step"));
    const Finished ended = program.wait();
    step = rows(ended.out).back().at("step");
    EXPECT_GT(step, again.at("step"));
  }
  const std::string steps = fmt::format("job.steps={}", step + 20);
  const Finished resumed = run_program(folder_.path(), train_arguments("1:3", {"--resume", steps}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const std::string changed = model(resumed);
  const Finished undisturbed = run_program(folder_.path(), train_arguments("1", {"job.runs=undisturbed", steps}));
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.err;
  EXPECT_EQ(rows(resumed.out).back().at("weights"), rows(undisturbed.out).back().at("weights"));
  ASSERT_FALSE(changed.empty());
  EXPECT_TRUE(changed == model(undisturbed)) << "the files of the weights differ";
}

// What `muster init` writes has one worker.
TEST_F(Elastic, OneWorkerIsAJobLikeAnyOther) {
  const testing::Failpoints slow("arena.commit.before_flip=delay=10");
  Program program(folder_.path(), train_arguments(1, {"job.steps=100000"}));
  const Json before = wait_for_workers(1);
  ASSERT_TRUE(before.is_object());
  EXPECT_EQ(before.at("workers"), (Json{{"min", 1}, {"max", 1}, {"target", 1}}));

  // Nobody else can train into the same folder meanwhile.
  const std::filesystem::path run = std::filesystem::directory_iterator(folder_ / "runs")->path();
  for (const std::vector<std::string>& which : {std::vector<std::string>{"--resume"}, {"--run", run.string()}}) {
    const testing::TemporaryFolder aside;
    std::vector<std::string> arguments{"train", (folder_ / "job.toml").string(), "--set",
                                       "job.runs=" + (folder_ / "runs").string()};
    arguments.insert(arguments.end(), which.begin(), which.end());
    const Finished second = run_program(aside.path(), arguments);
    EXPECT_EQ(second.exit_code, 2) << second.err;
    EXPECT_THAT(second.err, HasSubstr("coordinates the job and runs"));
  }

  EXPECT_EQ(command({"set", "elastic", "optimizer.lr=0.01"}).exit_code, 0);
  ASSERT_EQ(::kill(before.at("members")[0].at("pid").get<pid_t>(), SIGKILL), 0);
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  Json after = before;
  while (after.at("members")[0].at("pid") == before.at("members")[0].at("pid") && !deadline.passed())
    after = wait_for_workers(1);
  EXPECT_EQ(after.at("members")[0].at("restarts"), 1);
  EXPECT_GE(after.at("step"), before.at("step"));
  const Finished stop = command({"stop", "elastic"});
  EXPECT_EQ(stop.exit_code, 0) << stop.err;
  const Finished ended = program.wait();
  EXPECT_EQ(rows(ended.out).back().at("event"), "interrupted");
  EXPECT_FALSE(rows(ended.out).back().at("checkpoint").get<std::string>().empty());
}

TEST_F(Elastic, WorkersThatServeComeAndGoAndTakeNothingWithThem) {
  workers_that_serve_come_and_go("2");
}

TEST_F(Elastic, WorkersThatServeComeAndGoAndTakeNothingWithThemEvenTheOnlyCopy) {
  workers_that_serve_come_and_go("1");
}

TEST_F(Elastic, ServersComeAndGoWhileItTrainsAndTheResultStays) {
  servers_come_and_go(2);
}

TEST_F(Elastic, ServersComeAndGoWithTheOnlyCopyAndTheResultStays) {
  servers_come_and_go(1);
}

}  // namespace
}  // namespace muster
