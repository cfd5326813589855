// `muster train`: a job from its first step, or from a checkpoint, to its last, with validation, checkpoints and
// metrics.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/log.h"
#include "muster/base/memory.h"
#include "muster/comm/group.h"
#include "muster/strategies/strategy.h"
#include "muster/trainer/job.h"
#include "muster/trainer/metrics.h"

namespace muster::trainer {

// What somebody who watches is told. Called on the training thread, but for checkpoint_written. Default: nothing.
class TrainingObserver {
 public:
  struct Start {
    std::filesystem::path run;
    std::string data;               // in words
    std::string model;              // in words
    std::vector<std::string> init;  // what was loaded from files before the first step; empty when nothing was
    std::string score;              // name of the figure beside the loss: Task::score_name
    std::uint64_t parameters = 0;
    std::uint64_t train_samples = 0;
    std::uint64_t steps_per_epoch = 0;
    std::uint64_t total_steps = 0;
    std::uint64_t first_step = 0;  // above 0: resumed
    bool taken_over = false;       // the worker that spoke before was lost
    std::uint64_t batch = 0;
    std::uint64_t lanes = 0;
    int workers = 1;
  };
  struct Step {
    std::uint64_t epoch = 0;  // counted from 0
    std::uint64_t step = 0;   // committed steps, counted from 1
    std::uint64_t step_in_epoch = 0;
    double loss = 0;   // mean of the epoch so far
    double score = 0;  // likewise
    double lr = 0;
    std::uint64_t samples = 0;  // of this step
    std::uint64_t skipped = 0;  // steps so far whose gradient was not finite
  };
  struct Validation {
    std::string set;          // "validation" or "test"
    std::uint64_t epoch = 0;  // epochs finished
    std::uint64_t step = 0;
    double train_loss = 0;
    double train_score = 0;
    Evaluation result;
    bool best = false;
  };

  virtual ~TrainingObserver() = default;
  virtual void started(const Start&) {}
  virtual void step_committed(const Step&) {}
  virtual void validating(std::uint64_t /*done*/, std::uint64_t /*samples*/) {}
  virtual void validated(const Validation&) {}
  virtual void checkpoint_written(std::uint64_t /*step*/, const std::filesystem::path& /*path*/) {}
  // Something that people should know and that does not end training.
  virtual void warned(const std::string& /*message*/) {}
};

struct TrainingOptions {
  bool resume = false;
  std::filesystem::path run;  // with resume: this run; empty: the newest of the job
  // Asked in each step and after each batch of an evaluation; true ends training with a checkpoint.
  std::function<bool()> stop_requested = [] { return false; };
  // Ends training once so many epochs are finished and validated, with a checkpoint: a later run resumes it to the same
  // bits, because the job (and so its schedule) says how long it trains in all. The same for every worker. Empty: to
  // its end.
  std::optional<std::uint64_t> until_epoch{};
  double verify_rate = 0;  // SessionOptions::verify_rate
  // What this host had left before the job took anything: a job that needs more is refused (preflight.h). Empty: it is
  // not looked at.
  std::optional<Memory> usable_memory{};
  // The workers that train together. Only one, the leader, writes the run's metrics and checkpoints and calls the
  // observer; when it is lost another one does.
  comm::Group group{};
  std::shared_ptr<strategies::Membership> met{};       // SessionParts::met
  std::optional<strategies::Supervised> supervised{};  // instead of `group`: workers that may be lost and replaced
  // Without resume: the folder that was made for this job, in which nothing was trained yet. Empty: it is made when its
  // data and its model were found good.
  std::filesystem::path begun{};
  // Told which run it is (control/leader_note.h) and what is done before the first step; later, of a fixed group, what
  // its leader knows of the run (run_knowledge.h), now and then.
  strategies::NoteWriter note{};
};

struct TrainingResult {
  enum class End {
    kFinished,
    kEarly,
    kInterrupted,
    kPaused,     // after TrainingOptions::until_epoch
    kAbandoned,  // interrupted because there was no coordinator for too long
  };
  End end = End::kFinished;
  std::filesystem::path run;
  std::filesystem::path checkpoint;  // the last one; empty if it could not be written, or not by this worker
  bool saved = true;                 // every worker that trained knows whether the last one was written
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
  Evaluation test;  // not when interrupted or paused
  std::uint64_t best_step = 0;
  double best_loss = 0;  // on the validation set
  double best_score = 0;
  std::uint64_t skipped = 0;
  double seconds = 0;  // of training steps, in this process
  double samples_per_s = 0;
  std::string weights_hash;
  std::string counted;  // strategies::Strategy::counted
  bool leads = true;    // this worker speaks for all
};

// Nothing is written, but for what is in a folder that was made before, until the job, its data and its model have been
// found good. Throws Error.
TrainingResult train(const ResolvedJob& resolved, const TrainingOptions& options, TrainingObserver& observer, Log& log);

}  // namespace muster::trainer
