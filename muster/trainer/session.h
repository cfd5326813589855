// A session: one model in synchronous training. The loop that users write, and that `muster train` runs:
//
//   for (auto& lane : session.lanes(dataset)) {                     // one epoch, from where the session stands
//     lane.backward(cross_entropy(net->forward(lane.data), lane.target));
//   }
//
// Behind the loop lanes are claimed and loaded ahead, gradients land in the lane's area, and when the last lane of a
// step is done the lanes are reduced, the optimizer applied and the step committed. Leaving the loop early (break,
// exception) forgets the unfinished step; the next lanes() starts it again.
//
// What survives a commit: the module and the tensors that parameters() gives. What goes stale: aliases made with
// view(), detach() or data(). Do not move the model with to() or load into it while a session holds it.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <torch/torch.h>

#include "muster/compute/lane_area.h"
#include "muster/compute/optimizer.h"
#include "muster/data/dataset.h"
#include "muster/data/lane_plan.h"
#include "muster/strategies/strategy.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/session_options.h"

namespace muster::trainer {

// One part of a step's batch, while this worker computes it. Its tensors are views of memory that the next lane reuses:
// clone() what is to outlive the turn of the loop.
class Lane {
 public:
  torch::Tensor data;
  torch::Tensor target;
  std::size_t index = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::span<const std::uint64_t> ids;  // the samples, as the data set numbers them
  bool repeated = false;               // computed once more, to verify it

  // Backpropagates `loss`, the mean over this lane's samples, weighted by the lane's share of the batch.
  // Call it once a lane, or several times for a loss in parts.
  void backward(const torch::Tensor& loss);
  // Tells every worker in this step's outcome that this one was asked to stop.
  void request_stop() { report_.stop = 1; }
  // Tells every worker in this step's outcome that this one knows of the job's changes up to `number`.
  void propose_change(std::uint64_t number) { report_.change = static_cast<double>(number); }
  // For the step's second figure, a sum over this lane's samples: correct answers, say.
  void add_score(double score) { report_.score += score; }

