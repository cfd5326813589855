// Leadership passes on: whatever the leader does it can take up where another one was lost, from the run's folder and
// what all know.
#include "muster/trainer/run_leader.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "muster/base/cores.h"
#include "muster/base/failpoint.h"
#include "muster/base/files.h"
#include "muster/base/version.h"
#include "muster/compute/threads.h"
#include "muster/control/access_token.h"
#include "muster/control/leader_note.h"
#include "muster/launch/environment.h"
#include "muster/strategies/strategy_traits.h"
#include "muster/trainer/job_check.h"
#include "muster/trainer/run_changes.h"
#include "muster/trainer/run_inputs.h"
#include "muster/trainer/run_ledger.h"
#include "muster/trainer/run_start.h"
#include "muster/trainer/shared_text.h"
#include "muster/trainer/training_state.h"

namespace muster::trainer {
namespace {

// The same while others wait for a step of this worker, which they do for longer.
constexpr std::chrono::seconds kHungDisk{120};
// For a process that is dying to let go of the run it wrote.
constexpr std::chrono::seconds kLockPatience{5};
// The same for a copy, which others wait for meanwhile; the next checkpoint tries again.
constexpr std::chrono::seconds kCopyLockPatience{1};
constexpr std::size_t kMarkBytes = 16;
constexpr std::uint64_t kLargestMark = 256;
constexpr std::uint64_t kLargestMetrics = std::uint64_t{256} << 20;
constexpr std::chrono::seconds kFolderInterval{1};

Error folder_is_gone(const std::string& run) {
  return Error(ErrorKind::kIo, "the run's folder was removed while it trained: what was trained is lost", run,
               "Start again without --resume, and leave the folder until the job has ended.");
}

// So that a copy can be resumed as the run itself. On a host without the data, which gets it from others, nothing is
// written down, and nothing compared later.
void remember_inputs_once(const std::filesystem::path& run, const Job& job) {
  std::error_code code;
  if (std::filesystem::exists(run / "inputs.json", code)) return;
  try {
    remember_inputs(run, job);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
  }
}

// A run that workers have found before, and that is no run any more, was removed.
template <typename Action>
void find_again(const std::string& run, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    throw folder_is_gone(run);
  }
}

}  // namespace

void RunLeader::find_run() {
  if (const std::filesystem::path& begun = parts_.options.begun; !parts_.options.resume && !begun.empty())
    find_again(begun.string(), [&] { folder_ = RunFolder::open(begun); });
  else if (!parts_.options.resume)
    folder_ = RunFolder::create(parts_.job.runs, parts_.job.name, parts_.resolved.text);
  else
    folder_ = find_resumed(parts_.resolved, parts_.options.run);
  lock_run(kLockPatience);
  if (parts_.options.resume) {
    check_inputs(folder_->path(), parts_.job);
  } else {
    remember_inputs(folder_->path(), parts_.job);
  }
  if (parts_.job.ledger) known_.ledger_generation = data::next_ledger_generation(folder_->ledger());
  parts_.tell_what_it_does(
      folder_->path(), parts_.options.resume ? "loading the newest checkpoint" : "getting ready for the first step");
  const FailpointScope scope(parts_.seat(), -1, parts_.options.supervised ? parts_.options.supervised->attempt : 0);
  MUSTER_FAILPOINT("run.found");
}

void RunLeader::lock_run(std::chrono::nanoseconds patience) {
  if (!lock_) lock_.emplace(folder_->path(), Deadline::after(patience));
}

bool RunLeader::several_hosts() const {
  return parts_.options.met || (parts_.options.supervised && parts_.options.supervised->host);
}

void RunLeader::check_folder() {
  folder_checked_ = system_clock().now();
  if (lock_ && lock_->run_is_gone()) throw folder_is_gone(folder_->path().string());
}

