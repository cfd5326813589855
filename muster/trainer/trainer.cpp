// The loop of a run: steps, validations, checkpoints and the test, by every worker alike, and again with those who are
// left whenever somebody is lost. Everything goes by the committed state and what all know of the run.
#include "muster/trainer/trainer.h"

#include <span>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/strategies/strategy_traits.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/evaluation_batch.h"
#include "muster/trainer/recovery.h"
#include "muster/trainer/run_changes.h"
#include "muster/trainer/run_leader.h"
#include "muster/trainer/run_ledger.h"
#include "muster/trainer/run_parts.h"
#include "muster/trainer/shared_text.h"

namespace muster::trainer {
namespace {

// So many steps in a row without a finite gradient cannot be bad luck.
constexpr std::uint64_t kMostSkippedInARow = 100;
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
    const auto recover_from = [&](const Error& loss) {
      parts_.log.warning(
          fmt::format("step {}: {}; going on with those who are left", session_.cursor().step + 1, loss.message()));
      recover();
    };
    const auto train = [&] {
      // A loss while we meet is recovered from like any other: that is a meeting too.
      if (!std::exchange(met, true)) meet();
      result = TrainingResult();
      result.leads = false;
      if (leader_.came_too_late()) return;
      parts_.net->train();
      result.end = loop();
      if (!known().checkpointed_step || *known().checkpointed_step != session_.cursor().step) save(std::nullopt);
      if (leader_.finish_writing()) write_checkpoint(std::nullopt);
      if (!stopped(result.end)) test(result);
      summarize(result);
      known().finished = true;
      leader_.leave_note();
      session_.begin(comm::Activity::kWaiting);
      result.saved = part();
    };
    try {
      survive_losses(session_.membership().replaces(), recover_from, train);
    } catch (const Error&) {
      if (!given_up_) throw;
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

  // Without a supervisor, or a coordinator of all hosts, nobody may ever decide on members again, and on several hosts
  // workers do not decide among themselves: after the time that they wait for somebody to take over, or when they are
  // told to end, they keep what they have and end.
  std::optional<strategies::StepOutcome> rejoin() {
    try {
      return session_.rejoin();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout || !stop_requested()) throw;
      if (const auto outcome = session_.settle_step(); outcome && begun_) account(*outcome);
      begun_.reset();
      // Where only a meeting tells whether the step in work was committed, its state may have no progress.
      const bool known_step = session_.committed().cursor.step == session_.cursor().step;
      if (known_step && known().checkpointed_step != session_.cursor().step && leader_.writes()) {
        if (ledger_) ledger_->steps_committed(session_.cursor().step);
        known().checkpointed_step = session_.cursor().step;
        write_checkpoint(std::nullopt);
      }
      if (leader_.finish_writing()) write_checkpoint(std::nullopt);
      given_up_ = true;
      throw;
    }
  }

  void recover() {
    const auto start = system_clock().now();
    const int workers = session_.members().group.size();
    const std::optional<strategies::StepOutcome> outcome = rejoin();
    if (session_.members().group.size() < workers) leader_.pace().failed();
    leader_.yield_files();
    leader_.take_lead(true);
    if (outcome && begun_) account(*outcome);
    begun_.reset();
    leader_.exchange_knowledge();
    leader_.settle_copies();
    enter_ledger();
    look_for_changes();
    write_owed_checkpoint();
    const strategies::Members members = session_.members();
    parts_.log.debug(fmt::format("generation {}: worker {} of {}, at step {}, after {:.0f} ms", members.generation,
                                 members.group.rank(), members.group.size(), session_.cursor().step,
                                 1e3 * std::chrono::duration<double>(system_clock().now() - start).count()));
  }

