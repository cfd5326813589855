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
#include "muster/comm/board.h"
#include "muster/comm/group.h"
#include "muster/comm/store.h"
#include "muster/compute/buffer_layout.h"
#include "muster/compute/lane_area.h"
#include "muster/compute/slice_update.h"
#include "muster/data/lane_plan.h"
#include "muster/model/flat_layout.h"
#include "muster/strategies/parameter_server/consistency.h"

namespace muster::strategies {

// The committed state, for reading: valid until the next commit() or restore().
struct CommittedState {
  std::span<const float> parameters;
  std::array<std::span<const float>, 2> state;  // slots of the optimizer; unused ones empty
  std::span<const std::uint64_t> updates;       // per tensor
  std::span<const std::byte> buffers;
  data::Cursor cursor;
};

struct StepOutcome {
  bool applied = true;       // false: a gradient was not finite; step and cursor advanced, the model did not change
  double gradient_norm = 0;  // before clipping
  double loss = 0;           // mean over the step's samples
  double score = 0;          // sum over the step's samples
  std::uint64_t samples = 0;
  double waited = 0;         // seconds of this worker, for others
  bool stop = false;         // some worker was asked to stop; the same on every worker
  std::uint64_t change = 0;  // the highest change of the job that some worker knew of; the same on every worker
  bool synchronized = true;  // false: the workers' states differ until they meet again (local_sgd)

  // What all lanes of the step told. REQUIRES: samples is set.
  void take(const compute::LaneReport& totals) {
    loss = totals.loss_sum / static_cast<double>(samples);
    score = totals.score;
    stop = totals.stop > 0;
    change = static_cast<std::uint64_t>(totals.change);
  }
};

// Who computes which lane. The result is the same.
enum class Claims {
  kStatic,   // worker r of n: lanes r, r + n, ...
  kDynamic,  // its own as before, then any that nobody has begun: a slow worker computes fewer
};

class GradientCodec;  // all_reduce/bucket_reducer.h

// all_reduce alone.
struct AllReduceOptions {
  std::size_t bucket_bytes = std::size_t{4} << 20;  // of a fusion bucket; at least one block goes into each
  std::shared_ptr<GradientCodec> codec{};           // how a bucket is summed over the workers; none: as it is
  bool overlap = false;                             // sum buckets in a thread of their own while backward goes on
  std::chrono::seconds overlap_timeout{300};        // for the other workers' part of a bucket, with overlap
};

// local_sgd alone (local_sgd/local_sgd.h).
struct LocalSgdOptions {
  std::uint64_t period = 8;          // steps from average to average; 0: an epoch
  std::uint64_t averaged_steps = 0;  // post-local: so many steps at the start of the job are averaged one by one
  double outer_lr = 1;               // of the averaged change
  double outer_momentum = 0;         // over averages; at least 0 and below 1
  bool average_state = true;         // average the optimizer's state too; false: each worker keeps its own
};

// parameter_server alone (parameter_server/parameter_server.h).
struct ParameterServerOptions {
  std::vector<Phase> phases{{}};
  int servers = 0;              // processes that somebody else has started; 0: every worker serves a part
  int copies = 1;               // of every chunk, on different servers
  std::uint64_t staleness = 3;  // ssp: steps that a worker may be ahead of the slowest
  int backups = 1;              // backup: lanes that a step does not wait for
  bool staleness_rate = false;  // an update that comes n versions late has 1/n of the learning rate
  std::size_t chunk_bytes = std::size_t{1} << 20;
  bool grpc = false;            // calls travel by gRPC streams; else through shared memory
  double snapshot_seconds = 0;  // how often servers write their chunks to `folder`; 0: never
  std::string folder{};         // for snapshots; empty: none
  std::string event_log{};      // file in which is written down what was leased and applied; empty: none
};

// A worker whose fellows may be lost and replaced while it trains (shared_sync and parameter_server): somebody outside
// watches the processes and decides who is a member (launch/supervisor.h).
struct Supervised {
  std::shared_ptr<comm::Store> store;  // of the job
  std::string folder{};                // of the store, where it has one
  int seat = 0;                        // this worker's place, of `seats`
  int seats = 1;
  bool founder = false;  // makes the arena; the others find it
  std::string arena{};   // where it is to be had; empty: ask the store
  int attempt = 0;       // how many processes were on this seat before
  // How long to wait for somebody to decide on members while no supervisor lives; one that lives is waited for.
  std::chrono::nanoseconds patience = std::chrono::seconds(60);
  // Called now and then while it waits for its first generation; what it throws ends the wait.
  std::function<void()> interruption = [] {};
};

// Those who train together now.
struct Members {
  std::uint64_t generation = 0;  // counts changes of members
  comm::Group group{};           // this worker's place among them is its rank
  int leader = 0;                // the rank of the one that has been a member longest: it writes and speaks for all
  bool leads() const { return group.rank() == leader; }
};

// What a strategy is made from.
struct StrategyOptions {
  model::FlatLayout layout;
  compute::BufferLayout buffers;
  int slots = 0;                    // of the optimizer
  std::size_t lanes = 1;            // at most, in one step
  comm::Group group{};              // the workers
  Claims claims = Claims::kStatic;  // shared_sync alone: elsewhere a worker's lanes are its own
  AllReduceOptions all_reduce{};
  LocalSgdOptions local_sgd{};
  ParameterServerOptions parameter_server{};
  std::optional<Supervised> supervised{};  // then `group` is not used
  // For strategies whose updates are made elsewhere: what the rules given to commit() are made of.
  compute::OptimizerOptions optimizer{};
  std::vector<compute::TensorRule> rules{};
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
  // one gives counts. REQUIRES: sizes of the layouts; between steps; under a supervisor: before meet().
  virtual void restore(const CommittedState& state) = 0;

  // Becomes one of those who train, once, before the first step. Returns when this worker is a member. Nothing to do
  // where the group is fixed. Throws Error{kTimeout}.
  virtual void meet() {}
  virtual Members members() const = 0;
  // After kPeerLost: becomes a member of the next generation, with the committed state as it is. Gives the outcome of
  // the step in work if that was committed after all. Throws kUnsupported where the group is fixed, kTimeout.
  virtual std::optional<StepOutcome> rejoin();
  // For how long nobody has decided on members any more: the supervisor is gone. Zero while there is one. The workers
  // go on, and settle losses among themselves.
  virtual std::chrono::nanoseconds abandoned_for() const { return {}; }
  // What this worker begins now, for those who watch it.
  virtual void begin(comm::Activity /*activity*/) {}
  // A text that outlives all workers, if the strategy's memory does: the leader writes it, its successor reads it.
  virtual void write_note(const std::string& /*text*/) {}
  virtual std::string note() const { return {}; }

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
  virtual void finish(std::size_t lane, const compute::LaneReport& report) = 0;

  // Whether the gradients of `lane` are used before it is finished: its worker then tells of each tensor as soon as
  // backward has given its gradient, which must not change after that. Tensors without one are not told of.
  virtual bool uses_ready_gradients(std::size_t /*lane*/) const { return false; }
  virtual void gradient_ready(std::size_t /*lane*/, std::size_t /*tensor*/) {}

  // Whether area() shows the finished lanes of every worker, and by whom they were computed: for verifying them. Lanes
  // can be read between wait_lanes() and commit(). Throws Error{kTimeout | kPeerLost}.
  virtual bool shares_lanes() const { return false; }
  virtual void wait_lanes(const Deadline& /*deadline*/) {}
  virtual int lane_worker(std::size_t /*lane*/) const { return 0; }

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
