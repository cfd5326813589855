// muster bench pipeline: how much of the time the stages of a pipeline wait, beside what the formula says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::cli {

struct PipelineBench {
  std::int64_t stages = 4;
  std::vector<std::int64_t> lanes{4, 8, 16, 32};
  std::vector<std::string> schedules{"gpipe", "1f1b", "interleaved"};
  std::int64_t chunks = 2;  // of interleaved
  double sleep = 10;        // milliseconds of a stage's forward; backward takes twice that
  std::int64_t steps = 5;
  std::int64_t width = 65536;  // floats of a sample that stages pass on
  std::string picture{};       // SVG of the last step of each schedule, with the first number of lanes
  bool json = false;
  // Of the processes that it starts.
  std::string rank_folder{};
  std::int64_t rank = -1;
};
void bench_pipeline(const PipelineBench& options);

}  // namespace muster::cli
