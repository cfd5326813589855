#include "muster/trainer/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/cores.h"
#include "muster/base/process_memory.h"
#include "muster/base/version.h"
#include "muster/compute/threads.h"
#include "muster/data/lane_order.h"
#include "muster/launch/environment.h"
#include "muster/model/sync_batch_norm.h"
#include "muster/trainer/build.h"
#include "muster/trainer/checkpoint_alarm.h"
#include "muster/trainer/checkpoint_pace.h"
#include "muster/trainer/checkpoint_writer.h"
#include "muster/trainer/class_weights.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/initial_state.h"
#include "muster/trainer/job_check.h"
#include "muster/trainer/job_fit.h"
#include "muster/trainer/model_card.h"
#include "muster/trainer/preflight.h"
#include "muster/trainer/run_changes.h"
#include "muster/trainer/run_folder.h"
#include "muster/trainer/run_inputs.h"
#include "muster/trainer/run_knowledge.h"
#include "muster/trainer/run_ledger.h"
#include "muster/trainer/run_lock.h"
#include "muster/trainer/run_report.h"
#include "muster/trainer/session.h"
#include "muster/trainer/training_state.h"

namespace muster::trainer {
namespace {

// So many steps in a row without a finite gradient cannot be bad luck.
constexpr std::uint64_t kMostSkippedInARow = 100;
constexpr std::chrono::minutes kDiskPatience{10};
// The same while others wait for a step of this worker, which they do for longer.
constexpr std::chrono::seconds kHungDisk{120};
// For a process that is dying to let go of the run it wrote.
constexpr std::chrono::seconds kLockPatience{5};
constexpr std::chrono::milliseconds kNoteInterval{200};  // where it costs a file

// One run, from opened data to the result.
class Training {
 public:
  Training(const ResolvedJob& resolved, const TrainingOptions& options, TrainingObserver& observer, Log& log)
      : resolved_(resolved),
        job_(resolved.job),
        options_(options),
        observer_(observer),
        log_(log),
        held_before_(process_memory()),
        sets_(open_data(resolved_)),
        shape_{sets_.train->size(), resolved.batch, resolved.lanes},
        order_(lane_order(resolved_, *sets_.train)),
        total_steps_(total_steps(job_, shape_)),
        task_(about_key(resolved_, "loss.task",
                        [&] {
                          return build_task(job_, sets_.train->spec(),
                                            class_weights(parse_class_weights(job_.loss.class_weights), *sets_.train));
                        })),
        net_(build_model_with_threads()),
        session_(net_, optimizer_options(resolved), session_options(resolved, shape_, order_, options)) {}

  TrainingResult run() {
    bool met = false;
    TrainingResult result;
    survive([&] {
      // A loss while we meet is recovered from like any other: that is a meeting too.
      if (!std::exchange(met, true)) meet();
      result = TrainingResult();
      result.leads = false;
      if (known_.finished && !took_part_) return;  // came when all was done
      net_->train();
      result.end = loop();
      if (!known_.checkpointed_step || *known_.checkpointed_step != session_.cursor().step) save(std::nullopt);
      // Long enough for any disk that is alive. What a stuck one has not got by then is lost, and is told as that.
      if (writer_ && !writer_->wait(Deadline::after(kDiskPatience))) warn("the last checkpoint is still being written");
      if (writer_ && left_out_ && !writer_->busy()) write_checkpoint(std::nullopt);
      if (!stopped(result.end)) test(result);
      summarize(result);
      known_.finished = true;
      leave_note();
      session_.begin(comm::Activity::kWaiting);
      // Nobody leaves before the leader has written everything: if it is lost another one can.
      session_.members().group.barrier(Deadline::after(2 * kDiskPatience));
      result.saved = last_checkpoint().has_value();
    });
    return result;
  }

