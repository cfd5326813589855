// The simulator has to find what is wrong, or it proves nothing of schedules.
#include "muster/pipeline/simulator.h"

#include <gtest/gtest.h>

namespace muster::pipeline {
namespace {

using Lists = std::vector<std::vector<Action>>;

TEST(Simulator, NamesStagesThatWaitForEachOther) {
  // The last stage wants lane 1 first, the first one gives lane 0 and waits for its way back.
  const Lists lists{{{true, 0, 0}, {false, 0, 0}, {true, 1, 0}, {false, 1, 0}},
                    {{true, 1, 1}, {false, 1, 1}, {true, 0, 1}, {false, 0, 1}}};
  const Simulation done = simulate({2, 2, 1}, lists);
  EXPECT_NE(done.wrong.find("stage 0 waits for ever to do backward of lane 0"), std::string::npos) << done.wrong;
  EXPECT_NE(done.wrong.find("stage 1 waits for ever to do forward of lane 1"), std::string::npos) << done.wrong;
}

TEST(Simulator, FindsWhatIsMissingDoubleOrSomebodyElses) {
  EXPECT_NE(simulate({1, 2, 1}, Lists{{{true, 0, 0}, {false, 0, 0}}}).wrong, "");
  EXPECT_NE(simulate({1, 1, 1}, Lists{{{true, 0, 0}, {true, 0, 0}, {false, 0, 0}}}).wrong, "");
  EXPECT_NE(simulate({1, 1, 1}, Lists{{{false, 0, 0}, {true, 0, 0}}}).wrong, "");
  EXPECT_NE(simulate({2, 1, 1}, Lists{{{true, 0, 1}, {false, 0, 1}}, {{true, 0, 0}, {false, 0, 0}}}).wrong, "");
}

TEST(Simulator, AddsUpWhatStagesTake) {
  // Two stages, one lane: forward 1 and 3, backward 2 and 4, half a second between them.
  Times times;
  times.forward = [](std::size_t part) { return part == 0 ? 1.0 : 3.0; };
  times.backward = [](std::size_t part) { return part == 0 ? 2.0 : 4.0; };
  times.passage = 0.5;
  const Simulation done = simulate(Schedule::kOneForwardOneBackward, {2, 1, 1}, times);
  EXPECT_EQ(done.wrong, "");
  EXPECT_DOUBLE_EQ(done.seconds, 1 + 0.5 + 3 + 4 + 0.5 + 2);
  EXPECT_EQ(done.busy, (std::vector<double>{3, 7}));
  EXPECT_DOUBLE_EQ(done.bubble, 1 - 10.0 / 22.0);
}

TEST(Simulator, NoLanesTakeNoTime) {
  const Simulation done = simulate(Schedule::kGpipe, {3, 0, 1});
  EXPECT_EQ(done.wrong, "");
  EXPECT_EQ(done.seconds, 0);
  EXPECT_EQ(done.bubble, 0);
}

}  // namespace
}  // namespace muster::pipeline
