// Every schedule against its closed formula, with exact values at its ends.
#include "muster/compute/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "muster/base/error.h"
#include "muster/compute/power.h"

namespace muster::compute {
namespace {

using Kind = Schedule::Kind;
using testing::DoubleNear;

TEST(Schedule, ConstantIsTheBaseRate) {
  const Schedule schedule;
  for (const std::uint64_t step : {0UL, 1UL, 1000000UL})
    EXPECT_EQ(lr_at(schedule, 0.3, step), 0.3);
}

TEST(Schedule, AFunctionOfTheProgramsOwnIsAFactorOfTheBaseRate) {
  const Schedule schedule{.warmup_steps = 2,
                          .factor = [](std::uint64_t step) { return step == 7 ? -1.0 : 1.0 / step; }};
  validate(schedule);
  EXPECT_DOUBLE_EQ(lr_at(schedule, 0.4, 0), 0.04) << "warm-up comes first";
  EXPECT_DOUBLE_EQ(lr_at(schedule, 0.4, 4), 0.1);
  EXPECT_THROW(lr_at(schedule, 0.4, 7), Error);
  EXPECT_THROW(validate({.kind = Kind::kStep, .factor = [](std::uint64_t) { return 1.0; }}), Error);
}

TEST(Schedule, WarmUpRisesLinearlyToTheBaseRate) {
  const Schedule schedule{.warmup_steps = 10, .warmup_start = 0.2, .total_steps = 100};
  for (std::uint64_t step = 0; step < 10; ++step) {
    EXPECT_DOUBLE_EQ(lr_at(schedule, 0.8, step), 0.8 * (0.2 + 0.08 * static_cast<double>(step)));
  }
  EXPECT_DOUBLE_EQ(lr_at(schedule, 0.8, 0), 0.16);
  EXPECT_EQ(lr_at(schedule, 0.8, 10), 0.8);
}

TEST(Schedule, WarmUpMayBeAFractionOfAStep) {
  const Schedule schedule{.warmup_steps = 2.5, .warmup_start = 0, .total_steps = 10};
  EXPECT_EQ(lr_at(schedule, 1, 0), 0);
  EXPECT_DOUBLE_EQ(lr_at(schedule, 1, 1), 0.4);
  EXPECT_DOUBLE_EQ(lr_at(schedule, 1, 2), 0.8);
  EXPECT_EQ(lr_at(schedule, 1, 3), 1);
}

TEST(Schedule, StepFallsAtEachMilestone) {
  const Schedule schedule{.kind = Kind::kStep, .total_steps = 100, .milestones = {30, 60.5, 60.5}, .gamma = 0.5};
  EXPECT_EQ(lr_at(schedule, 0.8, 0), 0.8);
  EXPECT_EQ(lr_at(schedule, 0.8, 29), 0.8);
  EXPECT_EQ(lr_at(schedule, 0.8, 30), 0.4);
  EXPECT_EQ(lr_at(schedule, 0.8, 60), 0.4);
  EXPECT_EQ(lr_at(schedule, 0.8, 61), 0.1);
  EXPECT_EQ(lr_at(schedule, 0.8, 1000), 0.1);
}

TEST(Schedule, MilestonesCountFromTheStartOfTheRun) {
  const Schedule schedule{
      .kind = Kind::kStep, .warmup_steps = 20, .total_steps = 100, .milestones = {10, 50}, .gamma = 0.1};
  EXPECT_DOUBLE_EQ(lr_at(schedule, 1, 20), 0.1);
  EXPECT_DOUBLE_EQ(lr_at(schedule, 1, 50), 0.01);
}

TEST(Schedule, CosineIsTheClosedFormula) {
  const Schedule schedule{.kind = Kind::kCosine, .warmup_steps = 7, .total_steps = 1000, .final_fraction = 0.1};
  for (std::uint64_t step = 7; step <= 1000; ++step) {
    const double t = static_cast<double>(step - 7) / 993;
    EXPECT_THAT(lr_at(schedule, 0.1, step),
                DoubleNear(0.1 * (0.1 + 0.9 * (1 + std::cos(std::numbers::pi * t)) / 2), 1e-16));
  }
}

TEST(Schedule, CosineIsExactAtItsEnds) {
  const Schedule schedule{.kind = Kind::kCosine, .total_steps = 90};
  EXPECT_EQ(lr_at(schedule, 0.3, 0), 0.3);
  EXPECT_THAT(lr_at(schedule, 0.3, 45), DoubleNear(0.15, 1e-16));
  EXPECT_GT(lr_at(schedule, 0.3, 89), 0);
  EXPECT_EQ(lr_at(schedule, 0.3, 90), 0);
  EXPECT_EQ(lr_at(schedule, 0.3, 91), 0) << "stays where it ended";
}

TEST(Schedule, PolynomialIsTheClosedFormula) {
  for (const double power : {0.0, 0.5, 1.0, 2.0, 2.5}) {
    const Schedule schedule{
        .kind = Kind::kPolynomial, .warmup_steps = 10, .total_steps = 110, .power = power, .final_fraction = 0.01};
    for (std::uint64_t step = 10; step <= 110; ++step) {
      const double t = static_cast<double>(step - 10) / 100;
      EXPECT_THAT(lr_at(schedule, 2, step), DoubleNear(2 * (0.01 + 0.99 * std::pow(1 - t, power)), 1e-15));
    }
    EXPECT_EQ(lr_at(schedule, 2, 200), lr_at(schedule, 2, 110));
  }
}

TEST(Schedule, ARunOfOneStepTakesTheBaseRate) {
  for (const Kind kind : {Kind::kConstant, Kind::kStep, Kind::kCosine, Kind::kPolynomial}) {
    EXPECT_EQ(lr_at({.kind = kind, .total_steps = 1}, 0.5, 0), 0.5);
  }
}

TEST(Schedule, ARunOfNoStepsIsAtItsEnd) {
  EXPECT_EQ(lr_at({.kind = Kind::kConstant}, 0.5, 0), 0.5);
  EXPECT_EQ(lr_at({.kind = Kind::kStep}, 0.5, 0), 0.5);
  EXPECT_EQ(lr_at({.kind = Kind::kCosine, .final_fraction = 0.25}, 0.5, 0), 0.125);
  EXPECT_EQ(lr_at({.kind = Kind::kPolynomial, .final_fraction = 0.25}, 0.5, 0), 0.125);
}

TEST(Schedule, AWarmUpLongerThanTheRunIsCutByItsEnd) {
  const Schedule schedule{.kind = Kind::kCosine, .warmup_steps = 20, .warmup_start = 0, .total_steps = 10};
  EXPECT_DOUBLE_EQ(lr_at(schedule, 1, 9), 0.45);
  EXPECT_DOUBLE_EQ(lr_at(schedule, 1, 19), 0.95);
  EXPECT_EQ(lr_at(schedule, 1, 20), 0);
}

TEST(Schedule, EveryNameIsParsedAndPrinted) {
  EXPECT_THAT(schedule_names(), testing::ElementsAre("constant", "step", "cosine", "polynomial"));
  for (const std::string& name : schedule_names())
    EXPECT_EQ(to_string(parse_schedule(name)), name);
  EXPECT_THROW(parse_schedule("cosin"), Error);
  EXPECT_THROW(parse_schedule(""), Error);
}

TEST(Schedule, NumbersOutOfRangeAreRefusedByName) {
  EXPECT_NO_THROW(validate({}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, Schedule>> bad = {
      {"warmup_steps", {.warmup_steps = -1}},
      {"warmup_steps", {.warmup_steps = infinity}},
      {"warmup_start", {.warmup_start = 1.1}},
      {"warmup_start", {.warmup_start = nan}},
      {"milestones", {.milestones = {1, nan}}},
      {"gamma", {.gamma = -0.1}},
      {"power", {.power = infinity}},
      {"power", {.power = -1}},
      {"final_fraction", {.final_fraction = 1.5}},
  };
  for (const auto& entry : bad) {
    try {
      validate(entry.second);
      FAIL() << entry.first << " accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      EXPECT_THAT(error.what(), testing::HasSubstr(entry.first + " = "));
    }
  }
}

TEST(Schedule, OneThatFallsToItsEndNeedsAnEnd) {
  for (const Kind kind : {Kind::kCosine, Kind::kPolynomial}) {
    EXPECT_NO_THROW(validate({.kind = kind, .total_steps = 1}));
    try {
      validate({.kind = kind});
      FAIL() << to_string(kind);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      EXPECT_THAT(error.what(), testing::HasSubstr("total_steps"));
    }
  }
}

TEST(ScaledLr, FollowsTheBatchLinearly) {
  EXPECT_EQ(scaled_lr(0.01, 32, 256), 0.08);
  EXPECT_EQ(scaled_lr(0.1, 256, 256), 0.1);
  EXPECT_EQ(scaled_lr(0.1, 256, 128), 0.05);
  EXPECT_THAT(scaled_lr(0.1, 96, 32), DoubleNear(0.1 / 3, 1e-16));
  EXPECT_EQ(scaled_lr(0.1, 32, 0), 0);
}

TEST(WholePower, AgreesWithTheLibrary) {
  EXPECT_EQ(whole_power(0, 0), 1);
  EXPECT_EQ(whole_power(0, 5), 0);
  for (const double base : {0.5, 0.9, 0.999, 1.0, 1.5}) {
    for (const std::uint64_t exponent : {0UL, 1UL, 2UL, 3UL, 100UL, 1023UL}) {
      const double expected = std::pow(base, static_cast<double>(exponent));
      EXPECT_THAT(whole_power(base, exponent), DoubleNear(expected, 1e-12 * expected));
    }
  }
  EXPECT_EQ(whole_power(0.999, ~std::uint64_t{0}), 0);
}

}  // namespace
}  // namespace muster::compute
