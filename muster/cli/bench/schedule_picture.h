// What the stages of a pipeline did in one step, as a picture: a row a stage, a box each time it computed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace muster::cli {

// Milliseconds since the step began.
struct Computed {
  std::size_t stage = 0;
  std::size_t lane = 0;
  std::size_t part = 0;  // of the model; stage and part differ where a stage has several
  bool forward = true;
  double begin = 0;
  double end = 0;
};

struct ScheduleTrace {
  std::string title{};
  std::size_t stages = 0;
  std::vector<Computed> computed{};
};

// SVG: the traces one below the other, with one scale of time.
std::string draw_schedules(const std::vector<ScheduleTrace>& traces);

}  // namespace muster::cli