 private:
  std::shared_ptr<model::Net> build_model_with_threads() {
    // Before the first tensor: initialisation draws its numbers with the same threads on every run.
    compute::set_threads(static_cast<int>(job_.threads));
    if (options_.usable_memory && founds()) {
      const MemoryFigures figures = check_memory(resolved_, sets_, held_before_, *options_.usable_memory);
      memory_ = fmt::format("about {}; {}", describe(estimate_memory(figures), figures.workers),
                            options_.usable_memory->reason);
    }
    std::shared_ptr<model::Net> net = build_fitting_model(resolved_, sets_.train->spec());
    begin_from_files("model.init", [&] { return initialize_model(job_, *net); });
    // Read when there is a session, and by then there is a folder: what is wrong with it is said before.
    if (!options_.resume && founds()) check_optimizer_file(resolved_, *net);
    if (job_.parallel.sync_batch_norm && model::synchronize_batch_norm(*net, options_.group) == 0)
      throw resolved_.invalid("parallel.sync_batch_norm", "the model has no batch norm");
    return net;
  }

  // Loads what the job begins from. Of workers that share their state the first one does it. A run that is resumed has
  // a checkpoint and does not need the files; if it has none after all, what they lacked is said then.
  template <typename Load>
  void begin_from_files(std::string_view key, const Load& load) {
    if (options_.supervised && !founds()) return;
    try {
      const std::vector<std::string> lines = about_key(resolved_, key, load);
      init_.insert(init_.end(), lines.begin(), lines.end());
    } catch (const Error& error) {
      if (!options_.resume) throw;
      init_failure_ = error;
    }
  }

  // The worker that is there before the others.
  bool founds() const { return options_.supervised ? options_.supervised->founder : options_.group.rank() == 0; }
  // The worker that writes and speaks for all.
  bool leads() const { return session_.members().leads(); }

  // Does `work`, and does it again, with those who are left, as often as somebody is lost: all of it goes by the
  // committed state and the progress, so what was done before is not done again.
  template <typename Work>
  void survive(const Work& work) {
    bool lost = false;
    for (;;) {
      try {
        if (lost) recover();
        lost = false;
        return work();
      } catch (const Error& error) {
        if (!options_.supervised || error.kind() != ErrorKind::kPeerLost) throw;
        log_.warning(
            fmt::format("step {}: {}; going on with those who are left", session_.cursor().step + 1, error.message()));
        lost = true;
      }
    }
  }

  void recover() {
    const auto start = system_clock().now();
    const int workers = session_.members().group.size();
    const std::optional<strategies::StepOutcome> outcome = session_.rejoin();
    if (session_.members().group.size() < workers) pace_.failed();
    take_lead(true);
    if (outcome && begun_) account(*outcome);
    begun_.reset();
    exchange_knowledge();
    enter_ledger();
    look_for_changes();
    const strategies::Members members = session_.members();
    log_.debug(fmt::format("generation {}: worker {} of {}, at step {}, after {:.0f} ms", members.generation,
                           members.group.rank(), members.group.size(), session_.cursor().step,
                           1e3 * std::chrono::duration<double>(system_clock().now() - start).count()));
  }

  // The first worker finds or makes the folder and, where the state is shared, fills it from the checkpoint; the others
  // are told.
  void meet() {
    const bool founder = founds();
    const bool shared = options_.supervised.has_value();
    speaks_ = founder;
    if (founder) find_run();
    if (founder || !shared) begin_from_files("optimizer.init", [&] { return initialize_optimizer(job_, session_); });
    if (founder && shared && options_.resume) load_checkpoint();
    // Before anybody can come: if the founder is lost on the way, the others know what it has read.
    if (founder && shared) session_.write_note(knowledge_text());
    session_.meet(sets_.train);
    if (leads() && !folder_) adopt_run();
    exchange_knowledge();
    if (!shared && options_.resume) load_checkpoint();
    take_lead(false);
    enter_ledger();
    look_for_changes();
  }

  // After every meeting: what is written down counts, and what was agreed on since is agreed on again.
  void look_for_changes() {
    changes_.emplace(folder_->path());
    adopt_changes(session_.cursor().step);
  }

  // Before a step: makes the changes that count from it on.
  void make_changes() {
    const std::uint64_t step = session_.cursor().step + 1;
    if (changes_->agree(known_.change, step) && leads()) changes_->write();
    adopt_changes(step);
    for (const JobChange& change : changes_->known()) {
      if (change.step != step) continue;
      log_.debug(fmt::format("change {}: {} from step {}", change.number, change.assignment, step));
      report_.write(
          {{"event", "change"}, {"step", step}, {"number", change.number}, {"assignment", change.assignment}});
    }
  }

