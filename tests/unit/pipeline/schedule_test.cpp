// Schedules against their closed formulas, for many pipelines: they end, keep as much as they may, and wait as little.
#include "muster/pipeline/schedule.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/pipeline/simulator.h"

namespace muster::pipeline {
namespace {

constexpr Schedule kPlain[] = {Schedule::kGpipe, Schedule::kOneForwardOneBackward};

TEST(Schedule, EveryPipelineEndsWithEveryLaneDoneOnce) {
  for (const Schedule schedule : kPlain) {
    for (std::size_t stages = 1; stages <= 9; ++stages) {
      for (std::size_t lanes = 0; lanes <= 20; ++lanes) {
        const Simulation done = simulate(schedule, {stages, lanes, 1});
        EXPECT_EQ(done.wrong, "") << stages << " stages, " << lanes << " lanes";
      }
    }
  }
  for (std::size_t stages = 1; stages <= 6; ++stages) {
    for (std::size_t chunks = 2; chunks <= 4; ++chunks) {
      for (std::size_t lanes = 0; lanes <= 17; ++lanes) {
        const Simulation done = simulate(Schedule::kInterleaved, {stages, lanes, chunks});
        EXPECT_EQ(done.wrong, "") << stages << " stages, " << lanes << " lanes, " << chunks << " chunks";
      }
    }
  }
}

TEST(Schedule, OneForwardOneBackwardIsThatOfThePaper) {
  const std::vector<Action> first = actions_of(Schedule::kOneForwardOneBackward, {3, 4, 1}, 0);
  const std::vector<Action> expected{{true, 0, 0}, {true, 1, 0},  {true, 2, 0},  {false, 0, 0},
                                     {true, 3, 0}, {false, 1, 0}, {false, 2, 0}, {false, 3, 0}};
  EXPECT_EQ(first, expected);
  const std::vector<Action> last = actions_of(Schedule::kOneForwardOneBackward, {3, 2, 1}, 2);
  EXPECT_EQ(last, (std::vector<Action>{{true, 0, 2}, {false, 0, 2}, {true, 1, 2}, {false, 1, 2}}));
}

TEST(Schedule, InterleavedIsThatOfMegatron) {
  // Two stages of two chunks, four lanes: the forwards of the first stage, and how many come before the first backward.
  const std::vector<Action> first = actions_of(Schedule::kInterleaved, {2, 4, 2}, 0);
  std::vector<std::pair<std::size_t, std::size_t>> forwards;
  for (const Action& action : first)
    if (action.forward) forwards.emplace_back(action.lane, action.part);
  const std::vector<std::pair<std::size_t, std::size_t>> expected{{0, 0}, {1, 0}, {0, 2}, {1, 2},
                                                                  {2, 0}, {3, 0}, {2, 2}, {3, 2}};
  EXPECT_EQ(forwards, expected);
  const auto back = std::ranges::find(first, false, &Action::forward);
  EXPECT_EQ(back - first.begin(), 2 + 2 + 1);  // 2 (p-1) + (v-1) p, and one more by turns
  EXPECT_EQ(*back, (Action{false, 0, 2}));
}

TEST(Schedule, KeepsAsManyLanesAsTheFormulaSays) {
  for (std::size_t stages = 1; stages <= 8; ++stages) {
    for (std::size_t lanes = 1; lanes <= 20; ++lanes) {
      const Simulation all = simulate(Schedule::kGpipe, {stages, lanes, 1});
      const Simulation few = simulate(Schedule::kOneForwardOneBackward, {stages, lanes, 1});
      for (std::size_t stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(all.kept[stage], lanes);
        EXPECT_EQ(few.kept[stage], std::min(stages - stage, lanes)) << stages << " " << lanes << " " << stage;
      }
    }
  }
}

TEST(Schedule, WaitsAsLongAsTheFormulaSays) {
  for (const Schedule schedule : kPlain) {
    for (std::size_t stages = 1; stages <= 8; ++stages) {
      for (std::size_t lanes = 1; lanes <= 32; ++lanes) {
        const Simulation done = simulate(schedule, {stages, lanes, 1});
        const double p = static_cast<double>(stages);
        const double m = static_cast<double>(lanes);
        EXPECT_NEAR(done.bubble, (p - 1) / (m + p - 1), 1e-12) << stages << " " << lanes;
        EXPECT_NEAR(bubble_of({stages, lanes, 1}), (p - 1) / (m + p - 1), 1e-12);
      }
    }
  }
}

TEST(Schedule, ChunksDivideTheBubble) {
  for (std::size_t stages = 2; stages <= 6; ++stages) {
    for (std::size_t chunks = 2; chunks <= 4; ++chunks) {
      for (std::size_t groups = 1; groups <= 4; ++groups) {
        const Shape shape{stages, stages * groups, chunks};
        const double p = static_cast<double>(stages);
        const double m = static_cast<double>(shape.lanes);
        const double v = static_cast<double>(chunks);
        const double expected = (p - 1) / v / (m + (p - 1) / v);
        EXPECT_NEAR(simulate(Schedule::kInterleaved, shape).bubble, expected, 1e-12)
            << stages << " " << chunks << " " << groups;
        EXPECT_NEAR(bubble_of(shape), expected, 1e-12);
      }
    }
  }
}

TEST(Schedule, AnUnknownNameIsToldTheNearest) {
  try {
    parse_schedule("1b1f");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_NE(error.remedy().find("1f1b"), std::string::npos);
  }
  for (const std::string& name : schedule_names())
    EXPECT_NO_THROW(parse_schedule(name));
}

}  // namespace
}  // namespace muster::pipeline
