// kill -9 of the tuner, or of everything it has started, at any moment: no finished trial is lost, none is trained
// twice to its end, and what is proposed after it is what would have been proposed.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/clock.h"
#include "muster/control/write_ahead.h"
#include "muster/tuning/study_log.h"
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

// How often: few by default, MUSTER_TEST_KILLS=30 now and then.
int kills_or(int usual) {
  const char* const asked = std::getenv("MUSTER_TEST_KILLS");
  return asked == nullptr ? usual : std::atoi(asked);
}

class TuneKillTest : public ::testing::Test {
 protected:
  void SetUp() override { spill(folder_ / "job.toml", testing::stateful_job("job", {"job.epochs=3"})); }
  // A study of as many trials as there are kills and one more; `more`: sections.
  void write_study(const std::string& name, int slots, int kills = 5, const std::string& more = {}) const {
    spill(folder_ / fmt::format("{}.toml", name),
          fmt::format("[study]\njob = \"job.toml\"\nobjective = \"loss\"\n[budget]\ntrials = {}\n"
                      "[trials]\nparallel = {}\n{}\n[search]\nname = \"tpe\"\nstartup = 3\n[space]\n"
                      "optimizer.lr = {{ log = [1e-3, 0.1] }}\noptimizer.momentum = {{ uniform = [0.0, 0.9] }}\n",
                      kills + 1, slots, more));
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
  // Who was not killed and met the same results in the same order would have proposed and decided the same: a searcher
  // and a scheduler that are made now are shown the study from its beginning.
  void expect_replay(const std::string& study) const {
    const std::filesystem::path file = folder_ / "studies" / study / "study.db";
    const tuning::StudyPlan plan = tuning::StudyLog(control::make_write_ahead_store(file, {.create = false})).plan();
    const auto searcher = plan.searcher.make(plan.search_problem());
    const auto scheduler = plan.scheduler.make(plan.schedule_problem());
    tuning::History history;
    std::vector<tuning::TrialNotes> notes;
    for (const control::Entry& entry : control::make_write_ahead_store(file, {.create = false})->list("log/")) {
      for (const Json& row : parse_json(entry.value, "the log")) {
        const tuning::StudyEvent event = tuning::StudyEvent::from_json(row, "the log");
        if (event.kind == tuning::EventKind::kAdd) {
          EXPECT_EQ(searcher->ask(history, event.number).values, event.values) << "trial " << event.number;
        }
        if (event.kind == tuning::EventKind::kPause) {
          EXPECT_EQ(scheduler->after_report(history, event.number).action, tuning::Action::kPause) << row;
        }
        tuning::apply(event, history, notes, "the log");
      }
    }
    EXPECT_GE(history.size(), 6U);
  }
  // The best is the least of what trials that have ended were judged by, and the link leads to its run, which is whole.
  void expect_best(const std::string& study) {
    std::optional<Json> best;
    for (const Json& trial : trials_of(study)) {
      EXPECT_TRUE(trial.at("state") == "finished" || trial.at("state") == "stopped") << trial;
      if (!best || trial.at("loss").get<double>() < best->at("loss").get<double>()) best = trial;
    }
    ASSERT_TRUE(best);
    const auto number = best->at("trial").get<std::uint64_t>();
    const std::filesystem::path link = folder_ / "studies" / study / "best";
    EXPECT_EQ(std::filesystem::read_symlink(link), std::filesystem::path("trials") / tuning::trial_name(number));
    EXPECT_TRUE(std::filesystem::exists(link / "checkpoints"));
  }
  void expect_ends_once(const std::string& study) {
    for (const Json& trial : trials_of(study)) {
      const auto number = trial.at("trial").get<std::uint64_t>();
      const std::filesystem::path run = folder_ / "studies" / study / "trials" / tuning::trial_name(number);
      const std::vector<Json> metrics = rows(slurp(run / "metrics.jsonl"));
      EXPECT_EQ(std::ranges::count_if(metrics, [](const Json& row) { return row.at("event") == "finished"; }),
                trial.at("state") == "finished" ? 1 : 0)
          << "trial " << number;
    }
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
  const int kills = kills_or(5);
  for (const char* name : {"straight", "killed"})
    write_study(name, 1, kills);
  const Finished straight = run_program(folder_.path(), {"tune", "straight.toml", "-q"});
  ASSERT_EQ(straight.exit_code, 0) << straight.err;
  std::map<int, Json> before;
  for (int turn = 0; turn < kills; ++turn) {
    Program tuner(folder_.path(), arguments());
    // From the moment on in which a trial of this turn has something to lose.
    ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(trial(turn) / "metrics.jsonl"); }))
        << tuner.err();
    // sleeps: a kill at any moment is what is tested; the moments differ from turn to turn
    system_clock().sleep_for(std::chrono::milliseconds(90 * (turn % 7)));
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
  }
  expect_ends_once("killed");
}

// Two trials at a time under a scheduler that pauses them: the order of results is chance, and all follows from it.
TEST_F(TuneKillTest, PausedTrialsOfTwoSlotsGoOnAsTheyWouldHave) {
  const int kills = kills_or(5);
  write_study("killed", 2, kills, "[schedule]\nname = \"asha\"");
  std::map<int, Json> before;
  for (int turn = 0; turn + 1 < kills; ++turn) {
    Program tuner(folder_.path(), arguments());
    ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(trial(turn) / "metrics.jsonl"); }))
        << tuner.err();
    // sleeps: a kill at any moment is what is tested; the moments differ from turn to turn
    system_clock().sleep_for(std::chrono::milliseconds(130 * (turn % 7)));
    if (turn % 2 == 0) {
      kill_all_of(tuner);
    } else {
      tuner.signal(SIGKILL);
      tuner.wait();
    }
    const std::map<int, Json> after = ended_in("killed");
    for (const auto& [number, row] : before)
      EXPECT_TRUE(after.contains(number) && after.at(number) == row) << "trial " << number << " was lost or changed";
    before = after;
  }
  const Finished last = run_program(folder_.path(), arguments());
  ASSERT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(trials_of("killed").size(), static_cast<std::size_t>(kills) + 1);
  expect_replay("killed");
  expect_best("killed");
  expect_ends_once("killed");
}

// Two tuners, each with one trial at a time, of which one is killed with all that it has started.
TEST_F(TuneKillTest, OfTwoTunersTheOneThatIsLeftDoesTheRest) {
  write_study("killed", 1, 5, "[schedule]\nname = \"asha\"");
  Program first(folder_.path(), {"tune", "killed.toml", "-q", "--resume"});
  ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(trial(0) / "metrics.jsonl"); })) << first.err();
  Program second(folder_.path(), {"tune", "killed.toml", "-q", "--resume"});
  ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(trial(2) / "metrics.jsonl"); }))
      << first.err() << second.err();
  kill_all_of(first);
  const Finished last = second.wait();
  ASSERT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(trials_of("killed").size(), 6U);
  expect_replay("killed");
  expect_best("killed");
  expect_ends_once("killed");
}

}  // namespace
}  // namespace muster