  // Makes the job what it is in `step`.
  void adopt_changes(std::uint64_t step) {
    std::vector<std::string> assignments = changes_->assignments_at(step);
    if (assignments == adopted_) return;
    const ResolvedJob now = parse_job(resolved_.text, "the run's job", assignments);
    session_.change_optimizer(optimizer_options(now), now.job.optimizer.clip_norm);
    checkpoint_every_steps_ = now.job.checkpoint.every_steps;
    checkpoint_every_epochs_ = now.job.checkpoint.every_epochs;
    adopted_ = std::move(assignments);
  }

  // After every meeting. A worker that has seen no step of this run opens its part of the ledger.
  void enter_ledger() {
    if (!job_.ledger || known_.finished) return;
    const strategies::Members members = session_.members();
    if (!ledger_) {
      RunLedgerOptions options;
      options.folder = folder_->ledger();
      options.worker = options_.supervised ? options_.supervised->seat : members.group.rank();
      options.shape = shape_;
      options.order = order_;
      options.tolerant = sets_.tolerant;
      options.first_generation = known_.ledger_generation;
      if (options_.resume) options.resumed_at = known_.first_step;
      options.apart = job_.parallel.strategy == "local_sgd" || job_.parallel.strategy == "parameter_server";
      ledger_.emplace(options);
    }
    ledger_->enter(members.generation, session_.cursor().step);
  }

  std::string knowledge_text() {
    known_.run = folder_->path().string();
    known_.last_validation = last_validation_.to_json();
    if (job_.checkpoint.every_steps) known_.pace = pace_.to_json();
    known_.step = session_.cursor().step;
    known_.total_steps = total_steps_;
    known_.steps_per_epoch = data::steps_per_epoch(shape_);
    known_.batch = resolved_.batch;
    known_.alarm = alarm_.standing();
    return known_.to_text();
  }

  void take_knowledge(const std::string& text) {
    const std::string where = "the leader's knowledge of the run";
    known_ = RunKnowledge::from_text(text, where);
    if (!known_.last_validation.is_null()) last_validation_ = Evaluation::from_json(known_.last_validation, where);
    if (!known_.pace.is_null()) pace_.take(known_.pace, where);
    if (!folder_) folder_ = RunFolder::open(known_.run);
  }

  // What the leader knows of the run is what everybody knows.
  void exchange_knowledge() {
    const strategies::Members members = session_.members();
    std::string text;
    if (members.leads()) text = knowledge_text();
    comm::Group group = members.group;
    std::int64_t length = static_cast<std::int64_t>(text.size());
    group.broadcast(std::span(&length, 1), members.leader);
    text.resize(static_cast<std::size_t>(length));
    group.broadcast(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()), members.leader);
    take_knowledge(text);
    if (!logging_) open_log(group);
  }

  void open_log(const comm::Group& group) {
    logging_ = true;
    log_.open_file(folder_->log_file(options_.supervised ? options_.supervised->seat : group.rank()));
    const compute::ComputeLibraries libraries = compute::compute_libraries();
    log_.debug(fmt::format("Muster {}, LibTorch {}, {}; {} ATen and {} BLAS threads", version(), libraries.torch,
                           libraries.blas, libraries.aten_threads, libraries.blas_threads));
    log_cores();
    if (!memory_.empty()) log_.debug("memory: " + memory_);
    log_.debug(
        fmt::format("worker {} of {}, pid {}, group over {}", group.rank(), group.size(), ::getpid(), group.backend()));
  }

  void leave_note() {
    if (!leads()) return;
    if (options_.supervised) return session_.write_note(knowledge_text());
    const auto now = system_clock().now();
    if (!options_.note || (noted_ && now - *noted_ < kNoteInterval && !known_.finished)) return;
    noted_ = now;
    options_.note(knowledge_text());
  }