  // The first worker finds or makes the folder and, where the state is shared, fills it from the checkpoint; the others
  // are told.
  void meet() {
    const bool founder = parts_.founds();
    const bool shared = session_.membership().replaces();
    leader_.begin_to_speak(founder);
    if (founder) leader_.find_run();
    if (founder || !shared) parts_.begin_optimizer();
    if (founder && shared && parts_.options.resume) leader_.load_checkpoint();
    if (founder && shared) leader_.leave_first_note();
    session_.meet(parts_.sets.train);
    if (parts_.leads() && !leader_.has_folder()) leader_.adopt_run();
    leader_.exchange_knowledge();
    if (!shared && parts_.options.resume) {
      if (session_.members().hosts() > 1)
        leader_.share_checkpoint();
      else
        leader_.load_checkpoint();
    }
    leader_.take_lead(false);
    leader_.settle_copies();
    enter_ledger();
    look_for_changes();
    write_owed_checkpoint();
  }

  // By those whose folder lacks the newest checkpoint, each for itself: of the committed state, which is newer.
  void write_owed_checkpoint() {
    if (!leader_.owes_checkpoint()) return;
    if (parts_.leads()) known().checkpointed_step = session_.cursor().step;
    write_checkpoint(std::nullopt);
  }

  // After every meeting: what is written down counts, and what was agreed on since is agreed on again.
  void look_for_changes() {
    changes_.emplace(leader_.folder().path());
    if (session_.members().hosts() > 1) take_changes_of_leader();
    adopt_changes(session_.cursor().step);
  }

  // Between hosts: what the leader knows of changes is what all know, and every host has it on its disk.
  void take_changes_of_leader() {
    const strategies::Members members = session_.members();
    std::string text;
    if (members.leads()) text = changes_->to_text();
    share_text(members.group, text, members.leader);
    if (changes_->take(text) && members.host_index() == 0) changes_->write();
  }

  // Changes that were agreed on in the step before count from this one on.
  void agree_on_changes(std::uint64_t step) {
    if (session_.members().hosts() == 1) {
      if (changes_->agree(known().change, step) && parts_.leads()) changes_->write();
    } else if (!changes_->knows(known().change)) {
      // All see the same number, and that they do not know it; the leader may not know it either yet: then it is
      // proposed again.
      if (parts_.leads() && changes_->agree_on_known(known().change, step)) changes_->write();
      take_changes_of_leader();
    }
  }

  // Before a step: makes the changes that count from it on.
  void make_changes() {
    const std::uint64_t step = session_.cursor().step + 1;
    agree_on_changes(step);
    adopt_changes(step);
    for (const JobChange& change : changes_->known()) {
      if (change.step != step) continue;
      parts_.log.debug(fmt::format("change {}: {} from step {}", change.number, change.assignment, step));
      leader_.report().write(
          {{"event", "change"}, {"step", step}, {"number", change.number}, {"assignment", change.assignment}});
    }
  }

  // Makes the job what it is in `step`.
  void adopt_changes(std::uint64_t step) {
    std::vector<std::string> assignments = changes_->assignments_at(step);
    if (assignments == adopted_) return;
    const ResolvedJob now = parse_job(parts_.resolved.text, "the run's job", assignments);
    session_.change_optimizer(optimizer_options(now), now.job.optimizer.clip_norm);
    checkpoint_every_steps_ = now.job.checkpoint.every_steps;
    checkpoint_every_epochs_ = now.job.checkpoint.every_epochs;
    adopted_ = std::move(assignments);
  }

  // After every meeting. A worker that has seen no step of this run opens its part of the ledger.
  void enter_ledger() {
    if (!parts_.job.ledger || known().finished) return;
    const strategies::Members members = session_.members();
    if (parts_.records && members.hosts() > 1) parts_.records->settle(leader_.folder().ledger(), members);
    if (!ledger_) {
      RunLedgerOptions options;
      options.folder = leader_.folder().ledger();
      options.worker = parts_.seat();
      options.shape = parts_.shape;
      options.order = parts_.order;
      options.tolerant = parts_.sets.tolerant;
      options.first_generation = known().ledger_generation;
      if (parts_.options.resume) options.resumed_at = known().first_step;
      options.apart = parts_.job.parallel.chosen().traits().goes_apart;
      ledger_.emplace(options);
    }
    ledger_->enter(members.generation, session_.cursor().step);
  }

