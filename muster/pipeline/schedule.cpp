// Each schedule is a number of forwards to begin with, a rule of which forward and which backward comes next, and
// turns.
#include "muster/pipeline/schedule.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::pipeline {
namespace {

struct Row {
  const char* name;
  Schedule schedule;
};
constexpr Row kRows[] = {
    {"gpipe", Schedule::kGpipe}, {"1f1b", Schedule::kOneForwardOneBackward}, {"interleaved", Schedule::kInterleaved}};

// `warm_up` forwards, then a forward and a backward by turns, then the backwards that are left.
std::vector<Action> in_turns(std::size_t count, std::size_t warm_up, const std::function<Action(std::size_t)>& forward,
                             const std::function<Action(std::size_t)>& backward) {
  std::vector<Action> actions;
  actions.reserve(2 * count);
  std::size_t done = 0;
  for (; done < std::min(warm_up, count); ++done)
    actions.push_back(forward(done));
  std::size_t back = 0;
  for (; done < count; ++done) {
    actions.push_back(forward(done));
    actions.push_back(backward(back++));
  }
  for (; back < count; ++back)
    actions.push_back(backward(back));
  return actions;
}

// As Megatron-LM has it, for lanes in groups of as many as there are stages: a group passes the first chunk, then the
// second, and so on. Of a last group that is not full the lanes that are missing are left out: what is left still waits
// only for what comes before it.
std::vector<Action> interleaved(const Shape& shape, std::size_t stage) {
  const std::size_t groups = (shape.lanes + shape.stages - 1) / shape.stages;
  const std::size_t count = groups * shape.stages * shape.chunks;
  const auto lane_of = [&](std::size_t k) { return k / shape.parts() * shape.stages + k % shape.stages; };
  const auto chunk_of = [&](std::size_t k) { return k % shape.parts() / shape.stages; };
  const auto forward = [&](std::size_t k) { return Action{true, lane_of(k), chunk_of(k) * shape.stages + stage}; };
  const auto backward = [&](std::size_t k) {
    return Action{false, lane_of(k), (shape.chunks - 1 - chunk_of(k)) * shape.stages + stage};
  };
  const std::size_t warm_up = (shape.stages - stage - 1) * 2 + (shape.chunks - 1) * shape.stages;
  std::vector<Action> actions = in_turns(count, warm_up, forward, backward);
  std::erase_if(actions, [&](const Action& action) { return action.lane >= shape.lanes; });
  return actions;
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows)
    names.emplace_back(row.name);
  return names;
}

Schedule parse_schedule(const std::string& name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.schedule;
  }
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("there is no schedule \"{}\"{}", name, did_you_mean(name, schedule_names())), {},
              fmt::format("Schedules are {}.", join_words(schedule_names())));
}

std::vector<Action> actions_of(Schedule schedule, const Shape& shape, std::size_t stage) {
  MUSTER_CHECK(stage < shape.stages && shape.chunks > 0, "a stage of the pipeline");
  MUSTER_CHECK(shape.chunks == 1 || schedule == Schedule::kInterleaved, "several chunks a stage are interleaved");
  if (shape.chunks > 1) return interleaved(shape, stage);
  const auto forward = [&](std::size_t k) { return Action{true, k, stage}; };
  const auto backward = [&](std::size_t k) { return Action{false, k, stage}; };
  const std::size_t warm_up = schedule == Schedule::kGpipe ? shape.lanes : shape.stages - stage - 1;
  return in_turns(shape.lanes, warm_up, forward, backward);
}

double bubble_of(const Shape& shape) {
  if (shape.lanes == 0) return 0;
  const auto waits = static_cast<double>(shape.stages - 1);
  return waits / (static_cast<double>(shape.lanes * shape.chunks) + waits);
}

}  // namespace muster::pipeline
