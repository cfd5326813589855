// A strategy: how the lanes of a step, computed by one worker or many, become the next committed version of the model.
//
// The worker's loop is the same for every strategy:
//   begin_step(plan); while (lane = claim()) { compute into area(*lane); finish(*lane, report); } commit(rule);
// A strategy owns the memory of the model's state. Committed state is parameters, optimizer state, buffers and cursor:
// they move together from one step to the next or not at all. No torch here.
//
// Thread safety: one thread of a worker drives it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/comm/group.h"
#include "muster/compute/buffer_layout.h"
#include "muster/compute/lane_area.h"
#include "muster/compute/slice_update.h"
#include "muster/data/lane_plan.h"
#include "muster/model/flat_layout.h"
#include "muster/strategies/host_records.h"
#include "muster/strategies/lane_result.h"
#include "muster/strategies/lane_share.h"
#include "muster/strategies/membership.h"
#include "muster/strategies/step_outcome.h"
#include "muster/strategies/strategy_choice.h"

namespace muster::strategies {

// A part of the committed state beside the model and its optimizer: outer momentum, residuals of a codec.
struct ExtraPart {
  std::string name;
  std::span<const std::byte> bytes;
};

// The committed state, for reading: valid until the next commit() or restore(). What is not in it does not exist after
// a failure.
struct CommittedState {
  std::span<const float> parameters;
  std::array<std::span<const float>, 2> state;  // slots of the optimizer; unused ones empty
  std::span<const std::uint64_t> updates;       // per tensor
  std::span<const std::byte> buffers;
  data::Cursor cursor;
  std::vector<ExtraPart> extra{};  // what the strategy keeps beyond; restore() begins anew with what is missing

  // Empty when it is not there.
  std::span<const std::byte> extra_part(std::string_view name) const {
    for (const ExtraPart& part : extra) {
      if (part.name == name) return part.bytes;
    }
    return {};
  }
};

// The same, to be written.
struct StateToFill {
  compute::Version version;
  std::span<std::byte> buffers;
};
using FillState = std::function<void(const StateToFill&)>;

// What a strategy is made from.
struct StrategyOptions {
  model::FlatLayout layout;
  compute::BufferLayout buffers;
  int slots = 0;                           // of the optimizer
  std::size_t lanes = 1;                   // at most, in one step
  comm::Group group{};                     // the workers
  NoteWriter note{};                       // of a fixed group's leader; none: it leaves no note
  std::shared_ptr<Membership> met{};       // of a fixed group that has a membership already: `group` is that of it
  Claims claims = Claims::kStatic;         // where lanes belong to nobody before they are claimed
  std::optional<Supervised> supervised{};  // then `group` is not used
  std::chrono::seconds step_timeout{300};  // for the other workers' part of a step, in threads that wait by themselves
  // With Traits::passes_lanes, where several workers compute a lane together: which lanes are this worker's among the
  // present members; empty: each worker has lanes of its own. `passage_bytes` of each lane are for what they pass on.
  std::function<LaneShare(const Members&)> share{};
  std::size_t passage_bytes = 0;
  // For strategies whose updates are made elsewhere: what the rules given to commit() are made of.
  compute::OptimizerOptions optimizer{};
  std::vector<compute::TensorRule> rules{};
  // Of a job of several hosts whose steps need all of them: what goes with every step; none: nothing does.
  std::shared_ptr<HostRecords> records{};
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Memory of the two versions of the parameters, and what keeps it alive: the model's tensors are views into it.
  virtual std::array<std::span<const float>, 2> parameter_versions() = 0;
  virtual std::shared_ptr<void> memory() = 0;
  // Which of the two is committed, 0 or 1.
  virtual int committed_version() const = 0;
  virtual CommittedState committed() const = 0;
  // Bytes that this worker holds of the model's state: versions of parameters and optimizer state, gradients. What the
  // workers of a host share counts at one of them.
  virtual std::size_t state_bytes() const = 0;

  // Sets the committed state: the model's first values, or a checkpoint's. Every worker calls it, and what the first
  // one gives counts. REQUIRES: sizes of the layouts; between steps; where members are replaced: before they meet.
  virtual void restore(const CommittedState& state) = 0;
  // The same without a copy of the state, which is written where it stays: `fill` is called where what this worker
  // gives counts, and writes all of it, over whatever is there. False: this strategy has no such place, nothing was
  // done, and restore() it is.
  virtual bool restore_in_place(const data::Cursor& /*cursor*/, const FillState& /*fill*/) { return false; }

  // Who trains together. This worker meets them and rejoins them through it, and tells the strategy after each time.
  virtual Membership& membership() = 0;
  // This worker has met the others, or rejoined them after a loss: goes on from the committed state as it is. Gives the
  // outcome of the step in work if that was committed after all.
  virtual std::optional<StepOutcome> enter_generation() { return {}; }
  // The same outcome where nobody can be met any more: committed() is of a step that this worker knows from then on.
  virtual std::optional<StepOutcome> settle_step() { return {}; }

  // The rule of the step that begins next, for strategies that update before commit(). Optimizer and rules of tensors
  // are those of StrategyOptions; the rate and clipping may change.
  virtual void announce_rule(const compute::UpdateRule& /*rule*/) {}
  // Starts the step that `plan` describes; a step that was begun and not committed is forgotten.
  // REQUIRES: plan.at is the committed cursor.
  virtual void begin_step(const data::StepPlan& plan) = 0;
  // The lanes of `plan` that this worker will probably claim, in that order: a hint for loading ahead, not a promise.
  virtual std::vector<std::size_t> expected_lanes(const data::StepPlan& plan) const = 0;
  // The next lane this worker computes; nothing when no lane is left for it.
  virtual std::optional<std::size_t> claim() = 0;
  virtual compute::LaneArea area(std::size_t lane) = 0;
  // With Traits::passes_lanes: memory of the lane that all workers of the host see, between begin_step() and commit().
  virtual std::span<std::byte> passage(std::size_t /*lane*/) { return {}; }
  virtual void finish(std::size_t lane, const LaneResult& result) = 0;

  // Whether the gradients of `lane` are used before it is finished: its worker then tells of each tensor as soon as
  // backward has given its gradient, which must not change after that. Tensors without one are not told of.
  virtual bool uses_ready_gradients(std::size_t /*lane*/) const { return false; }
  virtual void gradient_ready(std::size_t /*lane*/, std::size_t /*tensor*/) {}

  // With Traits::shares_lanes, between wait_lanes() and commit(): area() shows the finished lanes of every worker, and
  // lane_worker() by whom they were computed. Throws Error{kTimeout | kPeerLost}.
  virtual void wait_lanes(const Deadline& /*deadline*/) {}
  virtual int lane_worker(std::size_t /*lane*/) const { return 0; }
  // Which lanes are meant: those of other hosts are not here.
  virtual bool shows_lane(std::size_t /*lane*/) const { return true; }

  // Waits until all lanes are finished, reduces, updates, commits. Throws Error{kTimeout | kPeerLost}.
  virtual StepOutcome commit(const compute::UpdateRule& rule, Deadline deadline) = 0;

  // Makes the committed state the same on every worker, for a checkpoint, an evaluation or the end of the job; the
  // committed version may become the other one. Every worker calls it, between steps. Nothing to do for strategies
  // whose steps do so. Throws as commit().
  virtual void synchronize(Deadline) {}

  // What the strategy has counted beside the steps, as a JSON object; empty: nothing. Any worker may ask, between
  // steps.
  virtual std::string counted() { return {}; }
};

}  // namespace muster::strategies
