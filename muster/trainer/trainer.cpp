// The loop of a run: steps, validations, checkpoints and the test, by every worker alike, and again with those who are
// left whenever somebody is lost (run_recovery.h). Everything goes by the committed state and what all know of the run.
#include "muster/trainer/trainer.h"

#include <span>
#include <utility>

#include <fmt/format.h>

#include "muster/trainer/evaluation.h"
#include "muster/trainer/evaluation_batch.h"
#include "muster/trainer/recovery.h"
#include "muster/trainer/run_job.h"
#include "muster/trainer/run_leader.h"
#include "muster/trainer/run_parts.h"
#include "muster/trainer/run_recovery.h"
#include "muster/trainer/run_saver.h"
#include "muster/trainer/run_steps.h"

namespace muster::trainer {
namespace {

// For the leader to write everything at the end, with a disk that hangs (run_leader.cpp).
constexpr std::chrono::minutes kLastWrites{20};

// One run, from its parts to the result.
class Training {
 public:
  Training(const ResolvedJob& resolved, const TrainingOptions& options, TrainingObserver& observer, Log& log)
      : parts_(resolved, options, observer, log), leader_(parts_) {}

  TrainingResult run() {
    bool met = false;
    TrainingResult result;
    const auto train = [&] {
      // A loss while we meet is recovered from like any other: that is a meeting too.
      if (!std::exchange(met, true)) recovery_.meet();
      result = TrainingResult();
      result.leads = false;
      if (leader_.came_too_late()) return;
      parts_.net->train();
      result.end = loop();
      saver_.save_newest();
      saver_.finish();
      if (!stopped(result.end)) test(result);
      summarize(result);
      known().finished = true;
      leader_.leave_note();
      session_.begin(comm::Activity::kWaiting);
      result.saved = part();
    };
    try {
      survive_losses(
          session_.membership().replaces(), [&](const Error& loss) { recovery_.recover(loss); }, train);
    } catch (const Error&) {
      if (!recovery_.given_up()) throw;
      result = TrainingResult();
      result.end = interrupted();
      summarize(result);
      result.saved = !leader_.writes() || leader_.last_checkpoint().has_value();
    }
    return result;
  }

 private:
  RunKnowledge& known() { return leader_.known(); }
  const RunKnowledge& known() const { return leader_.known(); }
  Progress& progress() { return leader_.known().progress; }
  const Progress& progress() const { return leader_.known().progress; }

  // Nobody leaves before the leader has written everything: if it is lost another one can. Whether its last checkpoint
  // is there.
  bool part() {
    const strategies::Members members = session_.members();
    comm::Group group = members.group;
    const Deadline deadline = Deadline::after(kLastWrites);
    std::int64_t saved = leader_.last_checkpoint() ? 1 : 0;
    // On another host it cannot be seen.
    if (members.hosts() > 1) group.broadcast(std::span(&saved, 1), members.leader, deadline);
    group.barrier(deadline);
    return members.hosts() > 1 ? saved != 0 : leader_.last_checkpoint().has_value();
  }

  TrainingResult::End loop() {
    while (true) {
      const data::Cursor& cursor = session_.cursor();
      const bool last = cursor.step >= parts_.total_steps;
      if ((cursor.position == 0 || last) && cursor.step > 0 && !validated()) {
        if (!validate()) return interrupted();
      }
      if (last) return TrainingResult::End::kFinished;
      if (leader_.stops_early()) return TrainingResult::End::kEarly;
      if (known().stop) return interrupted();
      if (leader_.pause_is_due()) return TrainingResult::End::kPaused;
      step();
    }
  }

  TrainingResult::End interrupted() {
    const bool asked = !parts_.abandoned();
    parts_.log.debug(
        fmt::format("stopped {} at step {}", asked ? "on request" : "without a coordinator", session_.cursor().step));
    return asked ? TrainingResult::End::kInterrupted : TrainingResult::End::kAbandoned;
  }

  static bool stopped(TrainingResult::End end) {
    return end == TrainingResult::End::kInterrupted || end == TrainingResult::End::kPaused ||
           end == TrainingResult::End::kAbandoned;
  }