  bool early_stop() const {
    return parts_.job.patience &&
           progress().epochs_without_improvement >= static_cast<std::uint64_t>(*parts_.job.patience);
  }

  TrainingResult::End loop() {
    while (true) {
      const data::Cursor& cursor = session_.cursor();
      const bool last = cursor.step >= parts_.total_steps;
      if ((cursor.position == 0 || last) && cursor.step > 0 && !validated()) {
        if (!validate()) return interrupted();
      }
      if (last) return TrainingResult::End::kFinished;
      if (early_stop()) return TrainingResult::End::kEarly;
      if (known().stop) return interrupted();
      if (pause_due()) return TrainingResult::End::kPaused;
      step();
    }
  }

  TrainingResult::End interrupted() {
    const bool asked = !abandoned();
    parts_.log.debug(
        fmt::format("stopped {} at step {}", asked ? "on request" : "without a coordinator", session_.cursor().step));
    return asked ? TrainingResult::End::kInterrupted : TrainingResult::End::kAbandoned;
  }

  static bool stopped(TrainingResult::End end) {
    return end == TrainingResult::End::kInterrupted || end == TrainingResult::End::kPaused ||
           end == TrainingResult::End::kAbandoned;
  }

  bool pause_due() const {
    const std::optional<std::uint64_t>& until = parts_.options.until_epoch;
    return until && session_.cursor().position == 0 && session_.cursor().epoch >= *until;
  }

  // Whether workers that nobody watches have waited long enough for somebody to take over.
  bool abandoned() const {
    return session_.membership().abandoned_for() > std::chrono::duration<double>(parts_.job.parallel.orphan_seconds);
  }

  bool stop_requested() const { return parts_.options.stop_requested() || abandoned(); }

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
    make_changes();
    const std::uint64_t proposal = changes_->proposal(session_.cursor().step + 1);
    const bool wants_checkpoint = parts_.leads() && session_.members().hosts() > 1 && automatic() && pace_is_due();
    begun_ = Begun{session_.cursor(), session_.learning_rate(), system_clock().now()};
    if (begun_->at.position == 0) progress().loss_sum = progress().score_sum = progress().samples = 0;
    StagedCode code;
    code.begin = [&](Lane& lane) {
      if (stop_requested()) lane.request_stop();
      lane.propose_change(proposal);
      if (wants_checkpoint) lane.request_checkpoint();
    };
    code.loaded = [&](Lane& lane) {
      if (ledger_ && !lane.repeated) ledger_->lane_loaded(begun_->at, lane.index, lane.ids);
    };
    code.end = [&](Lane& lane, const torch::Tensor& answer, const model::TensorTeam& split) {
      const Task& task = *parts_.task;
      const bool divided = split.size() > 1;
      lane.backward(divided ? task.divided_loss(answer, lane.target, split) : task.loss(answer, lane.target));
      const torch::Tensor scores = answer.detach();
      lane.add_score(divided ? task.divided_score(scores, lane.target, split) : task.score(scores, lane.target));
    };
    const strategies::StepOutcome outcome = compute_step(code);
    if (ledger_ && outcome.synchronized) ledger_->steps_committed(session_.cursor().step);
    account(outcome);
    begun_.reset();
    leader_.leave_note();
    if (checkpoint_due(checkpoint_every_steps_, outcome)) save(std::nullopt);
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

  bool checkpoint_due(const std::optional<AutoInteger>& every, const strategies::StepOutcome& outcome) {
    if (!every || session_.cursor().position == 0) return false;
    if (!every->automatic) return session_.cursor().step % static_cast<std::uint64_t>(every->value) == 0;
    // What the leader has measured decides, so only where the others need not take part; those who keep copies on other
    // hosts are told by its lanes, and all write after the same step.
    if (!outcome.synchronized) return false;
    if (session_.members().hosts() > 1) return outcome.save;
    return parts_.leads() && pace_is_due();
  }

