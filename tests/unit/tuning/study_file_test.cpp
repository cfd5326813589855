// The study file: what stands in it is what is searched, and mistakes are named with their lines.
#include "muster/tuning/study_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace muster::tuning {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr const char* kWhole = R"(# a study
[study]
job = "fashion.toml"
objective = "accuracy"
seed = 3

[budget]
trials = 12
minutes = 1.5

[trials]
parallel = 2

[search]
name = "random"

[space]
optimizer.lr = { log = [1e-4, 1.0] }
optimizer.name = { choice = ["sgd", "adam"] }
optimizer.momentum = { uniform = [0.0, 0.99], when = { optimizer.name = "sgd" } }

[[points]]
optimizer.lr = 0.1
optimizer.name = "sgd"
optimizer.momentum = 0.9
)";

TEST(StudyFileTest, SaysWhatIsSearched) {
  const StudyFile file = parse_study_file(kWhole, "some/fashion_study.toml");
  EXPECT_EQ(file.name, "fashion_study");
  EXPECT_EQ(file.job, "fashion.toml");
  EXPECT_EQ(file.trials.parallel->value, 2);
  EXPECT_EQ(file.where("optimizer.name"), "some/fashion_study.toml:19");
  const StudyPlan plan = file.plan();
  EXPECT_EQ(plan.objectives, (std::vector<Objective>{{"accuracy", Goal::kMaximise}}));
  EXPECT_EQ(plan.budget.trials, 12U);
  EXPECT_DOUBLE_EQ(plan.budget.seconds, 90);
  EXPECT_EQ(plan.searcher.name(), "random");
  ASSERT_EQ(plan.space.size(), 3U);
  ASSERT_EQ(plan.points.size(), 1U);
  EXPECT_EQ(std::get<double>(*plan.points[0].find("optimizer.momentum")), 0.9);
}

TEST(StudyFileTest, PointsNeedNotRepeatWhatIsTheSameInEveryTrial) {
  const StudyPlan plan =
      parse_study_file("[budget]\ntrials = 2\n[space]\nfixed = 9\nx = { uniform = [0.0, 1.0] }\n[[points]]\nx = 0.25\n",
                       "study.toml")
          .plan();
  const auto searcher = plan.searcher.make(plan.search_problem());
  EXPECT_EQ(searcher->ask({}, 0).values, (Assignment{{"fixed", std::int64_t{9}}, {"x", 0.25}}));
}

TEST(StudyFileTest, TheGoalFollowsTheNameUnlessItIsSaid) {
  EXPECT_EQ(usual_goal("loss"), Goal::kMinimise);
  EXPECT_EQ(usual_goal("mean_absolute_error"), Goal::kMinimise);
  EXPECT_EQ(usual_goal("accuracy"), Goal::kMaximise);
  EXPECT_EQ(usual_goal("cost"), Goal::kMinimise);
  const std::string text =
      "[study]\nobjective = [\"accuracy\", \"loss\"]\ngoal = [\"minimise\", \"maximise\"]\n"
      "[budget]\ntrials = 1\n[space]\nx = { uniform = [0.0, 1.0] }\n";
  EXPECT_EQ(parse_study_file(text, "s.toml").plan().goals(), (std::vector<Goal>{Goal::kMinimise, Goal::kMaximise}));
}

struct Mistake {
  const char* name;
  const char* from;
  const char* to;
  const char* where;
  const char* words;
};

class StudyFileMistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(StudyFileMistakes, AreNamedWithTheirLine) {
  std::string text = kWhole;
  const std::size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  const Error error = error_of([&] { parse_study_file(text, "s.toml"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput) << error.what();
  EXPECT_THAT(error.where(), HasSubstr(GetParam().where)) << error.what();
  EXPECT_THAT(error.what(), HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    All, StudyFileMistakes,
    ::testing::Values(
        Mistake{"UnknownKey", "seed = 3", "sead = 3", "s.toml:5", "study.sead"},
        Mistake{"WrongType", "trials = 12", "trials = \"many\"", "s.toml:8", "budget.trials"},
        Mistake{"UnknownSection", "[trials]", "[trails]", "s.toml", "trails"},
        Mistake{"UnknownSearcher", "name = \"random\"", "name = \"randum\"", "s.toml:15", "random"},
        Mistake{"LimitsInTheWrongOrder", "[1e-4, 1.0]", "[1.0, 1e-4]", "s.toml:18", "optimizer.lr"},
        Mistake{"PointOutside", "optimizer.lr = 0.1", "optimizer.lr = 7.0", "s.toml", "optimizer.lr"},
        Mistake{"PointOfAnotherKey", "optimizer.lr = 0.1", "optimizer.rl = 0.1", "s.toml", "optimizer.rl"},
        Mistake{"TheSameFigureTwice", "objective = \"accuracy\"", "objective = [\"loss\", \"loss\"]", "s.toml:4",
                "\"loss\" twice"},
        Mistake{"JobAndProgram", "job = \"fashion.toml\"", "job = \"a\"\nprogram = [\"b\"]", "s.toml:4",
                "study.program"},
        Mistake{"GoalsForOthers", "seed = 3", "goal = [\"minimise\", \"minimise\"]", "s.toml:5", "study.goal"}),
    [](const auto& mistake) { return mistake.param.name; });

TEST(StudyFileTest, ASearcherThatCannotDoItIsNamedWithItsLine) {
  const std::string text =
      "[study]\nobjective = [\"loss\", \"cost\"]\n[budget]\ntrials = 3\n[search]\nname = \"gp\"\n[space]\n"
      "x = { uniform = [0.0, 1.0] }\n";
  const Error error = error_of([&] { parse_study_file(text, "s.toml").plan(); });
  EXPECT_EQ(error.where(), "s.toml:6") << error.what();
  EXPECT_THAT(error.what(), HasSubstr("gp"));
}

TEST(StudyFileTest, NoSpaceAndNoBudgetAreSaid) {
  EXPECT_THAT(error_of([] { parse_study_file("[study]\njob = \"a\"\n", "s.toml"); }).what(), HasSubstr("[space]"));
  EXPECT_THAT(error_of([] {
                parse_study_file("[study]\njob = \"a\"\n[space]\nx = { uniform = [0.0, 1.0] }\n", "s.toml").plan();
              }).what(),
              HasSubstr("no budget"));
}

// Choices that can be counted end no study of a searcher that draws them again and again; a grid ends.
TEST(StudyFileTest, WithoutABudgetOnlyAGridIsTaken) {
  const std::string choices = "[study]\njob = \"a\"\n[space]\nx = { choice = [1, 2] }\n";
  EXPECT_THAT(error_of([&] { parse_study_file(choices, "s.toml").plan(); }).what(), HasSubstr("no budget"));
  EXPECT_NO_THROW(parse_study_file(choices + "[search]\nname = \"grid\"\n", "s.toml").plan());
  const std::string real = "[study]\njob = \"a\"\n[space]\nx = { uniform = [0.0, 1.0] }\n";
  const StudyPlan grid = parse_study_file(real + "[search]\nname = \"grid\"\nlevels = 7\n", "s.toml").plan();
  EXPECT_EQ(grid.schedule_problem().trials, 7U);
}

}  // namespace
}  // namespace muster::tuning