  // Whether the committed state has been validated: at the end of an epoch, or, in the middle of one, at the last step.
  bool validated() const {
    const data::Cursor& cursor = session_.cursor();
    return known().validated_step == cursor.step ||
           (cursor.position == 0 && progress().validated_epochs >= cursor.epoch);
  }

  void step() {
    // Also by a worker whose lanes others compute: whoever asks has something to save from now on.
    parts_.options.stop_requested();
    leader_.take_part();
    job_.make_changes();
    const std::uint64_t proposal = job_.proposal();
    const bool wants_checkpoint = parts_.leads() && session_.members().hosts() > 1 && automatic() && pace_is_due();
    steps_.begin();
    StagedCode code;
    code.begin = [&](Lane& lane) {
      if (parts_.stop_requested()) lane.request_stop();
      lane.propose_change(proposal);
      if (wants_checkpoint) lane.request_checkpoint();
    };
    code.loaded = [&](Lane& lane) { saver_.lane_loaded(steps_.begun_at(), lane); };
    code.end = [&](Lane& lane, const torch::Tensor& answer, const model::TensorTeam& split) {
      const Task& task = *parts_.task;
      const bool divided = split.size() > 1;
      lane.backward(divided ? task.divided_loss(answer, lane.target, split) : task.loss(answer, lane.target));
      const torch::Tensor scores = answer.detach();
      lane.add_score(divided ? task.divided_score(scores, lane.target, split) : task.score(scores, lane.target));
    };
    const strategies::StepOutcome outcome = compute_step(code);
    if (outcome.synchronized) saver_.state_committed();
    steps_.committed(outcome);
    leader_.leave_note();
    if (checkpoint_due(outcome)) saver_.save(std::nullopt);
  }

  // Through the stages of a pipeline, or lane by lane here.
  strategies::StepOutcome compute_step(const StagedCode& code) {
    if (parts_.staged) return session_.step(parts_.sets.train, code);
    return session_.step(parts_.sets.train, [&](Lane& lane) {
      code.begin(lane);
      code.loaded(lane);
      code.end(lane, parts_.net->forward(lane.data), model::TensorTeam());
    });
  }

  bool checkpoint_due(const strategies::StepOutcome& outcome) {
    const std::optional<AutoInteger>& every = job_.checkpoint_every_steps();
    if (!every || session_.cursor().position == 0) return false;
    if (!every->automatic) return session_.cursor().step % static_cast<std::uint64_t>(every->value) == 0;
    // What the leader has measured decides, so only where the others need not take part; those who keep copies on other
    // hosts are told by its lanes, and all write after the same step.
    if (!outcome.synchronized) return false;
    if (session_.members().hosts() > 1) return outcome.save;
    return parts_.leads() && pace_is_due();
  }

  bool automatic() const { return job_.checkpoint_every_steps() && job_.checkpoint_every_steps()->automatic; }

  bool pace_is_due() {
    if (const std::optional<std::string> news = leader_.pace().news()) parts_.log.debug("checkpoints " + *news);
    return leader_.pace().due();
  }

  std::optional<Evaluation> evaluate_on(const std::shared_ptr<const data::Dataset>& dataset) {
    EvaluationOptions options;
    options.task = parts_.task;
    options.batch = evaluation_batch(parts_.resolved.batch, parts_.resolved.lanes);
    options.loader_threads = static_cast<int>(parts_.job.data.loader_threads);
    options.group = session_.members().group;
    options.alone_if_lost = false;  // survive_losses() does all of it again, with those who are left
    options.share_done = [&] { session_.begin(comm::Activity::kWaiting); };
    session_.begin(comm::Activity::kEvaluating);
    options.progress = [&](std::uint64_t done) {
      session_.begin(comm::Activity::kEvaluating);
      leader_.observer().validating(done, dataset->size());
      return !parts_.stop_requested();
    };
    return evaluate(
        *parts_.net, [this](const torch::Tensor& input) { return parts_.net->forward(input); }, dataset, options);
  }