std::string RunLeader::knowledge_text() {
  // Others say where the leader's is.
  if (parts_.leads() || known_.run.empty()) known_.run = folder_->path().string();
  known_.place.clear();
  if (several_hosts() && (writes() || shared_))
    known_.place = parts_.leads() ? control::LeaderNote::kLeads
                   : keeps_       ? control::LeaderNote::kCopy
                                  : control::LeaderNote::kShared;
  known_.saved.reset();
  if (const std::uint64_t saved = saved_; writes() && saved > 0) known_.saved = saved;
  known_.last_validation = last_validation_.to_json();
  if (parts_.job.checkpoint.every_steps) known_.pace = pace_.to_json();
  known_.step = parts_.session.cursor().step;
  known_.total_steps = parts_.total_steps;
  known_.steps_per_epoch = data::steps_per_epoch(parts_.shape);
  known_.batch = parts_.resolved.batch;
  known_.alarm = alarm_.standing();
  if (parts_.staged) known_.stages = parts_.staged->stages.places(parts_.session.members().count());
  return known_.to_text();
}

void RunLeader::take_knowledge(const std::string& text) {
  const std::string where = "the leader's knowledge of the run";
  known_ = RunKnowledge::from_text(text, where);
  if (!known_.last_validation.is_null()) last_validation_ = Evaluation::from_json(known_.last_validation, where);
  if (!known_.pace.is_null()) pace_.take(known_.pace, where);
  if (folder_) return;
  find_again(known_.run, [&] {
    folder_ = several_hosts() ? RunFolder::of_other_host(known_.run, parts_.job.runs, parts_.resolved.text)
                              : RunFolder::open(known_.run);
  });
}

void RunLeader::exchange_knowledge() {
  const strategies::Members members = parts_.session.members();
  std::string text;
  if (members.leads()) {
    if (members.hosts() > 1) leave_mark();
    text = knowledge_text();
  }
  share_text(members.group, text, members.leader);
  take_knowledge(text);
  // The leader's notes are in the memory of its own host: on every other one somebody keeps what was known last. What
  // its folder is to the run is known a little later (settle_copies).
  if (members.hosts() > 1 && members.host_index() == 0 && members.host != members.job.host_of(members.leader)) {
    known_.place.clear();
    known_.saved.reset();
    parts_.session.membership().write_note(known_.to_text());
  }
  if (!logging_) open_log(members.group);
}

void RunLeader::open_log(const comm::Group& group) {
  logging_ = true;
  parts_.log.open_file(folder_->log_file(parts_.seat()));
  const compute::ComputeLibraries libraries = compute::compute_libraries();
  parts_.log.debug(fmt::format("Muster {}, LibTorch {} ({}), {} ({}); {} ATen and {} BLAS threads", version(),
                               libraries.kernels.torch, libraries.kernels.aten, libraries.blas, libraries.kernels.blas,
                               libraries.aten_threads, libraries.blas_threads));
  log_cores();
  if (!parts_.memory.empty()) parts_.log.debug("memory: " + parts_.memory);
  parts_.log.debug(
      fmt::format("worker {} of {}, pid {}, group over {}", group.rank(), group.size(), ::getpid(), group.backend()));
}

void RunLeader::log_cores() {
  const Cores cores = usable_cores(launch::granted_cores());
  parts_.log.debug(fmt::format("{} usable cores, by {} ({}); {} threads a lane, by job.threads", cores.usable,
                               cores.reason, cores.limits, parts_.job.threads));
  const auto warning =
      oversubscription(cores, static_cast<int>(parts_.session.members().host_count()), parts_.job.threads);
  if (warning && speaks_) warn(*warning);
}

void RunLeader::leave_note() {
  if (!writes()) return;
  // A copy that was removed costs its checkpoints, not the run.
  if (parts_.leads() && (!folder_checked_ || system_clock().now() - *folder_checked_ > kFolderInterval)) check_folder();
  strategies::Membership& membership = parts_.session.membership();
  if (membership.wants_note(known_.finished)) membership.write_note(knowledge_text());
}

