// What the parts of Muster tell a session beside what programs do (session_options.h): how its workers are known to
// each other, and what computes their lanes. Not installed.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "muster/strategies/host_records.h"
#include "muster/strategies/membership.h"

namespace muster::trainer {

class LaneExecutor;  // lane_executor.h
struct StagedModel;  // staged_lanes.h
struct LaneModel;

struct SessionParts {
  strategies::NoteWriter note{};  // takes what the workers' leader tells those who watch
  // Where these workers have met before, on several hosts: SessionOptions::group is the one of it.
  std::shared_ptr<strategies::Membership> met{};
  // Instead of SessionOptions::group: workers that may be lost and replaced while they train.
  std::optional<strategies::Supervised> supervised{};
  // Whether workers compare what is in their data sets, and not only how large they are: those of programs, each of
  // which opens its own.
  bool compares_contents = false;
  // Of a job of several hosts: what theirs have written down of a step goes from one to the other by it; none: nothing.
  std::shared_ptr<strategies::HostRecords> records{};
  // What computes a lane, of the model that is given. Empty: the program's own code, here.
  std::function<std::unique_ptr<LaneExecutor>(const LaneModel&)> executor{};
  // The model in stages, which several workers compute together: step() with StagedCode. None: each lane has one
  // worker.
  std::shared_ptr<const StagedModel> staged{};
};

}  // namespace muster::trainer