  // If this worker leads now and did not before: it opens what a leader writes.
  void take_lead(bool taken_over) {
    speaks_ = leads();
    if (!speaks_ || report_.opened()) return;
    if (!folder_) adopt_run();
    if (known_.finished && !took_part_) return;  // nothing is left to write
    lock_run();
    open_checkpoints();  // once more, where this worker has looked into them before: the one that was lost may have
                         // left one
    report_.open(folder_->metrics_file(), [this](const Error& error) { warn(error.what()); });
    CheckpointWriterOptions writing;
    if (job_.ledger) writing.before = [ledger = folder_->ledger()] { data::sync_ledger(ledger); };
    writing.done = [this](const WrittenCheckpoint& written) { checkpoint_attempted(written); };
    writing.patience = kDiskPatience;
    writer_.emplace(*checkpoints_, std::move(writing));
    // What the one before was writing when it was lost is written again.
    const std::vector<std::uint64_t> written = checkpoints_->list();
    if (known_.checkpointed_step && (written.empty() || written.back() != *known_.checkpointed_step))
      known_.checkpointed_step.reset();
    announce(taken_over);
    write_card(std::nullopt);
    leave_note();
    if (taken_over) {
      log_.warning("the leader was lost: this worker writes the run's files from now on");
      report_.write({{"event", "leader"}, {"step", session_.cursor().step}});
    } else if (known_.first_step > 0) {
      report_.write({{"event", "resumed"}, {"step", known_.first_step}});
    }
  }

  // Nobody of those who knew the run is left: it is taken from what they have left in the arena.
  void adopt_run() { take_knowledge(session_.note()); }

  void open_checkpoints() {
    model::CheckpointOptions options;
    options.keep = static_cast<std::size_t>(job_.checkpoint.keep);
    checkpoints_.emplace(folder_->checkpoints(), options);
  }

  void log_cores() {
    const Cores cores = usable_cores(launch::granted_cores());
    log_.debug(fmt::format("{} usable cores, by {} ({}); {} threads a lane, by job.threads", cores.usable, cores.reason,
                           cores.limits, job_.threads));
    const auto warning = oversubscription(cores, session_.members().group.size(), job_.threads);
    if (warning && speaks_) warn(*warning);
  }

  void find_run() {
    if (!options_.resume) {
      folder_ = RunFolder::create(job_.runs, job_.name, resolved_.text);
    } else if (!options_.run.empty()) {
      folder_ = RunFolder::open(options_.run);
    } else {
      folder_ = RunFolder::newest(job_.runs, job_.name);
      if (!folder_) {
        throw Error(ErrorKind::kNotFound, fmt::format("no run of \"{}\" to resume", job_.name), job_.runs,
                    "Start one without --resume.");
      }
    }
    lock_run();
    if (options_.resume) {
      if (auto obstacle = resume_obstacle(folder_->job(), resolved_)) {
        throw Error(obstacle->kind(), obstacle->message(), folder_->job_file().string(), obstacle->remedy());
      }
      check_inputs(folder_->path(), job_);
    } else {
      remember_inputs(folder_->path(), job_);
    }
    if (job_.ledger) known_.ledger_generation = data::next_ledger_generation(folder_->ledger());
  }

  void lock_run() {
    if (!lock_) lock_.emplace(folder_->path(), Deadline::after(kLockPatience));
  }

  void load_checkpoint() {
    open_checkpoints();
    std::vector<model::RejectedCheckpoint> rejected;
    const std::optional<model::LoadedCheckpoint> loaded = checkpoints_->load_newest(rejected);
    for (const model::RejectedCheckpoint& bad : rejected) {
      warn(fmt::format("checkpoint {} is not used: {}", bad.path.string(), bad.reason));
    }
    if (!loaded) {
      if (!rejected.empty()) {
        throw Error(ErrorKind::kDamaged, "no checkpoint of this run is whole", folder_->checkpoints().string(),
                    "Start a new run without --resume.");
      }
      if (init_failure_) throw Error(*init_failure_);
      warn(fmt::format("{} has no checkpoint yet: starting from its first step", folder_->path().string()));
      return;
    }
    if (auto obstacle = resume_obstacle(loaded->manifest.job, resolved_)) {
      throw Error(obstacle->kind(), obstacle->message(), loaded->path.string(), obstacle->remedy());
    }
    progress_ = Progress::from_json(loaded->manifest.progress, (loaded->path / "manifest.json").string());
    if (RunChanges(folder_->path()).number_at(loaded->manifest.step) < progress_.change) {
      throw Error(ErrorKind::kDamaged, fmt::format("change {} of the job is not written down", progress_.change),
                  (folder_->path() / "changes.jsonl").string(),
                  "Steps so far were computed with it. Bring the file back, or start a new run without --resume.");
    }
    restore(session_, *loaded);
    recall_pace(loaded->manifest.progress, (loaded->path / "manifest.json").string());
    known_.checkpointed_step = session_.cursor().step;
    known_.first_step = session_.cursor().step;
  }