void RunLeader::take_lead(bool taken_over) {
  speaks_ = parts_.leads();
  if (!speaks_ || leads_files_) return;
  if (!folder_) adopt_run();
  if (came_too_late()) return;  // nothing is left to write
  find_again(folder_->path().string(), [&] { lock_run(kLockPatience); });
  check_folder();
  open_checkpoints();  // once more, where this worker has looked into them before: the one that was lost may have
                       // left one
  if (!report_.opened()) open_report();
  if (!writer_) open_writer();
  leads_files_ = true;
  // What the one before was writing when it was lost is written again.
  const std::vector<std::uint64_t> written = checkpoints_->list();
  // The newest may have been lost with its host.
  owes_checkpoint_ = taken_over && parts_.options.supervised && parts_.options.supervised->host && lacks_newest();
  if (owes_checkpoint_ && written.empty()) remember_inputs(folder_->path(), parts_.job);
  if (known_.checkpointed_step && (written.empty() || written.back() != *known_.checkpointed_step))
    known_.checkpointed_step.reset();
  announce(taken_over);
  write_card(std::nullopt);
  leave_note();
  if (taken_over) {
    parts_.log.warning("the leader was lost: this worker writes the run's files from now on");
    report_.write({{"event", "leader"}, {"step", parts_.session.cursor().step}});
  } else if (known_.first_step > 0) {
    report_.write({{"event", "resumed"}, {"step", known_.first_step}});
  }
}

void RunLeader::open_report() {
  report_.open(folder_->metrics_file(), [this](const Error& error) { warn(error.what()); });
}

void RunLeader::open_writer() {
  CheckpointWriterOptions writing;
  writing.before = [this_run = folder_->path(), ledger = folder_->ledger(), job = parts_.job, copy = !parts_.leads()] {
    if (job.ledger) data::sync_ledger(ledger);
    if (copy) remember_inputs_once(this_run, job);
  };
  writing.done = [this](const WrittenCheckpoint& written) { checkpoint_attempted(written); };
  writing.patience = kDiskPatience;
  writer_.emplace(*checkpoints_, std::move(writing));
  look_for_saved();
}

void RunLeader::look_for_saved() {
  const std::vector<std::uint64_t> written = checkpoints_->list();
  saved_ = written.empty() ? 0 : written.back();
}

// Of checkpoints that this worker sees; what it is writing does not count.
bool RunLeader::lacks_newest() const {
  if (parts_.session.cursor().step == 0) return false;
  const std::vector<std::uint64_t> written = checkpoints_->list();
  return written.empty() || (known_.checkpointed_step && written.back() < *known_.checkpointed_step);
}

// Fresh in every meeting, so that a folder that was copied from host to host is not taken for one that both see.
// Written in place: a network file system looks at a file anew when it is opened, and at names less often.
void RunLeader::leave_mark() {
  known_.mark = control::random_hex(kMarkBytes);
  std::ofstream(mark_file(), std::ios::trunc) << known_.mark;
}

bool RunLeader::sees_mark() const {
  try {
    return !known_.mark.empty() && read_text(mark_file(), kLargestMark) == known_.mark;
  } catch (const Error&) {
    return false;
  }
}

// Who keeps it now, or else the first: so that it does not pass from one to the other whenever somebody comes, and is
// with the one that would lead next.
bool RunLeader::is_keeper(const strategies::Members& members) const {
  comm::Group group = members.group;
  const std::int64_t mine = writer_ && lock_ ? 1 : 0;
  std::vector<std::int64_t> keeping(members.count());
  group.all_gather(std::span(&mine, 1), std::span(keeping), Deadline::after(kDiskPatience));
  const bool whole = parts_.job.parallel.chosen().traits().workers_hold_state();
  if (!whole || members.host == members.job.host_of(members.leader)) return false;
  const auto own = std::span(keeping).subspan(members.index() - members.host_index(), members.host_count());
  const auto keeper = std::find(own.begin(), own.end(), 1);
  return members.host_index() == (keeper == own.end() ? 0 : static_cast<std::size_t>(keeper - own.begin()));
}

void RunLeader::yield_files() {
  const strategies::Members members = parts_.session.members();
  if (!keeps_ || members.leads()) return;
  if (members.hosts() > 1 && members.host != members.job.host_of(members.leader)) return;
  keeps_ = false;
  if (writer_) writer_->wait(Deadline::after(kLockPatience));
  close_files();
}

