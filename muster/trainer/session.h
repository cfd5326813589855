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

#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "muster/compute/optimizer.h"
#include "muster/data/dataset.h"
#include "muster/data/lane_plan.h"
#include "muster/strategies/members.h"
#include "muster/strategies/step_outcome.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/lane.h"
#include "muster/trainer/model_parts.h"
#include "muster/trainer/session_options.h"

namespace muster::trainer {

class SessionCore;  // session_core.h: what the parts of Muster see of a session

class Session {
 public:
  // Takes over the model's parameters. Throws Error{kUnsupported | kInvalidInput | kResource}.
  Session(std::shared_ptr<torch::nn::Module> module, const compute::OptimizerOptions& optimizer,
          const SessionOptions& options);
  // A model in named parts, each with its module and optimizer: they step together, or some of them (Lane::backward),
  // and are committed, saved and recovered as one.
  Session(std::vector<ModelPart> parts, const SessionOptions& options);
  explicit Session(std::unique_ptr<SessionCore> core);  // for the parts of Muster
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // The rest of the current epoch over `dataset`, lane by lane; a whole epoch unless a checkpoint was resumed inside
  // one. The data set must stay the same from epoch to epoch and outlive the loop. Workers that are lost are replaced
  // meanwhile, where the strategy does so.
  class LaneRange;
  LaneRange lanes(std::shared_ptr<const data::Dataset> dataset);
  LaneRange lanes(const data::Dataset& dataset);

  // One whole step: `compute` is called for each lane of this worker. What lanes() does, with the outcome; lost workers
  // are replaced meanwhile, as there.
  using LaneFunction = std::function<void(Lane&)>;
  strategies::StepOutcome step(const std::shared_ptr<const data::Dataset>& dataset, const LaneFunction& compute);
  // One whole step on tensors that the program has made (games, draws from a memory): SessionOptions::batch rows each,
  // of which Lane::tensors are the lane's, in order. All workers give equal ones, so they are made of cursor() and the
  // committed tensors alone; then bits are those of one worker. An epoch is a step. Lost workers are replaced, as in
  // lanes(); the step is then computed again from the same tensors. Throws Error{kInvalidInput} for other numbers of
  // rows, where the session trains on a data set, with SessionOptions::sampling, and on a worker that comes later than
  // others and has not called meet() before.
  strategies::StepOutcome step(const std::vector<torch::Tensor>& tensors, const LaneFunction& compute);

  // Steps until `step` of them are committed, since the beginning and by whomever: lost workers are replaced meanwhile,
  // as in lanes(). Fewer only when stop_requested().
  void train_until(std::uint64_t step, const std::shared_ptr<const data::Dataset>& dataset,
                   const LaneFunction& compute);

  // Becomes one of the workers that train: done by the first step if nobody calls it before. A worker that comes later
  // than others has their committed state after it. All workers use the same data set.
  void meet(const std::shared_ptr<const data::Dataset>& dataset);
  void meet();  // of a session that trains on tensors
  // Those who train together now.
  strategies::Members members() const;
  // evaluate() (evaluation.h) of the session's model, shared among the workers; all of them call it, between steps, and
  // get the same result, the same bits as of one worker alone. Under a supervisor workers may be lost and come
  // meanwhile: those who are left do it all. Then members() are those who are there now. `options.group` is not used.
  std::optional<Evaluation> evaluate(const ForwardFunction& forward,
                                     const std::shared_ptr<const data::Dataset>& dataset,
                                     EvaluationOptions options = {});
  // measure() (evaluation.h): figures of the program's own over a data set, by lane.report(), with the same promises.
  compute::Figures measure(const MeasureFunction& function, const std::shared_ptr<const data::Dataset>& dataset,
                           EvaluationOptions options = {});
  // With SessionOptions::throw_when_stopped = false: SIGINT or SIGTERM, `muster stop` among them, has asked for the
  // end. The same on all workers after the same step. From then on lanes(), step() and train_until() throw
  // Error{kInterrupted}; evaluations, checkpoints and files go on.
  bool stop_requested() const;
  // Makes the state of all workers the same, where the strategy lets them go apart between steps (local_sgd): before
  // the program itself looks at the weights. Every worker calls it. evaluate(), measure(), checkpoint() and save() do
  // so by themselves; nothing to do for other strategies.
  void synchronize();

  // Committed steps and the place in the epoch.
  const data::Cursor& cursor() const;
  // Of the last committed step.
  const strategies::StepOutcome& last_outcome() const;

  // Weights and buffers as one safetensors file. All workers call it: the one that leads writes, and nobody goes on
  // before the file is there. If the one that writes is lost another does it. Throws Error{kResource | kIo}.
  void save(const std::filesystem::path& path);
  // A checkpoint that resume() continues from, in a folder that may hold several. All workers call it; the one that
  // leads writes. Throws as save. A session that is stopped by a signal writes its last one into the folder of the last
  // call of this or resume().
  void checkpoint(const std::filesystem::path& folder);
  // Continues from the newest whole checkpoint in `folder`; false when there is none. Throws Error{kMismatch} when it
  // is of another model, batch, lanes, seed or optimizer.
  bool resume(const std::filesystem::path& folder);
  // SHA-256 over all parameters and buffers, in order of their names: equal for equal bits.
  std::string weights_hash() const;

  // For the parts of Muster: not for programs, and not installed.
  SessionCore& core() const { return *core_; }

 private:
  // The next lane of the current step, committing it and starting another as needed; null at the end of the epoch.
  Lane* next_lane(const std::shared_ptr<const data::Dataset>& dataset);

  std::unique_ptr<SessionCore> core_;
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