 private:
  friend class Session;
  double weight_ = 1;
  double samples_ = 0;
  bool has_backward_ = false;
  bool single_backward_ = false;  // its gradients are sent on while they come
  compute::LaneReport report_;
};

// Where the time of the steps so far went, in seconds.
struct PhaseTimes {
  double load = 0;     // waiting for samples
  double compute = 0;  // forward, backward and collecting gradients
  double update = 0;   // reduce, optimizer, commit
  double wait = 0;     // waiting for other workers
};

class Session {
 public:
  // Takes over the model's parameters. Throws Error{kUnsupported | kInvalidInput | kResource}.
  Session(std::shared_ptr<torch::nn::Module> module, const compute::OptimizerOptions& optimizer,
          const SessionOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // The rest of the current epoch over `dataset`, lane by lane; a whole epoch unless a checkpoint was resumed inside
  // one. The data set must stay the same from epoch to epoch and outlive the loop.
  class LaneRange;
  LaneRange lanes(std::shared_ptr<const data::Dataset> dataset);
  LaneRange lanes(const data::Dataset& dataset);

  // One whole step: `compute` is called for each lane of this worker. What lanes() does, with the outcome.
  using LaneFunction = std::function<void(Lane&)>;
  strategies::StepOutcome step(const std::shared_ptr<const data::Dataset>& dataset, const LaneFunction& compute);

  // Becomes one of the workers that train: done by the first step if nobody calls it before. A worker that comes later
  // than others has their committed state after it. All workers use the same data set.
  void meet(const std::shared_ptr<const data::Dataset>& dataset);
  // Those who train together now.
  strategies::Members members() const;
  // evaluate() (evaluation.h) of the session's model, shared among the workers; all of them call it, between steps, and
  // get the same result, the same bits as of one worker alone. Under a supervisor workers may be lost and come
  // meanwhile: those who are left do it all. Then members() are those who are there now. `options.group` is not used.
  std::optional<Evaluation> evaluate(const ForwardFunction& forward,
                                     const std::shared_ptr<const data::Dataset>& dataset,
                                     EvaluationOptions options = {});
  // After kPeerLost, under a supervisor: goes on with those who are left or have come. The step in work is to be begun
  // again, but for its finished lanes; if it was committed after all its outcome is given. lanes() does it by itself.
  std::optional<strategies::StepOutcome> rejoin();

  // What this worker begins now beside its steps, for those who watch it.
  void begin(comm::Activity activity);
  std::chrono::nanoseconds abandoned_for() const;
  // A text beside the state that outlives the workers, under a supervisor: written by the one that leads, of at most
  // 4,000 bytes. Empty where nobody keeps it.
  void write_note(const std::string& text);
  std::string note() const;

  // Other constants for the steps to come; every worker does it before the same step. Throws Error{kInvalidInput}.
  // REQUIRES: the optimizer's kind and its slots of state stay.
  void change_optimizer(const compute::OptimizerOptions& optimizer, const std::optional<double>& clip_norm);

  // Makes the state of all workers the same, where the strategy lets them go apart between steps (local_sgd): before an
  // evaluation, a checkpoint or the end. Every worker calls it. Nothing to do for other strategies.
  void synchronize();
  // strategies::Strategy::counted
  std::string counted();

  // Committed steps and the place in the epoch.
  const data::Cursor& cursor() const;
  // Of the last committed step.
  const strategies::StepOutcome& last_outcome() const;
  double learning_rate() const;  // of the next step
  std::uint64_t lane_count() const;
  std::uint64_t batch() const;
  std::uint64_t parameter_count() const;
  std::size_t state_bytes() const;      // strategies::Strategy::state_bytes
  std::uint64_t skipped_steps() const;  // whose gradient was not finite, since the session began
  PhaseTimes times() const;

  // Weights and buffers as one safetensors file. Throws Error{kResource | kIo}.
  void save(const std::filesystem::path& path) const;
  // A checkpoint that resume() continues from, in a folder that may hold several. Every worker may call it; the first
  // one writes. Throws as save. A session that is stopped by a signal writes its last one into the folder of the last
  // call of this or resume().
  void checkpoint(const std::filesystem::path& folder) const;
  // Continues from the newest whole checkpoint in `folder`; false when there is none. Throws Error{kMismatch} when it
  // is of another model, batch, lanes, seed or optimizer.
  bool resume(const std::filesystem::path& folder);
  // SHA-256 over all parameters and buffers, in order of their names: equal for equal bits.
  std::string weights_hash() const;

  // For the parts of Muster that store and restore the whole state.
  strategies::CommittedState committed() const;
  void restore(const strategies::CommittedState& state);
  const model::FlatLayout& layout() const;
  const compute::BufferLayout& buffer_layout() const;
  std::span<const std::string> slot_names() const;

  // The next lane of the current step, committing it and starting another as needed; null at the end of the epoch.
  Lane* next_lane(const std::shared_ptr<const data::Dataset>& dataset);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Session::LaneRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Lane;
    using difference_type = std::ptrdiff_t;
    using pointer = Lane*;
    using reference = Lane&;

    Lane& operator*() const { return *lane_; }
    Lane* operator->() const { return lane_; }
    Iterator& operator++() {
      lane_ = range_->session_->next_lane(range_->dataset_);
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return lane_ == nullptr; }

   private:
    friend class LaneRange;
    Iterator(LaneRange* range, Lane* lane) : range_(range), lane_(lane) {}
    LaneRange* range_;
    Lane* lane_;
  };

  Iterator begin() { return {this, session_->next_lane(dataset_)}; }
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Session;
  LaneRange(Session* session, std::shared_ptr<const data::Dataset> dataset)
      : session_(session), dataset_(std::move(dataset)) {}
  Session* session_;
  std::shared_ptr<const data::Dataset> dataset_;
};

}  // namespace muster::trainer
