// An action begins when its stage is free and what it needs has come; stages are asked in turns until none gets on.
// What is left then waits for ever.
#include "muster/pipeline/simulator.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace muster::pipeline {
namespace {

std::string words(const Action& action) {
  return fmt::format("{} of lane {} through part {}", action.forward ? "forward" : "backward", action.lane,
                     action.part);
}

class Walk {
 public:
  Walk(const Shape& shape, const std::vector<std::vector<Action>>& lists, const Times& times)
      : shape_(shape), lists_(lists), times_(times) {
    forward_.resize(shape.lanes * shape.parts());
    backward_.resize(forward_.size());
    next_.resize(shape.stages);
    free_.resize(shape.stages);
    stored_.resize(shape.stages);
    result_.busy.resize(shape.stages);
    result_.kept.resize(shape.stages);
  }

  Simulation run() {
    for (bool moved = true; moved && result_.wrong.empty();) {
      moved = false;
      for (std::size_t stage = 0; stage < shape_.stages; ++stage)
        while (result_.wrong.empty() && step(stage))
          moved = true;
    }
    if (result_.wrong.empty()) finish();
    return result_;
  }

 private:
  using Ends = std::vector<std::optional<double>>;  // by lane and part: when it has ended

  std::optional<double>& at(Ends& ends, const Action& action) const {
    return ends[action.lane * shape_.parts() + action.part];
  }

  // When what `action` needs is at its stage; nothing: never so far.
  std::optional<double> needs(const Action& action) {
    Action before = action;
    if (action.forward) {
      if (action.part == 0) return 0.0;
      --before.part;
    } else {
      if (!at(forward_, action)) return std::nullopt;
      if (action.part + 1 == shape_.parts()) return at(forward_, action);
      ++before.part;
    }
    const std::optional<double> end = at(action.forward ? forward_ : backward_, before);
    if (!end) return std::nullopt;
    return *end + (shape_.stages > 1 ? times_.passage : 0);
  }

  // The next action of the stage, if it can be done.
  bool step(std::size_t stage) {
    if (next_[stage] == lists_[stage].size()) return false;
    const Action& action = lists_[stage][next_[stage]];
    if (action.lane >= shape_.lanes || action.part >= shape_.parts() || action.part % shape_.stages != stage ||
        at(action.forward ? forward_ : backward_, action)) {
      result_.wrong = fmt::format("stage {} has no business with {}, or did it before", stage, words(action));
      return false;
    }
    const std::optional<double> ready = needs(action);
    if (!ready) return false;
    const double duration = action.forward ? times_.forward(action.part) : times_.backward(action.part);
    free_[stage] = std::max(free_[stage], *ready) + duration;
    at(action.forward ? forward_ : backward_, action) = free_[stage];
    result_.busy[stage] += duration;
    stored_[stage] += action.forward ? 1 : -1;
    result_.kept[stage] = std::max(result_.kept[stage], static_cast<std::size_t>(stored_[stage]));
    ++next_[stage];
    return true;
  }

  void finish() {
    for (std::size_t stage = 0; stage < shape_.stages; ++stage) {
      if (next_[stage] == lists_[stage].size()) continue;
      result_.wrong += fmt::format("{}stage {} waits for ever to do {}", result_.wrong.empty() ? "" : "; ", stage,
                                   words(lists_[stage][next_[stage]]));
    }
    if (!result_.wrong.empty()) return;
    if (!std::ranges::all_of(backward_, [](const auto& end) { return end.has_value(); })) {
      result_.wrong = "some lane never goes back through some part";
      return;
    }
    result_.seconds = *std::ranges::max_element(free_);
    double busy = 0;
    for (const double seconds : result_.busy)
      busy += seconds;
    if (result_.seconds > 0) result_.bubble = 1 - busy / (static_cast<double>(shape_.stages) * result_.seconds);
  }

  const Shape& shape_;
  const std::vector<std::vector<Action>>& lists_;
  const Times& times_;
  Ends forward_;
  Ends backward_;
  std::vector<std::size_t> next_;  // by stage
  std::vector<double> free_;       // by stage: from when on
  std::vector<std::ptrdiff_t> stored_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Shape& shape, const std::vector<std::vector<Action>>& lists, const Times& times) {
  return Walk(shape, lists, times).run();
}

Simulation simulate(Schedule schedule, const Shape& shape, const Times& times) {
  std::vector<std::vector<Action>> lists;
  for (std::size_t stage = 0; stage < shape.stages; ++stage)
    lists.push_back(actions_of(schedule, shape, stage));
  return simulate(shape, lists, times);
}

}  // namespace muster::pipeline
