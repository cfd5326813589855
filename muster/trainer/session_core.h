// A session as the parts of Muster see it: what Session shows to programs, and the whole state, the members, and what a
// run needs beside its steps.
//
// It puts the parts together: the model on flat memory (compute/module_binding.h), the lane executor, the strategy and
// the driver of steps (step_driver.h). Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <torch/torch.h>

#include "muster/compute/module_binding.h"
#include "muster/compute/optimizer.h"
#include "muster/data/dataset.h"
#include "muster/launch/stop_signal.h"
#include "muster/strategies/strategy.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/frozen_parts.h"
#include "muster/trainer/lane_executor.h"
#include "muster/trainer/lane_feed.h"
#include "muster/trainer/model_parts.h"
#include "muster/trainer/run_lock.h"
#include "muster/trainer/session_agreement.h"
#include "muster/trainer/session_options.h"
#include "muster/trainer/session_parts.h"
#include "muster/trainer/session_report.h"
#include "muster/trainer/skipped_steps.h"
#include "muster/trainer/staged_lanes.h"
#include "muster/trainer/step_driver.h"

namespace muster::trainer {

class SessionCore {
 public:
  SessionCore(ModelParts model, const SessionOptions& options, SessionParts parts = {});
  SessionCore(std::shared_ptr<torch::nn::Module> module, const compute::OptimizerOptions& optimizer,
              const SessionOptions& options, SessionParts parts = {});
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;
  ~SessionCore();

  // --- Steps: session.h.
  void use(const std::shared_ptr<const data::Dataset>& dataset);
  const std::optional<LaneFeed>& feed() const { return feed_; }
  void abandon();
  Lane* next_lane(const std::shared_ptr<const data::Dataset>& dataset);
  strategies::StepOutcome step(const std::shared_ptr<const data::Dataset>& dataset,
                               const std::function<void(Lane&)>& compute);
  // The same, whoever is lost meanwhile: as often as it has to be begun again.
  strategies::StepOutcome step_through_losses(const std::shared_ptr<const data::Dataset>& dataset,
                                              const std::function<void(Lane&)>& compute);
  strategies::StepOutcome step(const std::vector<torch::Tensor>& tensors, const std::function<void(Lane&)>& compute);
  // The same where SessionParts::staged is given.
  strategies::StepOutcome step(const std::shared_ptr<const data::Dataset>& dataset, const StagedCode& code);
  strategies::StepOutcome step_through_losses(const std::shared_ptr<const data::Dataset>& dataset,
                                              const StagedCode& code);
  void train_until(std::uint64_t step, const std::shared_ptr<const data::Dataset>& dataset,
                   const std::function<void(Lane&)>& compute);
  void train_until(std::uint64_t step, const std::shared_ptr<const data::Dataset>& dataset, const StagedCode& code);
  // Other constants for the steps to come; every worker does it before the same step. Throws Error{kInvalidInput}.
  // REQUIRES: the optimizer's kind and its slots of state stay; the model is in one piece.
  void change_optimizer(const compute::OptimizerOptions& optimizer, const std::optional<double>& clip_norm);

  // --- Members.
  void meet(const std::shared_ptr<const data::Dataset>& dataset);
  void meet_for_tensors();
  strategies::Membership& membership() const { return strategy_->membership(); }
  const strategies::Members& members() const { return membership().members(); }
  // After kPeerLost, where lost workers are replaced: goes on with those who are left or have come. The step in work is
  // to be begun again, but for its finished lanes; if it was committed after all its outcome is given.
  std::optional<strategies::StepOutcome> rejoin();
  // Where nobody can be rejoined any more: the outcome of the step in work, if it was committed after all.
  std::optional<strategies::StepOutcome> settle_step();
  // What this worker begins now beside its steps, for those who watch it.
  void begin(comm::Activity activity) { membership().begin(activity); }
  std::optional<Evaluation> evaluate(const ForwardFunction& forward,
                                     const std::shared_ptr<const data::Dataset>& dataset, EvaluationOptions options);
  compute::Figures measure(const MeasureFunction& function, const std::shared_ptr<const data::Dataset>& dataset,
                           EvaluationOptions options);
  void save_together(const std::filesystem::path& path);
  bool stop_requested() const { return stop_requested_; }
  void require_going_on() const;  // throws kInterrupted after stop_requested()
  void synchronize();
  // Once after each step that has left the workers' states different; nothing to do else. For `call`, which all workers
  // make: who waits in vain is told so.
  void synchronize_if_apart(std::string_view call);

  // --- What is known.
  const data::Cursor& cursor() const { return cursor_; }
  const strategies::StepOutcome& last_outcome() const { return driver_.outcome(); }
  double learning_rate() const { return learning_rate(0); }  // of the first part
  const SkippedSteps& skipped_steps() const { return driver_.skipped(); }
  // What steps before these have skipped, which this session has not seen: SessionOptions::most_skipped counts them.
  void go_on_after(const SkippedSteps& skipped) { driver_.go_on_after(skipped); }
  const PhaseTimes& times() const { return driver_.times(); }
  std::uint64_t parameter_count() const { return binding_.layout().parameter_count(); }
  std::size_t state_bytes() const { return strategy_->state_bytes(); }
  std::string counted() { return strategy_->counted(); }  // strategies::Strategy::counted