  // A run that did not end by itself or on request has failed once more.
  void recall_pace(const Json& progress, const std::string& where) {
    if (!progress.contains("pace")) return;  // of an older release
    pace_.take(progress.at("pace"), where);
    if (!json_get<bool>(progress, "ended", where)) pace_.failed();
  }

  void announce(bool taken_over) {
    TrainingObserver::Start start;
    start.run = folder_->path();
    start.data = sets_.description;
    start.model = job_.model.name.value_or(job_.model.script);
    start.score = task_->score_name();
    start.parameters = session_.parameter_count();
    start.train_samples = sets_.train->size();
    start.steps_per_epoch = data::steps_per_epoch(shape_);
    start.total_steps = total_steps_;
    start.first_step = known_.first_step;
    start.batch = resolved_.batch;
    start.lanes = resolved_.lanes;
    start.workers = session_.members().group.size();
    start.taken_over = taken_over;
    if (known_.first_step == 0) start.init = init_;
    for (const std::string& line : start.init)
      log_.debug("init: " + line);
    log_.debug(fmt::format("{}: {} ({} parameters) on {}, batch {} in {} lanes, {} workers, {} steps, from step {}",
                           folder_->path().string(), start.model, start.parameters, start.data, start.batch,
                           start.lanes, start.workers, start.total_steps, start.first_step));
    observer_.started(start);
    if (!taken_over) {
      for (const std::string& note : sets_.notes)
        warn("warning: " + note);
      for (const std::string& doubt : all_doubts(resolved_, *sets_.train, *net_))
        warn("warning: " + doubt);
    }
    tell_bad_samples();
  }

  // What the model is, for those who use it later. Training does not end over it.
  void write_card(std::optional<ModelCard::Result> result) {
    ModelCard card;
    card.name = job_.name;
    card.muster_version = version();
    card.job = resolved_.text;
    card.data = sets_.description;
    card.train_samples = sets_.train->size();
    card.form = sets_.form;
    card.model = job_.model.name.value_or(job_.model.script);
    card.parameters = session_.parameter_count();
    card.task = job_.loss.task;
    card.result = std::move(result);
    try {
      card.write(folder_->path());
    } catch (const Error& error) {
      warn(fmt::format("the model card is not written: {}", error.what()));
    }
  }

  // Says what was skipped since it last did. Each process speaks of those that it met itself.
  void tell_bad_samples() {
    const std::uint64_t count = sets_.bad_samples->count();
    if (count == told_bad_samples_) return;
    told_bad_samples_ = count;
    warn(fmt::format("{} bad sample{} skipped so far, the first: {}", count, count == 1 ? "" : "s",
                     sets_.bad_samples->examples().front()));
  }

  // Of the leader only; the others tell nobody.
  TrainingObserver& observer() { return speaks_ ? observer_ : silent_; }

  bool early_stop() const {
    return job_.patience && progress_.epochs_without_improvement >= static_cast<std::uint64_t>(*job_.patience);
  }

  TrainingResult::End loop() {
    while (true) {
      const data::Cursor& cursor = session_.cursor();
      const bool last = cursor.step >= total_steps_;
      if ((cursor.position == 0 || last) && cursor.step > 0 && !validated()) {
        if (!validate()) return interrupted();
      }
      if (last) return TrainingResult::End::kFinished;
      if (early_stop()) return TrainingResult::End::kEarly;
      if (known_.stop) return interrupted();
      step();
    }
  }