void RunLeader::settle_copies() {
  const strategies::Members members = parts_.session.members();
  if (members.hosts() == 1 || known_.finished) {
    keeps_ = shared_ = false;
    return;
  }
  const bool keeper = is_keeper(members);
  shared_ = keeper && sees_mark();
  keeps_ = keeper && !shared_ && open_copy();
  if (!writes()) close_files();
  share_metrics(members);
  if (keeper) {
    parts_.log.debug(fmt::format("host {} leads, and has the run in {}; {}",
                                 members.job.hosts[members.job.host_of(members.leader)].name, known_.run,
                                 shared_  ? "this host sees that folder"
                                 : keeps_ ? "this host keeps a copy in " + folder_->path().string()
                                          : "this host keeps no copy"));
    parts_.session.membership().write_note(knowledge_text());
  }
}

bool RunLeader::open_copy() {
  const std::uint64_t step = parts_.session.cursor().step;
  try {
    lock_run(kCopyLockPatience);
    if (writer_ && writer_->busy()) return true;
    open_checkpoints();
    checkpoints_->remove_after(step);  // of another life of the run, which the others have left
    if (!writer_) open_writer();
    look_for_saved();
    owes_checkpoint_ = lacks_newest();
  } catch (const Error& error) {
    // Where another process writes, it may be one folder after all, and the mark was seen late.
    shared_ = sees_mark();
    if (shared_) return false;
    if (const auto message = alarm_.attempted(step, error.what(), error.message())) warn(*message);
    return true;
  }
  return true;
}

// Another worker, or nobody, writes here from now on.
void RunLeader::close_files() {
  if (writer_ && writer_->busy()) return;  // a disk that hangs is not waited for
  writer_.reset();
  report_.close();
  lock_.reset();
  leads_files_ = false;
}

// Who keeps a copy writes the same rows itself; whoever has missed some gets all of them from the leader.
void RunLeader::share_metrics(const strategies::Members& members) {
  const std::uint64_t step = parts_.session.cursor().step;
  const bool lacks = keeps_ && writer_ && (!report_.opened() || reported_ != step);
  comm::Group group = members.group;
  std::int64_t wanted = lacks ? 1 : 0;
  // A disk of another host may take its time.
  group.all_reduce(std::span(&wanted, 1), comm::Reduction::kMax, Deadline::after(kDiskPatience));
  if (wanted == 0) return;
  std::string rows;
  if (members.leads()) {
    try {
      rows = read_text(folder_->metrics_file(), kLargestMetrics);
    } catch (const Error& error) {
      warn(fmt::format("copies of the run get no metrics of the past: {}", error.what()));
    }
  }
  share_text(group, rows, members.leader);
  if (!lacks) return;
  try {
    report_.close();
    // Not synced: others wait, and metrics are not worth it.
    if (!(std::ofstream(folder_->metrics_file(), std::ios::trunc) << rows << std::flush))
      throw Error(ErrorKind::kIo, "cannot be written", folder_->metrics_file().string());
    open_report();
    reported_ = step;
  } catch (const Error& error) {
    warn(fmt::format("the copy of the run has no metrics: {}", error.what()));
  }
}

void RunLeader::open_checkpoints() {
  model::CheckpointOptions options;
  options.keep = static_cast<std::size_t>(parts_.job.checkpoint.keep);
  checkpoints_.emplace(folder_->checkpoints(), options);
}

void RunLeader::load_checkpoint() {
  if (const std::optional<model::LoadedCheckpoint> loaded = newest_checkpoint()) begin_from(*loaded);
}

void RunLeader::share_checkpoint() {
  const strategies::Members members = parts_.session.members();
  std::optional<model::LoadedCheckpoint> loaded;
  if (members.leads()) loaded = newest_checkpoint();
  std::int64_t found = loaded ? 1 : 0;
  comm::Group group = members.group;
  group.broadcast(std::span(&found, 1), members.leader, Deadline::after(kDiskPatience));
  if (found == 0) return;
  if (loaded)
    begin_from(*loaded);
  else
    parts_.session.receive_state();
  exchange_knowledge();
}

