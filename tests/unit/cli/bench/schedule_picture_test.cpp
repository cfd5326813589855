// A picture of a schedule: boxes lie where their times say, each trace below the other.
#include "muster/cli/bench/schedule_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SchedulePicture, HasABoxForEachTimeAStageComputed) {
  const std::string svg =
      draw_schedules({{.title = "gpipe",
                       .stages = 2,
                       .computed = {{.stage = 0, .lane = 0, .part = 0, .forward = true, .begin = 0, .end = 10},
                                    {.stage = 1, .lane = 0, .part = 1, .forward = false, .begin = 10, .end = 41}}},
                      {.title = "interleaved",
                       .stages = 2,
                       .computed = {{.stage = 1, .lane = 3, .part = 3, .forward = true, .begin = 41, .end = 82}}}});
  // 64 to 884 are 82 ms; the second stage's row is 24 below the first one's; the second trace begins at 88.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"64.0\" y=\"28.0\" width=\"100.0\" height=\"20\""));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"164.0\" y=\"52.0\" width=\"310.0\" height=\"20\""));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"474.0\" y=\"140.0\" width=\"410.0\" height=\"20\""));
  EXPECT_THAT(svg, HasSubstr("<title>lane 3, part 3, forward: 41.00 to 82.00 ms</title>"));
  EXPECT_THAT(svg, HasSubstr("lane 0, part 1, backward"));
  EXPECT_THAT(svg, HasSubstr(">interleaved</text>"));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
}

TEST(SchedulePicture, OfNothingIsOneAllTheSame) {
  EXPECT_THAT(draw_schedules({{.title = "1f1b", .stages = 1}}), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace muster::cli