  TrainingResult::End interrupted() {
    const bool asked = !abandoned();
    log_.debug(
        fmt::format("stopped {} at step {}", asked ? "on request" : "without a coordinator", session_.cursor().step));
    return asked ? TrainingResult::End::kInterrupted : TrainingResult::End::kAbandoned;
  }

  static bool stopped(TrainingResult::End end) {
    return end == TrainingResult::End::kInterrupted || end == TrainingResult::End::kAbandoned;
  }
  // Whether workers that nobody watches have waited long enough for somebody to take over.
  bool abandoned() const {
    return session_.abandoned_for() > std::chrono::duration<double>(job_.parallel.orphan_seconds);
  }
  bool stop_requested() const { return options_.stop_requested() || abandoned(); }

  // Whether the committed state has been validated: at the end of an epoch, or, in the middle of one, at the last step.
  bool validated() const {
    const data::Cursor& cursor = session_.cursor();
    return known_.validated_step == cursor.step || (cursor.position == 0 && progress_.validated_epochs >= cursor.epoch);
  }

  void step() {
    took_part_ = true;
    make_changes();
    const std::uint64_t proposal = changes_->proposal(session_.cursor().step + 1);
    begun_ = Begun{session_.cursor(), session_.learning_rate(), system_clock().now()};
    if (begun_->at.position == 0) progress_.loss_sum = progress_.score_sum = progress_.samples = 0;
    const strategies::StepOutcome outcome = session_.step(sets_.train, [&](Lane& lane) {
      if (ledger_ && !lane.repeated) ledger_->lane_loaded(begun_->at, lane.index, lane.ids);
      if (stop_requested()) lane.request_stop();
      lane.propose_change(proposal);
      const torch::Tensor answer = net_->forward(lane.data);
      lane.backward(task_->loss(answer, lane.target));
      lane.add_score(task_->score(answer.detach(), lane.target));
    });
    if (ledger_ && outcome.synchronized) ledger_->steps_committed(session_.cursor().step);
    account(outcome);
    begun_.reset();
    leave_note();
    if (checkpoint_due(checkpoint_every_steps_, outcome)) save(std::nullopt);
  }

  bool checkpoint_due(const std::optional<AutoInteger>& every, const strategies::StepOutcome& outcome) {
    if (!every || session_.cursor().position == 0) return false;
    if (!every->automatic) return session_.cursor().step % static_cast<std::uint64_t>(every->value) == 0;
    // What the leader has measured decides, so only where the others need not take part.
    if (!leads() || !outcome.synchronized) return false;
    if (const std::optional<std::string> news = pace_.news()) log_.debug("checkpoints " + *news);
    return pace_.due();
  }

  // Of the step that was begun.
  void account(const strategies::StepOutcome& outcome) {
    const data::Cursor before = begun_->at;
    const double seconds = std::chrono::duration<double>(system_clock().now() - begun_->start).count();
    seconds_ += seconds;
    pace_.step_done(seconds, writer_ && writer_->busy());
    known_.stop = outcome.stop;
    known_.change = outcome.change;
    trained_samples_ += outcome.samples;
    if (outcome.applied) {
      progress_.loss_sum += outcome.loss * static_cast<double>(outcome.samples);
      progress_.score_sum += outcome.score;
      progress_.samples += static_cast<double>(outcome.samples);
      progress_.skipped_in_a_row = 0;
    } else {
      ++progress_.skipped;
      if (progress_.skipped_in_a_row == 0) {
        warn(fmt::format("step {} was skipped: its gradient is not finite (loss {})", before.step + 1, outcome.loss));
      }
      if (++progress_.skipped_in_a_row >= kMostSkippedInARow) {
        throw Error(ErrorKind::kCompute,
                    fmt::format("{} steps in a row had gradients that are not finite", kMostSkippedInARow),
                    fmt::format("step {}", before.step + 1),
                    "Lower optimizer.lr, set optimizer.clip_norm, or look at the data; then resume or start again.");
      }
    }
    report_.step(before, begun_->lr, seconds, outcome, progress_, observer());
  }