std::optional<model::LoadedCheckpoint> RunLeader::newest_checkpoint() {
  MUSTER_FAILPOINT("run.checkpoint.load");
  open_checkpoints();
  std::vector<model::RejectedCheckpoint> rejected;
  std::optional<model::LoadedCheckpoint> loaded = checkpoints_->load_newest(rejected);
  for (const model::RejectedCheckpoint& bad : rejected) {
    warn(fmt::format("checkpoint {} is not used: {}", bad.path.string(), bad.reason));
  }
  if (!loaded) {
    if (!rejected.empty()) {
      throw Error(ErrorKind::kDamaged, "no checkpoint of this run is whole", folder_->checkpoints().string(),
                  "Start a new run without --resume.");
    }
    if (parts_.init_failure) throw Error(*parts_.init_failure);
    warn(fmt::format("{} has no checkpoint yet: starting from its first step", folder_->path().string()));
    return std::nullopt;
  }
  if (auto obstacle = resume_obstacle(loaded->manifest.job, parts_.resolved)) {
    throw Error(obstacle->kind(), obstacle->message(), loaded->path.string(), obstacle->remedy());
  }
  return loaded;
}

void RunLeader::begin_from(const model::LoadedCheckpoint& loaded) {
  progress_ = Progress::from_json(loaded.manifest.progress, (loaded.path / "manifest.json").string());
  if (RunChanges(folder_->path()).number_at(loaded.manifest.step) < progress_.change) {
    throw Error(ErrorKind::kDamaged, fmt::format("change {} of the job is not written down", progress_.change),
                (folder_->path() / "changes.jsonl").string(),
                "Steps so far were computed with it. Bring the file back, or start a new run without --resume.");
  }
  restore(parts_.session, loaded);
  recall_pace(loaded.manifest.progress, (loaded.path / "manifest.json").string());
  known_.checkpointed_step = parts_.session.cursor().step;
  known_.first_step = parts_.session.cursor().step;
}

// A run that did not end by itself or on request has failed once more.
void RunLeader::recall_pace(const Json& progress, const std::string& where) {
  if (!progress.contains("pace")) return;  // of an older release
  pace_.take(progress.at("pace"), where);
  if (!json_get<bool>(progress, "ended", where)) pace_.failed();
}

void RunLeader::announce(bool taken_over) {
  TrainingObserver::Start start;
  start.run = folder_->path();
  start.data = parts_.sets.description;
  start.model = parts_.job.model.name.value_or(parts_.job.model.script);
  start.score = parts_.task->score_name();
  start.parameters = parts_.session.parameter_count();
  start.train_samples = parts_.sets.train->size();
  start.steps_per_epoch = data::steps_per_epoch(parts_.shape);
  start.total_steps = parts_.total_steps;
  start.first_step = known_.first_step;
  start.batch = parts_.resolved.batch;
  start.lanes = parts_.resolved.lanes;
  start.workers = parts_.session.members().group.size();
  start.taken_over = taken_over;
  if (known_.first_step == 0) start.init = parts_.init;
  for (const std::string& line : start.init)
    parts_.log.debug("init: " + line);
  parts_.log.debug(fmt::format("{}: {} ({} parameters) on {}, batch {} in {} lanes, {} workers, {} steps, from step {}",
                               folder_->path().string(), start.model, start.parameters, start.data, start.batch,
                               start.lanes, start.workers, start.total_steps, start.first_step));
  parts_.observer.started(start);
  if (!taken_over) {
    for (const std::string& note : parts_.sets.notes)
      warn("warning: " + note);
    for (const std::string& doubt : all_doubts(parts_.resolved, *parts_.sets.train, *parts_.net))
      warn("warning: " + doubt);
  }
  tell_bad_samples();
}