  bool automatic() const { return checkpoint_every_steps_ && checkpoint_every_steps_->automatic; }

  bool pace_is_due() {
    if (const std::optional<std::string> news = leader_.pace().news()) parts_.log.debug("checkpoints " + *news);
    return leader_.pace().due();
  }

  // Of the step that was begun.
  void account(const strategies::StepOutcome& outcome) {
    const data::Cursor before = begun_->at;
    const double seconds = std::chrono::duration<double>(system_clock().now() - begun_->start).count();
    seconds_ += seconds;
    leader_.pace().step_done(seconds, leader_.writing());
    known().stop = outcome.stop;
    known().change = outcome.change;
    trained_samples_ += outcome.samples;
    if (outcome.applied) {
      progress().loss_sum += outcome.loss * static_cast<double>(outcome.samples);
      progress().score_sum += outcome.score;
      progress().samples += static_cast<double>(outcome.samples);
      progress().skipped_in_a_row = 0;
    } else {
      ++progress().skipped;
      if (progress().skipped_in_a_row == 0) {
        leader_.warn(
            fmt::format("step {} was skipped: its gradient is not finite (loss {})", before.step + 1, outcome.loss));
      }
      if (++progress().skipped_in_a_row >= kMostSkippedInARow) {
        throw Error(ErrorKind::kCompute,
                    fmt::format("{} steps in a row had gradients that are not finite", kMostSkippedInARow),
                    fmt::format("step {}", before.step + 1),
                    "Lower optimizer.lr, set optimizer.clip_norm, or look at the data; then resume or start again.");
      }
    }
    leader_.report().step(before, begun_->lr, seconds, outcome, progress(), leader_.observer());
    leader_.reported();
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
      return !stop_requested();
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
    const bool due = cursor.epoch % static_cast<std::uint64_t>(checkpoint_every_epochs_) == 0;
    if (best) {
      save(evaluation->loss);
    } else if (due) {
      save(std::nullopt);
    }
    return true;
  }

  void save(std::optional<double> best_metric) {
    session_.synchronize();
    if (ledger_) ledger_->steps_committed(session_.cursor().step);
    known().checkpointed_step = session_.cursor().step;
    // Where steps do not carry what hosts have recorded, a checkpoint is where it has to be everywhere.
    if (parts_.records && session_.members().hosts() > 1 && !session_.membership().replaces())
      parts_.records->settle(leader_.folder().ledger(), session_.members());
    if (leader_.writes()) write_checkpoint(best_metric);
  }

  // Of the committed state, by the leader and those who keep copies.
  void write_checkpoint(std::optional<double> best_metric) {
    const std::uint64_t step = session_.cursor().step;
    const bool ended = known().stop || early_stop() || pause_due() || step >= parts_.total_steps;
    leader_.write_checkpoint(best_metric, changes_->number_at(step), ended);
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
    result.skipped = progress().skipped;
    result.seconds = seconds_;
    result.samples_per_s = seconds_ > 0 ? static_cast<double>(trained_samples_) / seconds_ : 0;
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
  std::optional<RunLedger> ledger_;
  struct Begun {
    data::Cursor at;
    double lr = 0;
    Clock::Instant start;
  };
  std::optional<Begun> begun_;  // the step in work
  double seconds_ = 0;
  std::uint64_t trained_samples_ = 0;
  bool given_up_ = false;  // nobody was there to go on with in time, and what is committed was kept
  std::optional<RunChanges> changes_;
  std::vector<std::string> adopted_;  // the changes that the session and the two below know of
  std::optional<AutoInteger> checkpoint_every_steps_ = parts_.job.checkpoint.every_steps;
  std::int64_t checkpoint_every_epochs_ = parts_.job.checkpoint.every_epochs;
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