  // --- The whole state.
  strategies::CommittedState committed() const { return strategy_->committed(); }
  void restore(const strategies::CommittedState& state);
  // The same of a state that `fill` writes, all of it, where it stays if the strategy has such a place.
  void restore(const data::Cursor& cursor, std::vector<strategies::ExtraPart> extra, const strategies::FillState& fill);
  // This worker's part in a restore() of the first one's, whose state counts: of workers that have nothing to give.
  void receive_state();
  const model::FlatLayout& layout() const { return binding_.layout(); }
  const compute::BufferLayout& buffer_layout() const { return binding_.buffer_layout(); }
  // Slots of state that this tensor of the layout has.
  std::span<const std::string> slot_names(std::size_t tensor) const { return slot_names_[rules_[tensor].part]; }
  // The same where the model is in one piece.
  std::span<const std::string> slot_names() const { return slot_names_.front(); }
  void save(const std::filesystem::path& path) const;
  void checkpoint(const std::filesystem::path& folder);
  bool resume(const std::filesystem::path& folder);
  std::string weights_hash() const;

 private:
  // How a part of the model is updated.
  struct PartUpdate {
    std::unique_ptr<const compute::Optimizer> optimizer;  // null: the part does not train
    double base_lr = 0;
    double weight_decay = 0;

    explicit PartUpdate(const std::optional<compute::OptimizerOptions>& options);
  };
  static std::vector<PartUpdate> part_updates(const ModelParts& model);
  static std::vector<std::vector<std::string>> slots_of(std::span<const PartUpdate> updates);
  std::vector<compute::TensorRule> tensor_rules() const;
  std::unique_ptr<strategies::Strategy> make_agreed_strategy() const;
  strategies::StrategyOptions strategy_options() const;
  LaneModel lane_model();
  StepDriver::Parts driver_parts();
  void agree_on(const std::string& what, const Agreement& mine) const;
  void check_strategy();
  void check_own_rules() const;
  double learning_rate(std::size_t part) const;
  int slots() const;
  compute::UpdateRule rule();
  void write_after_update(std::span<float> parameters, std::span<std::byte> buffers);
  void adopt_module();
  void put_state(const data::Cursor& cursor, std::vector<strategies::ExtraPart> extra,
                 const strategies::FillState& fill);
  void show_committed();
  void leave_note();
  void feed_from(const std::shared_ptr<const data::Dataset>& dataset, std::shared_ptr<const data::LaneOrder> order);
  void use_rows();
  void check_rows(const std::vector<torch::Tensor>& tensors) const;
  void meet();
  // That of the worker that leads; null for others, and where no file was named.
  SessionReport* report();
  void report_step();
  void count_after_all(const std::optional<strategies::StepOutcome>& committed);
  template <typename Code>
  strategies::StepOutcome make_step(const std::shared_ptr<const data::Dataset>& dataset, const Code& code);
  template <typename Code>
  void make_steps_until(std::uint64_t step, const std::shared_ptr<const data::Dataset>& dataset, const Code& code);
  comm::Group together() const;
  Lane* next_lane_of_step();
  void end_step();
  void stop_if_asked();
  void throw_if_diverged() const;

  // Constant after construction.
  const SessionOptions options_;
  const SessionParts parts_;
  const std::size_t lanes_;
  const ModelParts model_;
  std::vector<PartUpdate> updates_;  // of each part of the model; the same between two calls of change_optimizer()
  const std::vector<std::vector<std::string>> slot_names_;  // of each part
  std::optional<double> clip_norm_;
  // The model and its state.
  FrozenParts frozen_;  // before the binding, which looks at what trains at all
  compute::ModuleBinding binding_;
  std::vector<compute::TensorRule> rules_;  // the same between two calls of change_optimizer()
  std::vector<compute::PartRule> more_;     // of the parts after the first, for the step in work
  compute::AfterUpdate after_;              // empty without SessionOptions::after_commit
  std::unique_ptr<strategies::Strategy> strategy_;
  LocalExecutor executor_;
  StepDriver driver_;
  const std::unique_ptr<StagedLanes> staged_;  // null: lanes have one worker each
  bool meets_in_lanes_ = false;                // a lane of one worker waits for the lanes of all others
  data::Cursor cursor_;
  bool met_ = false;              // one of those who train
  bool synchronized_ = false;     // the states were made the same, and nothing has changed them since
  std::uint64_t entered_at_ = 0;  // committed steps when this worker met those who train with it now
  std::optional<launch::StopSignal> stop_signal_;
  bool stop_requested_ = false;
  bool wishes_to_stop_ = false;                                  // a lane has said so without a signal
  std::optional<std::filesystem::path> checkpoint_folder_;       // that the program has named last
  std::unique_ptr<const CheckpointFolderLock> checkpoint_lock_;  // of the worker that leads, from its first one on
  std::optional<LaneFeed> feed_;
  std::shared_ptr<const data::Dataset> rows_;  // of the tensors that the program gives; null: it trains on a data set
  std::unique_ptr<SessionReport> report_;
  double reported_seconds_ = 0;  // of the steps up to the last that was told
};

}  // namespace muster::trainer