void RunLeader::write_card(std::optional<ModelCard::Result> result) {
  ModelCard card;
  card.name = parts_.job.name;
  card.muster_version = version();
  card.job = parts_.resolved.text;
  card.data = parts_.sets.description;
  card.train_samples = parts_.sets.train->size();
  card.form = parts_.sets.form;
  card.model = parts_.job.model.name.value_or(parts_.job.model.script);
  card.parameters = parts_.session.parameter_count();
  card.task = parts_.job.loss.task;
  card.result = std::move(result);
  try {
    card.write(folder_->path());
  } catch (const Error& error) {
    warn(fmt::format("the model card is not written: {}", error.what()));
  }
}

void RunLeader::tell_bad_samples() {
  const std::uint64_t count = parts_.sets.bad_samples->count();
  if (count == told_bad_samples_) return;
  told_bad_samples_ = count;
  warn(fmt::format("{} bad sample{} skipped so far, the first: {}", count, count == 1 ? "" : "s",
                   parts_.sets.bad_samples->examples().front()));
}

bool RunLeader::stops_early() const {
  const std::optional<std::int64_t>& patience = parts_.job.patience;
  return patience && progress_.epochs_without_improvement >= static_cast<std::uint64_t>(*patience);
}

bool RunLeader::pause_is_due() const {
  const std::optional<std::uint64_t>& until = parts_.options.until_epoch;
  const data::Cursor& cursor = parts_.session.cursor();
  return until && cursor.position == 0 && cursor.epoch >= *until;
}

void RunLeader::write_checkpoint(std::optional<double> best_metric, std::uint64_t change) {
  if (parts_.leads()) check_folder();
  if (!writer_) {
    keeps_ = open_copy();
    owes_checkpoint_ = false;  // this is it
    if (!writer_) return;
  }
  const auto start = system_clock().now();
  parts_.session.begin(comm::Activity::kSaving);
  // A slow disk is waited for; one that hangs is not waited for twice, and training goes on without it.
  const auto patience = left_out_ ? std::chrono::seconds(0) : kHungDisk;
  std::optional<TrainingState> spare = writer_->spare(Deadline::after(patience));
  left_out_ = !spare;
  if (left_out_) {
    const std::string cause = "the one before is still being written";
    if (const auto message = alarm_.attempted(parts_.session.cursor().step, cause, cause)) warn(*message);
    parts_.session.begin(comm::Activity::kWaiting);
    return;
  }
  TrainingState state = capture(parts_.session, std::move(*spare));
  state.manifest.seed = static_cast<std::uint64_t>(parts_.job.seed);
  state.manifest.job = parts_.resolved.text;
  progress_.change = change;
  state.manifest.progress = progress_.to_json();
  state.manifest.progress["pace"] = pace_.to_json();
  state.manifest.progress["ended"] =
      known_.stop || stops_early() || pause_is_due() || parts_.session.cursor().step >= parts_.total_steps;
  writer_->submit(std::move(state), best_metric);
  parts_.session.begin(comm::Activity::kWaiting);
  pace_.saved(std::chrono::duration<double>(system_clock().now() - start).count());
}

bool RunLeader::finish_writing() {
  if (!writer_) return false;
  // What a stuck disk has not got by then is lost, and is told as that.
  if (!writer_->wait(Deadline::after(kDiskPatience))) warn("the last checkpoint is still being written");
  return left_out_ && !writer_->busy();
}

void RunLeader::checkpoint_attempted(const WrittenCheckpoint& written) {
  const std::optional<std::string> message = alarm_.attempted(written.step, written.failure, written.cause);
  if (message) warn(*message);
  if (!written.failure.empty()) return;
  saved_ = written.step;
  parts_.log.debug(fmt::format("checkpoint {}", written.path.string()));
  observer().checkpoint_written(written.step, written.path);
}

std::optional<std::filesystem::path> RunLeader::last_checkpoint() {
  if (!checkpoints_) open_checkpoints();
  const std::vector<std::uint64_t> steps = checkpoints_->list();
  const std::uint64_t step = parts_.session.cursor().step;
  if (std::find(steps.begin(), steps.end(), step) == steps.end()) return std::nullopt;
  return checkpoints_->path_of(step);
}

void RunLeader::warn(const std::string& message) {
  parts_.log.warning(message);
  observer().warned(message);
}

}  // namespace muster::trainer
