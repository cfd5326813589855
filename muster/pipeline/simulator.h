// Goes through the lists of actions of all stages as processes would: each does its own in order, and waits for what
// the part before or behind has to give. Shows whether they can end at all, how long they take, how much of it is
// waiting, and how many lanes a stage keeps for backward. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "muster/pipeline/schedule.h"

namespace muster::pipeline {

struct Times {
  // Of part `part` for one lane.
  std::function<double(std::size_t part)> forward = [](std::size_t) { return 1.0; };
  std::function<double(std::size_t part)> backward = [](std::size_t) { return 2.0; };
  double passage = 0;  // from one stage to another
};

struct Simulation {
  std::string wrong{};              // why the lists are none of a pipeline, or who waits for whom for ever; else empty
  double seconds = 0;               // from the first start to the last end
  double bubble = 0;                // share of all stages' time in which they wait
  std::vector<double> busy{};       // seconds, by stage
  std::vector<std::size_t> kept{};  // by stage: most parts of lanes whose forward is done and backward is not
};

// `lists[s]` is what stage s does. Every lane of every part has to go forward once, then back once, at its stage.
Simulation simulate(const Shape& shape, const std::vector<std::vector<Action>>& lists, const Times& times = {});
// Of a schedule.
Simulation simulate(Schedule schedule, const Shape& shape, const Times& times = {});

}  // namespace muster::pipeline