  std::optional<Evaluation> evaluate_on(const std::shared_ptr<const data::Dataset>& dataset) {
    EvaluationOptions options;
    options.task = task_;
    options.batch = evaluation_batch(resolved_.batch, resolved_.lanes);
    options.loader_threads = static_cast<int>(job_.data.loader_threads);
    options.group = session_.members().group;
    options.alone_if_lost = false;  // survive() begins again, with those who are left
    options.share_done = [&] { session_.begin(comm::Activity::kWaiting); };
    session_.begin(comm::Activity::kEvaluating);
    options.progress = [&](std::uint64_t done) {
      session_.begin(comm::Activity::kEvaluating);
      observer().validating(done, dataset->size());
      return !stop_requested();
    };
    return evaluate(
        *net_, [this](const torch::Tensor& input) { return net_->forward(input); }, dataset, options);
  }

  // False when a stop was requested meanwhile; then the validation counts as not done.
  bool validate() {
    took_part_ = true;
    session_.synchronize();
    const std::optional<Evaluation> evaluation = evaluate_on(sets_.validation);
    if (!evaluation) return false;
    const data::Cursor& cursor = session_.cursor();
    known_.validated_step = cursor.step;
    last_validation_ = *evaluation;
    if (cursor.position == 0) progress_.validated_epochs = cursor.epoch;
    const bool best = evaluation->loss < progress_.best_loss;
    if (best) {
      progress_.best_loss = evaluation->loss;
      progress_.best_score = evaluation->metrics.front().value;
      progress_.best_step = cursor.step;
      progress_.epochs_without_improvement = 0;
    } else {
      ++progress_.epochs_without_improvement;
    }
    TrainingObserver::Validation event;
    event.set = sets_.held_out ? "validation" : "test";
    event.epoch = cursor.position == 0 ? cursor.epoch : cursor.epoch + 1;
    event.step = cursor.step;
    event.train_loss = progress_.mean_loss();
    event.train_score = progress_.mean_score();
    event.result = *evaluation;
    event.best = best;
    report_.validation(event, observer());
    leave_note();
    log_.debug(fmt::format("epoch {}, step {}: {} {}{}", event.epoch, event.step, event.set, describe(*evaluation),
                           best ? ", best so far" : ""));
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
    known_.checkpointed_step = session_.cursor().step;
    if (leads()) write_checkpoint(best_metric);
  }

  // Of the committed state, by the leader.
  void write_checkpoint(std::optional<double> best_metric) {
    const auto start = system_clock().now();
    session_.begin(comm::Activity::kSaving);
    // A slow disk is waited for; one that hangs is not waited for twice, and training goes on without it.
    const auto patience = left_out_ ? std::chrono::seconds(0) : kHungDisk;
    std::optional<TrainingState> spare = writer_->spare(Deadline::after(patience));
    left_out_ = !spare;
    if (left_out_) {
      const std::string cause = "the one before is still being written";
      if (const auto message = alarm_.attempted(session_.cursor().step, cause, cause)) warn(*message);
      session_.begin(comm::Activity::kWaiting);
      return;
    }
    TrainingState state = capture(session_, std::move(*spare));
    state.manifest.seed = static_cast<std::uint64_t>(job_.seed);
    state.manifest.job = resolved_.text;
    progress_.change = changes_->number_at(session_.cursor().step);
    state.manifest.progress = progress_.to_json();
    state.manifest.progress["pace"] = pace_.to_json();
    state.manifest.progress["ended"] = known_.stop || early_stop() || session_.cursor().step >= total_steps_;
    writer_->submit(std::move(state), best_metric);
    session_.begin(comm::Activity::kWaiting);
    pace_.saved(std::chrono::duration<double>(system_clock().now() - start).count());
  }

  void checkpoint_attempted(const WrittenCheckpoint& written) {
    const std::optional<std::string> message = alarm_.attempted(written.step, written.failure, written.cause);
    if (message) warn(*message);
    if (!written.failure.empty()) return;
    log_.debug(fmt::format("checkpoint {}", written.path.string()));
    observer_.checkpoint_written(written.step, written.path);
  }

  void test(TrainingResult& result) {
    session_.synchronize();
    if (!sets_.held_out && known_.validated_step == session_.cursor().step) {
      result.test = last_validation_;
      return;
    }
    const std::optional<Evaluation> evaluation = evaluate_on(sets_.test);
    if (!evaluation) {
      result.end = interrupted();
      return;
    }
    result.test = *evaluation;
  }

