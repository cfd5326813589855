// kill -9 of the tuner, or of everything it has started, at any moment: no finished trial is lost, none is trained
// twice to its end, and what is proposed after it is what would have been proposed.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/clock.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::slurp;
using testing::spill;

class TuneKillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    spill(folder_ / "job.toml", testing::stateful_job("job", {"job.epochs=3"}));
    for (const char* name : {"straight", "killed"})
      spill(folder_ / fmt::format("{}.toml", name),
            "[study]\njob = \"job.toml\"\nobjective = \"loss\"\nkeep = \"all\"\n[budget]\ntrials = 6\n"
            "[trials]\nparallel = 1\n[search]\nname = \"tpe\"\n[space]\noptimizer.lr = { log = [1e-3, 0.1] }\n"
            "optimizer.momentum = { uniform = [0.0, 0.9] }\n");
  }
  std::vector<Json> trials_of(const std::string& study) {
    std::vector<Json> all = rows(run_program(folder_.path(), {"tune", "show", study, "--json"}).out);
    if (!all.empty()) all.erase(all.begin());
    return all;
  }
  // Trials that have ended, as they stand in the store.
  std::map<int, Json> ended_in(const std::string& study) {
    std::map<int, Json> ended;
    for (const Json& trial : trials_of(study)) {
      if (trial.at("state") == "finished") ended[trial.at("trial").get<int>()] = trial;
    }
    return ended;
  }

  std::vector<std::string> arguments() const {
    std::vector<std::string> words{"tune", "killed.toml", "-q"};
    if (std::filesystem::exists(folder_ / "studies/killed/study.db")) words.emplace_back("--resume");
    return words;
  }
  std::filesystem::path trial(int number) const { return folder_ / fmt::format("studies/killed/trials/{:04}", number); }
  // The tuner, the launchers of its trials and their workers.
  static void kill_all_of(Program& tuner) {
    std::vector<pid_t> all = testing::children_of(tuner.pid());
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const pid_t child : testing::children_of(all[i]))
        all.push_back(child);
    testing::kill_everything(tuner);
    for (const pid_t process : all)
      ::kill(process, SIGKILL);
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(TuneKillTest, NothingIsLostNothingIsDoneTwiceAndTheProposalsStay) {
  const Finished straight = run_program(folder_.path(), {"tune", "straight.toml", "-q"});
  ASSERT_EQ(straight.exit_code, 0) << straight.err;
  std::map<int, Json> before;
  for (int turn = 0; turn < 5; ++turn) {
    Program tuner(folder_.path(), arguments());
    // From the moment on in which a trial of this turn has something to lose.
    ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(trial(turn) / "metrics.jsonl"); }))
        << tuner.err();
    // sleeps: a kill at any moment is what is tested; the moments differ from turn to turn
    system_clock().sleep_for(std::chrono::milliseconds(90 * turn));
    if (turn % 2 == 0) {
      tuner.signal(SIGKILL);
      tuner.wait();
    } else {
      kill_all_of(tuner);
    }
    const std::map<int, Json> after = ended_in("killed");
    for (const auto& [number, row] : before)
      EXPECT_TRUE(after.contains(number) && after.at(number) == row) << "trial " << number << " was lost or changed";
    before = after;
  }
  const Finished last = run_program(folder_.path(), arguments());
  ASSERT_EQ(last.exit_code, 0) << last.err;
  const std::vector<Json> expected = trials_of("straight");
  const std::vector<Json> found = trials_of("killed");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].at("values"), expected[i].at("values")) << "trial " << i;
    EXPECT_EQ(found[i].at("loss"), expected[i].at("loss")) << "trial " << i;
    EXPECT_EQ(found[i].at("state"), "finished");
    const std::vector<Json> metrics = rows(slurp(trial(static_cast<int>(i)) / "metrics.jsonl"));
    EXPECT_EQ(std::ranges::count_if(metrics, [](const Json& row) { return row.at("event") == "finished"; }), 1)
        << "trial " << i << " came to its end more than once";
  }
}

}  // namespace
}  // namespace muster