  // False when a stop was requested meanwhile; then the validation counts as not done.
  bool validate() {
    leader_.take_part();
    session_.synchronize();
    const std::optional<Evaluation> evaluation = evaluate_on(parts_.sets.validation);
    if (!evaluation) return false;
    const data::Cursor& cursor = session_.cursor();
    known().validated_step = cursor.step;
    leader_.last_validation() = *evaluation;
    if (cursor.position == 0) progress().validated_epochs = cursor.epoch;
    const bool best = evaluation->loss < progress().best_loss;
    if (best) {
      progress().best_loss = evaluation->loss;
      progress().best_score = evaluation->metrics.front().value;
      progress().best_step = cursor.step;
      progress().epochs_without_improvement = 0;
    } else {
      ++progress().epochs_without_improvement;
    }
    TrainingObserver::Validation event;
    event.set = parts_.sets.held_out ? "validation" : "test";
    event.epoch = cursor.position == 0 ? cursor.epoch : cursor.epoch + 1;
    event.step = cursor.step;
    event.train_loss = progress().mean_loss();
    event.train_score = progress().mean_score();
    event.result = *evaluation;
    event.best = best;
    leader_.report().validation(event, leader_.observer());
    leader_.leave_note();
    parts_.log.debug(fmt::format("epoch {}, step {}: {} {}{}", event.epoch, event.step, event.set,
                                 describe(*evaluation), best ? ", best so far" : ""));
    const bool due = cursor.epoch % job_.checkpoint_every_epochs() == 0;
    if (best) {
      saver_.save(evaluation->loss);
    } else if (due) {
      saver_.save(std::nullopt);
    }
    return true;
  }

  void test(TrainingResult& result) {
    session_.synchronize();
    if (!parts_.sets.held_out && known().validated_step == session_.cursor().step) {
      result.test = leader_.last_validation();
      return;
    }
    const std::optional<Evaluation> evaluation = evaluate_on(parts_.sets.test);
    if (!evaluation) {
      result.end = interrupted();
      return;
    }
    result.test = *evaluation;
  }

  void summarize(TrainingResult& result) {
    const data::Cursor& cursor = session_.cursor();
    result.leads = parts_.leads();
    result.run = leader_.folder().path();
    result.checkpoint = leader_.last_checkpoint().value_or("");
    result.steps = cursor.step;
    result.epochs = cursor.epoch;
    result.best_step = progress().best_step;
    result.best_loss = progress().best_loss;
    result.best_score = progress().best_score;
    result.skipped = progress().skipped.total;
    result.seconds = steps_.seconds();
    result.samples_per_s = steps_.samples_per_s();
    result.weights_hash = session_.weights_hash();
    leader_.tell_bad_samples();
    if (stopped(result.end)) {
      Json row{{"event", "interrupted"}, {"step", cursor.step}};
      if (result.end == TrainingResult::End::kPaused)
        row = {{"event", "paused"}, {"epoch", cursor.epoch}, {"step", cursor.step}, {"weights", result.weights_hash}};
      leader_.report().write(row);
      return;
    }
    if (parts_.leads()) {
      leader_.write_card(ModelCard::Result{result.steps, result.epochs, result.seconds, result.test, result.best_step,
                                           result.best_loss, result.weights_hash});
    }
    tell_counted(result);
    leader_.report().finished(result, leader_.bad_samples_told());
  }

  // What servers have counted, where there are some.
  void tell_counted(TrainingResult& result) {
    if (!parts_.leads()) return;
    result.counted = session_.counted();
    if (result.counted.empty()) return;
    leader_.report().write(
        {{"event", "counted"}, {"step", session_.cursor().step}, {"counted", Json::parse(result.counted)}});
  }

  RunParts parts_;
  SessionCore& session_ = parts_.session;
  RunLeader leader_;
  RunJob job_{parts_, leader_};
  RunSteps steps_{parts_, leader_};
  RunSaver saver_{parts_, leader_, job_};
  RunRecovery recovery_{parts_, leader_, job_, steps_, saver_};
};

}  // namespace

TrainingResult train(const ResolvedJob& resolved, const TrainingOptions& options, TrainingObserver& observer,
                     Log& log) {
  try {
    return Training(resolved, options, observer, log).run();
  } catch (const Error& error) {
    log.error(error.what());  // into the run's log, if it has one already
    throw;
  }
}

}  // namespace muster::trainer