  void summarize(TrainingResult& result) {
    const data::Cursor& cursor = session_.cursor();
    result.leads = leads();
    result.run = folder_->path();
    result.checkpoint = last_checkpoint().value_or("");
    result.steps = cursor.step;
    result.epochs = cursor.epoch;
    result.best_step = progress_.best_step;
    result.best_loss = progress_.best_loss;
    result.best_score = progress_.best_score;
    result.skipped = progress_.skipped;
    result.seconds = seconds_;
    result.samples_per_s = seconds_ > 0 ? static_cast<double>(trained_samples_) / seconds_ : 0;
    result.weights_hash = session_.weights_hash();
    tell_bad_samples();
    if (stopped(result.end)) {
      report_.write({{"event", "interrupted"}, {"step", cursor.step}});
      return;
    }
    if (leads()) {
      write_card(ModelCard::Result{result.steps, result.epochs, result.seconds, result.test, result.best_step,
                                   result.best_loss, result.weights_hash});
    }
    report_.finished(result, told_bad_samples_);
    tell_counted(result);
  }

  // That of the committed step, if it is there.
  std::optional<std::filesystem::path> last_checkpoint() {
    if (!checkpoints_) open_checkpoints();
    const std::vector<std::uint64_t> steps = checkpoints_->list();
    const std::uint64_t step = session_.cursor().step;
    if (std::find(steps.begin(), steps.end(), step) == steps.end()) return std::nullopt;
    return checkpoints_->path_of(step);
  }

  // What servers have counted, where there are some.
  void tell_counted(TrainingResult& result) {
    if (!leads()) return;
    result.counted = session_.counted();
    if (result.counted.empty()) return;
    report_.write({{"event", "counted"}, {"step", session_.cursor().step}, {"counted", Json::parse(result.counted)}});
  }

  void warn(const std::string& message) {
    log_.warning(message);
    observer().warned(message);
  }

  // constant after construction
  const ResolvedJob& resolved_;
  const Job& job_;
  const TrainingOptions& options_;
  TrainingObserver& observer_;
  Log& log_;
  const ProcessMemory held_before_;
  const Datasets sets_;
  const data::BatchShape shape_;
  const std::shared_ptr<const data::LaneOrder> order_;
  const std::uint64_t total_steps_;
  std::string memory_;                 // what the preflight found
  std::vector<std::string> init_;      // what was loaded from files
  std::optional<Error> init_failure_;  // of a run that is resumed
  const std::shared_ptr<const Task> task_;
  const std::shared_ptr<model::Net> net_;
  // of the training thread
  Session session_;
  RunReport report_{task_->score_name(), shape_};
  std::optional<RunFolder> folder_;
  std::optional<RunLock> lock_;  // of the worker that leads
  std::optional<RunLedger> ledger_;
  std::uint64_t told_bad_samples_ = 0;
  std::optional<model::CheckpointStore> checkpoints_;
  CheckpointPace pace_;
  CheckpointAlarm alarm_;
  std::optional<CheckpointWriter> writer_;  // of the leader
  bool left_out_ = false;                   // the last checkpoint, because the disk had not finished the one before
  TrainingObserver silent_;
  RunKnowledge known_;
  Progress& progress_ = known_.progress;
  struct Begun {
    data::Cursor at;
    double lr = 0;
    Clock::Instant start;
  };
  std::optional<Begun> begun_;  // the step in work
  bool logging_ = false;
  bool took_part_ = false;  // this worker has done something for the result
  std::optional<Clock::Instant> noted_;
  std::atomic<bool> speaks_ = false;  // the thread that writes checkpoints reads it
  Evaluation last_validation_;
  double seconds_ = 0;
  std::uint64_t trained_samples_ = 0;
  std::optional<RunChanges> changes_;
  std::vector<std::string> adopted_;  // the changes that the session and the two below know of
  std::optional<AutoInteger> checkpoint_every_steps_ = job_.checkpoint.every_steps;
  std::int64_t checkpoint_every_epochs_ = job_.checkpoint.every_epochs;
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
