// muster tune as users run it: trials are runs with the bits of muster train, through pauses and promotions; what fails
// says why; a program of any kind can be searched; the study can be looked at.
#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::rows;
using testing::run_program;
using testing::slurp;
using testing::spill;

class TuneTest : public ::testing::Test {
 protected:
  void write_job(const std::vector<std::string>& more = {}) {
    spill(folder_ / "job.toml", testing::stateful_job("job", more));
  }
  void write_study(const std::string& space, const std::string& more = {}) {
    spill(folder_ / "study.toml",
          fmt::format("[study]\njob = \"job.toml\"\nobjective = \"loss\"\n{}\n[space]\n{}\n", more, space));
  }
  Finished muster(const std::vector<std::string>& arguments) { return run_program(folder_.path(), arguments); }
  std::vector<Json> shown() {
    const Finished result = muster({"tune", "show", "study", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<Json> all = rows(result.out);
    EXPECT_FALSE(all.empty());
    if (!all.empty()) all.erase(all.begin());
    return all;
  }
  // The last row of a trial's metrics.
  Json end_of(std::uint64_t trial) {
    return rows(slurp(folder_ / fmt::format("studies/study/trials/{:04}/metrics.jsonl", trial))).back();
  }

  const testing::TemporaryFolder folder_;
};

// A cosine schedule, dropout and batch norm: whoever forgets where a run stood has other bits.
TEST_F(TuneTest, APausedRunGoesOnToTheBitsOfOneThatWasNot) {
  write_job({"job.epochs=3"});
  const Json straight = rows(muster({"train", "job.toml", "--json"}).out).back();
  ASSERT_EQ(straight.at("event"), "finished");
  const Finished paused = muster({"train", "job.toml", "--json", "--until-epoch", "1", "--set", "job.runs=paused"});
  EXPECT_EQ(paused.exit_code, 0) << paused.err;
  EXPECT_EQ(rows(paused.out).back().at("event"), "paused");
  EXPECT_EQ(rows(paused.out).back().at("step"), 8);
  const Finished again = muster({"train", "job.toml", "--json", "--resume", "--until-epoch", "2", "--set",
                                 "job.runs=paused", "--set", "parallel.workers=2"});
  EXPECT_EQ(rows(again.out).back().at("event"), "paused") << again.err;
  const Finished last = muster({"train", "job.toml", "--json", "--resume", "--set", "job.runs=paused"});
  EXPECT_EQ(rows(last.out).back().at("weights"), straight.at("weights"));
  EXPECT_EQ(rows(last.out).back().at("test_loss"), straight.at("test_loss"));
}

TEST_F(TuneTest, APromotedTrialHasTheBitsOfMusterTrainAndTheBestIsKept) {
  write_job({"job.epochs=3"});
  write_study("optimizer.lr = { log = [1e-3, 0.1] }\noptimizer.momentum = { uniform = [0.0, 0.9], step = 0.3 }",
              "[budget]\ntrials = 4\n[schedule]\nname = \"asha\"\n[trials]\nparallel = 2\nworkers = 2");
  const Finished tuned = muster({"tune", "study.toml", "--json"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err << tuned.out;
  const Json over = rows(tuned.out).back();
  EXPECT_EQ(over.at("event"), "over");
  std::uint64_t finished = 0;
  for (const Json& trial : shown()) {
    if (trial.at("state") != "finished") continue;
    ++finished;
    const std::string metrics = slurp(
        folder_ / fmt::format("studies/study/trials/{:04}/metrics.jsonl", trial.at("trial").get<std::uint64_t>()));
    EXPECT_THAT(metrics, HasSubstr("\"paused\"")) << "it was not paused at the first rung";
    std::vector<std::string> arguments{"train", "job.toml", "--json", "--set", "job.runs=straight"};
    for (const auto& [key, value] : trial.at("values").items())
      arguments.insert(arguments.end(), {"--set", fmt::format("{}={}", key, value.dump())});
    const Json straight = rows(muster(arguments).out).back();
    EXPECT_EQ(end_of(trial.at("trial").get<std::uint64_t>()).at("weights"), straight.at("weights"));
  }
  EXPECT_GE(finished, 1U);
  // What is kept: the best trial as a run that can be used, with its card, and no checkpoints of the others.
  const auto best = over.at("best").at("trial").get<std::uint64_t>();
  EXPECT_EQ(std::filesystem::read_symlink(folder_ / "studies/study/best"), fmt::format("trials/{:04}", best));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "studies/study/best/card.json"));
  EXPECT_EQ(muster({"evaluate", "studies/study/best"}).exit_code, 0);
  for (const Json& trial : shown()) {
    const auto number = trial.at("trial").get<std::uint64_t>();
    const bool kept = std::filesystem::exists(folder_ / fmt::format("studies/study/trials/{:04}/checkpoints", number));
    const bool wanted = number == best || trial.at("state") == "paused";
    EXPECT_EQ(kept, wanted) << number << " " << trial.at("state");
  }
}

TEST_F(TuneTest, ALossThatIsNoNumberFailsATrialAndNotTheStudy) {
  write_job({"optimizer.schedule=\"constant\""});
  write_study("optimizer.lr = { choice = [1e30, 0.01] }", "[budget]\ntrials = 2\n[search]\nname = \"grid\"");
  const Finished tuned = muster({"tune", "study.toml", "--json"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  const std::vector<Json> trials = shown();
  ASSERT_EQ(trials.size(), 2U);
  std::set<std::string> states;
  for (const Json& trial : trials) {
    states.insert(trial.at("state").get<std::string>());
    const bool hopeless = trial.at("values").at("optimizer.lr").get<double>() > 1;
    EXPECT_EQ(trial.at("state"), hopeless ? "failed" : "finished") << trial;
    if (hopeless) {
      EXPECT_THAT(trial.at("reason").get<std::string>(), HasSubstr("not")) << trial;
    }
  }
  EXPECT_EQ(states.size(), 2U);
}

// The truth of a copy: a run with the values of the parent up to where it was copied, and with the changes after it.
TEST_F(TuneTest, ACopyOfAPopulationHasTheBitsOfARunWhoseValuesWereChanged) {
  write_job({"job.epochs=4", "optimizer.schedule=\"constant\""});
  write_study("optimizer.lr = { log = [1e-4, 0.1] }",
              "[budget]\ntrials = 3\n[trials]\nparallel = 2\n[schedule]\nname = \"population\"\npopulation = 3\n"
              "interval = 1\nshare = 0.34");
  const Finished tuned = muster({"tune", "study.toml", "--json"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err << tuned.out;
  const std::vector<Json> trials = shown();
  std::uint64_t finished = 0;
  std::uint64_t compared = 0;
  for (const Json& trial : trials) {
    EXPECT_NE(trial.at("state"), "failed") << trial;
    if (trial.at("state") != "finished") continue;
    ++finished;
    if (!trial.contains("from")) continue;
    // From who began to this one: its values, then a change of them at the first step after each copy.
    const auto lr = [](const Json& of) { return "optimizer.lr=" + of.at("values").at("optimizer.lr").dump(); };
    std::vector<const Json*> line{&trial};
    while (line.back()->contains("from"))
      line.push_back(&trials.at(line.back()->at("from").at("trial").get<std::size_t>()));
    const std::string runs = fmt::format("truth-{}", ++compared);
    const std::vector<std::string> truth{"train", "job.toml",      "--json", "--set", "job.runs=" + runs,
                                         "--set", lr(*line.back())};
    std::string changes;
    int until = 0;
    for (std::size_t i = line.size() - 1; i-- > 0;) {
      const int epoch = line[i]->at("from").at("epoch").get<int>();
      if (until == 0) until = epoch;
      changes +=
          Json{{"number", line.size() - 1 - i}, {"assignment", lr(*line[i])}, {"step", 8 * epoch + 1}}.dump() + "\n";
    }
    std::vector<std::string> first = truth;
    first.insert(first.end(), {"--until-epoch", std::to_string(until)});
    ASSERT_EQ(muster(first).exit_code, 0);
    for (const auto& run : std::filesystem::directory_iterator(folder_ / runs)) {
      if (std::filesystem::exists(run.path() / "job.toml")) spill(run.path() / "changes.jsonl", changes);
    }
    std::vector<std::string> last = truth;
    last.emplace_back("--resume");
    const Finished rest = muster(last);
    ASSERT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_EQ(end_of(trial.at("trial").get<std::uint64_t>()).at("weights"), rows(rest.out).back().at("weights"));
  }
  EXPECT_EQ(finished, 3U);
  EXPECT_GE(compared, 1U);
  // Nothing is left of who is not the best.
  const auto best = rows(tuned.out).back().at("best").at("trial").get<std::uint64_t>();
  for (const Json& trial : trials) {
    const auto number = trial.at("trial").get<std::uint64_t>();
    EXPECT_EQ(std::filesystem::exists(folder_ / fmt::format("studies/study/trials/{:04}/checkpoints", number)),
              number == best)
        << number;
  }
}

TEST_F(TuneTest, TwoObjectivesOfAJobHaveAFrontAndKeepTheirCheckpoints) {
  write_job({"job.epochs=1"});
  spill(folder_ / "study.toml",
        "[study]\njob = \"job.toml\"\nobjective = [\"accuracy\", \"loss\"]\n[budget]\ntrials = 3\n[trials]\n"
        "parallel = 2\n[space]\noptimizer.lr = { log = [1e-4, 0.1] }\n");
  const Finished tuned = muster({"tune", "study.toml", "--json"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  const Json over = rows(tuned.out).back();
  EXPECT_FALSE(over.contains("best"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "studies/study/best"));
  const Finished evaluated = muster({"evaluate", "studies/study/best"});
  EXPECT_EQ(evaluated.exit_code, 2);
  EXPECT_THAT(evaluated.err,
              ::testing::AllOf(HasSubstr("two objectives"), HasSubstr("muster tune show studies/study")));
  // The front by its definition.
  const std::vector<Json> trials = shown();
  std::set<std::uint64_t> front;
  for (const Json& one : trials) {
    const bool beaten = std::ranges::any_of(trials, [&](const Json& other) {
      const double more = other.at("accuracy").get<double>() - one.at("accuracy").get<double>();
      const double less = one.at("loss").get<double>() - other.at("loss").get<double>();
      return more >= 0 && less >= 0 && more + less > 0;
    });
    const auto number = one.at("trial").get<std::uint64_t>();
    if (!beaten) front.insert(number);
    EXPECT_TRUE(std::filesystem::exists(folder_ / fmt::format("studies/study/trials/{:04}/checkpoints", number)));
  }
  EXPECT_EQ(over.at("front").get<std::set<std::uint64_t>>(), front);
  EXPECT_THAT(muster({"tune", "show", "study"}).out, HasSubstr(fmt::format("is first: {} trial", front.size())));
  ASSERT_EQ(muster({"tune", "show", "study", "--html", "report.html", "--svg", "plots"}).exit_code, 0);
  const std::string page = slurp(folder_ / "report.html");
  EXPECT_THAT(page, HasSubstr("On the front"));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("Best:")));
  EXPECT_THAT(slurp(folder_ / "plots/front.svg"), ::testing::StartsWith("<svg"));
}

// What earlier studies told is read once: a study goes on when they have grown or are gone.
TEST_F(TuneTest, AWarmStartIsReadAtTheStartAlone) {
  const auto study = [&](const std::string& name, const std::string& more) {
    spill(folder_ / (name + ".toml"), fmt::format("[study]\nprogram = [\"/bin/echo\", '{{\"cost\": {{x}}}}']\n"
                                                  "objective = \"cost\"\n{}\n[budget]\ntrials = 12\n"
                                                  "[space]\nx = {{ uniform = [0.0, 1.0] }}\n",
                                                  more));
    return muster({"tune", name + ".toml", "-q", "--resume"});
  };
  ASSERT_EQ(study("earlier", "").exit_code, 0);
  const std::string warm = "warm_start = [\"studies/earlier\"]";
  const Finished later = study("study", warm);
  ASSERT_EQ(later.exit_code, 0) << later.err;
  // The model knows where to look from the first trial on; a study that knows nothing spreads its first ten.
  EXPECT_THAT(shown().at(0).at("reason").get<std::string>(), HasSubstr("times as likely"));
  std::filesystem::remove_all(folder_ / "studies/earlier");
  const Finished again = muster({"tune", "study.toml", "-q", "--resume", "--trials", "13"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(shown().size(), 13U);
  const Finished cold = study("study", "");
  EXPECT_EQ(cold.exit_code, 2);
  EXPECT_THAT(cold.err, HasSubstr("warm_start"));
}

TEST_F(TuneTest, AKeyWithAConditionMustNotStandInTheJob) {
  write_job();
  write_study(
      "optimizer.name = { choice = [\"sgd\", \"adam\"] }\n"
      "optimizer.momentum = { uniform = [0.0, 0.9], when = { optimizer.name = \"sgd\" } }",
      "[budget]\ntrials = 2");
  const Finished result = muster({"tune", "study.toml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("study.toml:8"));
  EXPECT_THAT(result.err, HasSubstr("job.toml:"));
  EXPECT_THAT(result.err, HasSubstr("Remove it from the job file"));
  const Finished none = muster({"tune", "study.toml", "--trials", "0"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("--trials"));
}

TEST_F(TuneTest, MistakesAreNamedWithFileAndLineBeforeAnythingIsWritten) {
  write_job();
  write_study("optimizer.lr = { log = [1e-3, 0.1] }\noptimizer.momentun = { uniform = [0.0, 0.9] }",
              "[budget]\ntrials = 2");
  Finished result = muster({"tune", "study.toml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("study.toml:8"));
  EXPECT_THAT(result.err, HasSubstr("momentum"));
  write_study("optimizer.momentum = { uniform = [0.0, 7.0] }", "[budget]\ntrials = 2");
  result = muster({"tune", "study.toml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("study.toml:7"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "studies"));
}

TEST_F(TuneTest, AFigureThatTheJobDoesNotTellIsNamedBeforeTrialsAreWasted) {
  const auto tune = [&](const std::string& objective) {
    spill(folder_ / "study.toml",
          fmt::format(
              "[study]\njob = \"job.toml\"\nobjective = {}\n[budget]\ntrials = 3\n[trials]\nparallel = 1\n[space]\n"
              "optimizer.lr = {{ log = [1e-3, 0.1] }}\n",
              objective));
    return muster({"tune", "study.toml"});
  };
  write_job({"job.epochs=1"});
  Finished result = tune("[\"loss\", \"acuracy\"]");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              ::testing::AllOf(HasSubstr("study.toml:3"), HasSubstr("\"acuracy\" (did you mean \"accuracy\"?)"),
                               ::testing::Not(HasSubstr("\"loss\""))));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "studies"));
  // Some classifications have it, and this one has not: its first validation shows it.
  result = tune("[\"accuracy\", \"auc\"]");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              ::testing::AllOf(HasSubstr("study.toml:3"), HasSubstr("do not tell \"auc\""), HasSubstr("They tell")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "studies/study/trials"), {}), 1);
  write_job({"federated.clients=3", "federated.per_round=3", "job.epochs=", "optimizer.schedule="});
  result = tune("\"loss\"");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("study.toml:2"));
}

TEST_F(TuneTest, AProgramThatDoesNotTellAllIsToldWhatItLacks) {
  spill(
      folder_ / "study.toml",
      "[study]\nprogram = [\"/bin/echo\", '{\"cost\": {x}}']\nobjective = [\"cost\", \"size\"]\n[budget]\ntrials = 1\n"
      "[space]\nx = { uniform = [0.0, 1.0] }\n");
  EXPECT_EQ(muster({"tune", "study.toml"}).exit_code, 1);
  EXPECT_EQ(shown().at(0).at("reason"), "it ended without telling size");
}

TEST_F(TuneTest, OfEqualsInTheFirstObjectiveTheBetterInTheSecondIsFirst) {
  spill(folder_ / "study.toml",
        "[study]\nobjective = [\"cost\", \"size\"]\n[budget]\ntrials = 3\n[space]\nx = { uniform = [0.0, 1.0] }\n");
  for (const char* const number : {"0", "1", "2"})
    ASSERT_EQ(rows(muster({"tune", "ask", "study.toml"}).out).back().at("trial").dump(), number);
  const std::vector<std::vector<std::string>> results{{"0", "2", "50"}, {"1", "2", "30"}, {"2", "1", "10"}};
  for (const auto& result : results)
    ASSERT_EQ(muster({"tune", "tell", "study", result[0], result[1], result[2]}).exit_code, 0);
  const std::string table = muster({"tune", "show", "study"}).out;
  EXPECT_THAT(table, HasSubstr("is first: 1 trial\n"));
  const auto at = [&](const std::string& number) { return table.find("\n     " + number + "  "); };
  EXPECT_LT(at("2"), at("1")) << table;
  EXPECT_LT(at("1"), at("0")) << table;
}

TEST_F(TuneTest, AStudyIsBegunOnceAndGoesOnWhenAsked) {
  write_job({"job.epochs=1"});
  write_study("optimizer.lr = { log = [1e-3, 0.1] }", "[budget]\ntrials = 1");
  EXPECT_EQ(muster({"tune", "study.toml", "-q"}).exit_code, 0);
  const Finished twice = muster({"tune", "study.toml", "-q"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("--resume"));
  EXPECT_EQ(muster({"tune", "study.toml", "-q", "--resume", "--trials", "3"}).exit_code, 0);
  EXPECT_EQ(shown().size(), 3U);
  write_job({"job.epochs=1", "job.seed=9"});
  const Finished other = muster({"tune", "study.toml", "-q", "--resume"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("job file"));
}

TEST_F(TuneTest, AProgramOfAnyKindIsSearchedByWhatItPrints) {
  spill(folder_ / "program.sh",
        "#!/bin/sh\necho hello\n[ \"$1\" = 3 ] && { echo broken >&2; exit 1; }\n"
        "echo \"{\\\"epoch\\\": 1, \\\"cost\\\": $1$2}\"\n");
  std::filesystem::permissions(folder_ / "program.sh", std::filesystem::perms::owner_all);
  spill(folder_ / "study.toml",
        "[study]\nprogram = [\"./program.sh\", \"{n}\", \"{m}\"]\nobjective = \"cost\"\ngoal = \"minimise\"\nretries = "
        "1\n"
        "[search]\nname = \"grid\"\n[space]\nn = { integer = [1, 3] }\nm = { choice = [4, 5] }\n");
  const Finished tuned = muster({"tune", "study.toml", "--json"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err << tuned.out;
  EXPECT_EQ(rows(tuned.out).back().at("best").at("cost"), 14);
  for (const Json& trial : shown()) {
    const int n = trial.at("values").at("n").get<int>();
    const int m = trial.at("values").at("m").get<int>();
    if (n == 3) {
      EXPECT_EQ(trial.at("state"), "failed");
      EXPECT_THAT(trial.at("reason").get<std::string>(), HasSubstr("died 2 times"));
    } else {
      EXPECT_EQ(trial.at("cost"), 10 * n + m);
    }
  }
}

TEST_F(TuneTest, AShellAsksAndTells) {
  spill(folder_ / "study.toml",
        "[study]\nobjective = \"cost\"\ngoal = \"minimise\"\n[budget]\ntrials = 2\n[space]\nx = { uniform = [0.0, 1.0] "
        "}\n");
  const Json first = rows(muster({"tune", "ask", "study.toml"}).out).back();
  const Json second = rows(muster({"tune", "ask", "study.toml"}).out).back();
  EXPECT_EQ(first.at("trial"), 0);
  EXPECT_EQ(second.at("trial"), 1);
  // One of them may be given back, so it is not over.
  const Finished early = muster({"tune", "ask", "study"});
  EXPECT_EQ(early.exit_code, 1);
  EXPECT_THAT(early.err, HasSubstr("trials that others run"));
  const Finished both = muster({"tune", "tell", "study.toml", "0", "0.5", "0.7", "--epoch", "1"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("2 value(s) for 1 objective(s)"));
  EXPECT_EQ(muster({"tune", "tell", "study.toml", "1", "-0.5"}).exit_code, 0);
  EXPECT_EQ(muster({"tune", "tell", "study", "0", "--failed", "no luck"}).exit_code, 0);
  const Finished twice = muster({"tune", "tell", "study", "1", "0.25"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, ::testing::AllOf(HasSubstr("finished"), HasSubstr("What was told first counts")));
  const std::vector<Json> over = rows(muster({"tune", "ask", "study"}).out);
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over[0], Json({{"over", true}}));
  const std::vector<Json> trials = shown();
  EXPECT_EQ(trials.at(0).at("reason"), "no luck");
  EXPECT_EQ(trials.at(1).at("cost"), -0.5);
}

// A copy says whose state it begins with, to a shell; the states of a program nobody can copy, which is said at once.
TEST_F(TuneTest, CopiesAreForJobsAndForWhoAsks) {
  const std::string rest =
      "objective = \"cost\"\n[budget]\ntrials = 2\n[trials]\nepochs = 4\n[schedule]\nname = \"population\"\n"
      "population = 2\ninterval = 1\nshare = 0.5\n[space]\nx = { uniform = [0.5, 1.0] }\n";
  spill(folder_ / "program.toml", "[study]\nprogram = [\"/bin/echo\", \"{until}\"]\n" + rest);
  const Finished program = muster({"tune", "program.toml"});
  EXPECT_EQ(program.exit_code, 2) << program.out;
  EXPECT_THAT(program.err, HasSubstr("cannot be copied"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "studies/program"));
  spill(folder_ / "study.toml", "[study]\n" + rest);
  for (const char* number : {"0", "1"})
    ASSERT_EQ(rows(muster({"tune", "ask", "study.toml"}).out).back().at("trial").dump(), number);
  EXPECT_EQ(rows(muster({"tune", "tell", "study", "0", "1.0", "--epoch", "1"}).out).back().at("go_on"), true);
  EXPECT_EQ(rows(muster({"tune", "tell", "study", "1", "2.0", "--epoch", "1"}).out).back().at("go_on"), false);
  const Json copy = rows(muster({"tune", "ask", "study"}).out).back();
  EXPECT_EQ(copy.at("trial"), 2);
  EXPECT_EQ(copy.at("epoch"), 1);
  EXPECT_EQ(copy.at("from"), Json({{"trial", 0}, {"epoch", 1}}));
}

TEST_F(TuneTest, AStudyOfWhichNothingCameHasFailed) {
  spill(folder_ / "study.toml",
        "[study]\nprogram = [\"/bin/false\"]\nobjective = \"cost\"\nretries = 0\n[budget]\ntrials = 1\n[space]\n"
        "x = { uniform = [0.0, 1.0] }\n");
  const Finished tuned = muster({"tune", "study.toml"});
  EXPECT_EQ(tuned.exit_code, 1);
  EXPECT_THAT(tuned.err, HasSubstr("every trial has failed"));
}

TEST_F(TuneTest, AStudyCanBeLookedAt) {
  spill(folder_ / "study.toml",
        "[study]\nobjective = \"cost\"\ngoal = \"minimise\"\n[budget]\ntrials = 6\n[space]\n"
        "x = { uniform = [0.0, 1.0] }\nkind = { choice = [\"<a>\", \"b\"] }\n");
  for (int i = 0; i < 6; ++i) {
    const Json trial = rows(muster({"tune", "ask", "study.toml"}).out).back();
    const double x = trial.at("values").at("x").get<double>();
    ASSERT_EQ(muster({"tune", "tell", "study", std::to_string(i), fmt::format("{}", x * x)}).exit_code, 0);
  }
  EXPECT_THAT(muster({"tune", "show", "study"}).out, HasSubstr("6 trials"));
  const std::string csv = muster({"tune", "show", "study", "--csv"}).out;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  ASSERT_EQ(muster({"tune", "show", "study", "--html", "report.html", "--svg", "plots"}).exit_code, 0);
  const std::string page = slurp(folder_ / "report.html");
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("&lt;a&gt;"));
  // Nothing is fetched: the one address is the name of SVG itself.
  std::string rest = page;
  for (std::size_t at = rest.find("http://www.w3.org/2000/svg"); at != std::string::npos;
       at = rest.find("http://www.w3.org/2000/svg"))
    rest.erase(at, 26);
  EXPECT_EQ(rest.find("http"), std::string::npos);
  EXPECT_EQ(rest.find("<script"), std::string::npos);
  for (const char* name : {"history", "parallel", "slices", "importance"})
    EXPECT_THAT(slurp(folder_ / fmt::format("plots/{}.svg", name)), ::testing::StartsWith("<svg")) << name;
}

}  // namespace
}  // namespace muster
