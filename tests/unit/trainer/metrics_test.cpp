// AUC against all pairs counted one by one; moments of parts against those of the whole.
#include "muster/trainer/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/random.h"

namespace muster::trainer {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(AreaUnderCurve, IsTheShareOfPairsInTheRightOrder) {
  EXPECT_EQ(area_under_curve({{0.1, false}, {0.4, false}, {0.35, true}, {0.8, true}}), 0.75);
  EXPECT_EQ(area_under_curve({{3, true}, {1, false}, {2, false}}), 1);
  EXPECT_EQ(area_under_curve({{1, true}, {3, false}}), 0);
  EXPECT_EQ(area_under_curve({{1, true}, {1, false}, {1, false}}), 0.5) << "equal scores tell nothing";
}

TEST(AreaUnderCurve, IsThatOfAllPairsCountedOneByOne) {
  RandomStream draw({.seed = 3});
  std::vector<Scored> scored;
  for (int i = 0; i < 200; ++i)
    scored.push_back({static_cast<double>(draw.below(20)), draw.below(3) == 0});
  double pairs = 0;
  double won = 0;
  for (const Scored& a : scored) {
    for (const Scored& b : scored) {
      if (!a.positive || b.positive) continue;
      ++pairs;
      won += a.score > b.score ? 1 : a.score == b.score ? 0.5 : 0;
    }
  }
  EXPECT_NEAR(area_under_curve(scored), won / pairs, 1e-12);
}

TEST(AreaUnderCurve, HasNoValueWithoutBothKindsOrWithAScoreThatIsNone) {
  EXPECT_TRUE(std::isnan(area_under_curve({})));
  EXPECT_TRUE(std::isnan(area_under_curve({{1, true}, {2, true}})));
  EXPECT_TRUE(std::isnan(area_under_curve({{1, false}})));
  EXPECT_TRUE(std::isnan(area_under_curve({{1, true}, {kNone, false}})));
}

TEST(Moments, OfPartsAreThoseOfTheWhole) {
  // Far from zero, where a sum of squares would have lost every digit of the variance.
  Moments moments;
  moments.add({3, 1e9 + 1, 2});  // 1e9 + {0, 1, 2}
  moments.add({});
  moments.add({1, 1e9 + 7, 0});
  EXPECT_EQ(moments.count, 4);
  EXPECT_NEAR(moments.mean, 1e9 + 2.5, 1e-6);
  EXPECT_NEAR(moments.squares, 6.25 + 2.25 + 0.25 + 20.25, 1e-6);
}

TEST(RSquared, IsOneForNoErrorAndNoneForTheMean) {
  EXPECT_EQ(r_squared(0, 10), 1);
  EXPECT_EQ(r_squared(10, 10), 0);
  EXPECT_EQ(r_squared(20, 10), -1) << "worse than the mean";
  EXPECT_EQ(r_squared(0, 0), 1);
  EXPECT_EQ(r_squared(1, 0), 0);
}

TEST(EvaluationFigures, SurviveJson) {
  const Evaluation evaluation{0.1, {{"accuracy", 1.0 / 3}, {"auc", kNone}}, 7};
  const Evaluation read = Evaluation::from_json(Json::parse(evaluation.to_json().dump()), "here");
  EXPECT_EQ(read.loss, 0.1);
  EXPECT_EQ(read.samples, 7U);
  EXPECT_EQ(read.metric("accuracy"), 1.0 / 3);
  EXPECT_TRUE(std::isnan(read.metric("auc")));
  EXPECT_EQ(read.metrics.front().name, "accuracy");
}

TEST(EvaluationFigures, AreAskedForByName) {
  try {
    Evaluation{0, {{"mae", 1}, {"r2", 0}}, 1}.metric("accuracy");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("there is no metric accuracy; this task has mae, r2"));
  }
  EXPECT_EQ(describe({0.25, {{"accuracy", 0.9}}, 1}), "loss 0.2500, accuracy 0.9000");
}

TEST(EvaluationFigures, ThatAreDamagedAreNamed) {
  for (const char* text :
       {"{}", R"({"loss":1,"samples":1,"metrics":[["a"]]})", R"({"loss":1,"samples":1,"metrics":[["a","b"]]})",
        R"({"loss":"x","samples":1,"metrics":[]})", R"({"loss":1,"samples":1,"metrics":{"a":1}})"}) {
    try {
      Evaluation::from_json(Json::parse(text), "the place");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("the place")) << text;
    }
  }
}

}  // namespace
}  // namespace muster::trainer
