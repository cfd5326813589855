// Pipeline schedules: in which order a stage computes forward and backward of the lanes that go through it.
//
// A model is cut into parts, which lanes pass one after the other; part i is computed by stage i % stages, so a stage
// has one part, or several chunks that are a round of stages apart. Lanes are the micro-batches. Pure: every stage
// knows the lists of all others without asking.
//   gpipe        all forwards, then all backwards (Huang et al., 2019): keeps what all lanes need for backward
//   1f1b         after a warm-up one forward and one backward by turns (Narayanan et al., 2019): keeps at most as many
//                lanes as there are stages behind
//   interleaved  1f1b with several chunks a stage (Narayanan et al., 2021): a smaller bubble, and more passages
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace muster::pipeline {

enum class Schedule { kGpipe, kOneForwardOneBackward, kInterleaved };

// "gpipe", "1f1b", "interleaved".
std::vector<std::string> schedule_names();
// Throws Error{kInvalidInput} with the nearest name.
Schedule parse_schedule(const std::string& name);

struct Shape {
  std::size_t stages = 1;
  std::size_t lanes = 1;   // of one step, through this pipeline; may be 0
  std::size_t chunks = 1;  // parts of each stage; more than 1 with interleaved only

  std::size_t parts() const { return stages * chunks; }
};

struct Action {
  bool forward = true;
  std::size_t lane = 0;  // the how-manieth of those that go through this pipeline
  std::size_t part = 0;

  bool operator==(const Action&) const = default;
};

// What stage `stage` does, in this order. REQUIRES: stage < shape.stages; chunks == 1 unless interleaved.
std::vector<Action> actions_of(Schedule schedule, const Shape& shape, std::size_t stage);

// The share of time in which a stage has nothing to do when all parts take the same time, backward included:
// (p-1) / (m*v + p-1), for p stages, m lanes and v chunks. For interleaved that is so where lanes are a multiple of the
// stages. 0 without lanes.
double bubble_of(const Shape& shape);

}  // namespace muster::pipeline
