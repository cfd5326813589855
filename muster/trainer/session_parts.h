// What the parts of Muster tell a session beside what programs do (session_options.h): how its workers are known to
// each other, and which lanes they compute. Not installed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "muster/data/lane_order.h"
#include "muster/model/flat_layout.h"
#include "muster/strategies/host_records.h"
#include "muster/strategies/membership.h"

namespace muster::trainer {

struct StagedModel;  // staged_lanes.h

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
  // Which samples lanes compute, of a data set of just this size. Empty: any, by the epoch's permutation.
  std::shared_ptr<const data::LaneOrder> order{};
  // What to do when SessionOptions::most_skipped is reached, in the words of whoever chose what is trained. Empty:
  // those of a program.
  std::string skipped_remedy{};
  // The model in stages, which several workers compute together: step() with StagedCode. None: each lane has one
  // worker.
  std::shared_ptr<const StagedModel> staged{};
  // Writes the first parameters, by the layout, and buffers, of a module that has none itself (model/hollow.h); of
  // workers that share their state the first one calls it. None: they are the module's.
  std::function<void(const model::FlatLayout&, std::span<float> parameters, std::span<std::byte> buffers)>
      first_state{};
};

}  // namespace muster::trainer
