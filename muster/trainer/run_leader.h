// What the leader of a run does for all: it holds the run's folder, writes its metrics, checkpoints and card, speaks to
// whoever watches, and tells the other workers what it knows.
//
// On several hosts the first worker of every other one keeps a copy of the run on the disk there, unless that is the
// leader's folder as well: it has the same committed state, so it writes the same files itself, by the same rules, and
// nothing of them goes over the network. A copy that cannot be written costs an alarm.
//
// Every worker has one, because any of them may become the leader: what the leader knows (run_knowledge.h) is what all
// know after each meeting. Thread safety: one thread; the thread that writes checkpoints reads who speaks.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "muster/model/checkpoint.h"
#include "muster/trainer/checkpoint_alarm.h"
#include "muster/trainer/checkpoint_pace.h"
#include "muster/trainer/checkpoint_writer.h"
#include "muster/trainer/model_card.h"
#include "muster/trainer/run_folder.h"
#include "muster/trainer/run_knowledge.h"
#include "muster/trainer/run_lock.h"
#include "muster/trainer/run_parts.h"
#include "muster/trainer/run_report.h"

namespace muster::trainer {

class RunLeader {
 public:
  explicit RunLeader(RunParts& parts)
      : parts_(parts), report_(parts.task->score_name(), parts.shape), progress_(known_.progress) {}

  // The first worker finds the run that is resumed or was begun, or makes one.
  void find_run();
  const RunFolder& folder() const { return *folder_; }
  bool has_folder() const { return folder_.has_value(); }
  // From the newest checkpoint; warns and begins at the first step when there is none.
  void load_checkpoint();
  // The same of a fixed group on several hosts, whose leader alone has the run's checkpoints: all of it call this.
  void share_checkpoint();
  // Before anybody can come: if this worker is lost on the way, the others know what it has read.
  void leave_first_note() { parts_.session.membership().write_note(knowledge_text()); }
  // Nobody of those who knew the run is left: it is taken from what they have left.
  void adopt_run() { take_knowledge(parts_.session.membership().note()); }

  // After every meeting: what the leader knows of the run is what everybody knows.
  void exchange_knowledge();
  // If this worker leads now and did not before: it opens what a leader writes.
  void take_lead(bool taken_over);
  void begin_to_speak(bool speaks) { speaks_ = speaks; }
  // For those who watch, and for those who come when nobody is left.
  void leave_note();

  // After a loss, before take_lead(): leaves the copy to the leader, where that is on this host now.
  void yield_files();
  // On several hosts, after every meeting and take_lead(): who keeps a copy, and what newcomers lack of it. All workers
  // of all hosts call it together.
  void settle_copies();
  // Whether this worker writes what its host has of the run: it leads, or keeps a copy.
  bool writes() const { return parts_.leads() || keeps_; }
  // The rows of the committed step were given to report().
  void reported() { reported_ = parts_.session.cursor().step; }

  // Whether the run ends where it stands, before its last step: nothing has become better for long enough; or it was to
  // train so far in this life (TrainingOptions::until_epoch).
  bool stops_early() const;
  bool pause_is_due() const;
  // A checkpoint of the committed state, by those who write. `change`: of the job, that its steps were computed with.
  void write_checkpoint(std::optional<double> best_metric, std::uint64_t change);
  // Whether this worker has a folder that lacks the newest checkpoint: as a leader because that was lost with another
  // host, as one that keeps a copy because it has just come. Says so once.
  bool owes_checkpoint() { return std::exchange(owes_checkpoint_, false); }
  bool writing() const { return writer_ && writer_->busy(); }
  // Waits for what is being written, as long as any disk that is alive may take. Whether one was left out before: it is
  // to be written now.
  bool finish_writing();
  // Of the committed step, if it is there.
  std::optional<std::filesystem::path> last_checkpoint();

  // What the model is, for those who use it later. Training does not end over it.
  void write_card(std::optional<ModelCard::Result> result);
  // Says what was skipped since it last did. Each process speaks of those that it met itself.
  void tell_bad_samples();
  std::uint64_t bad_samples_told() const { return told_bad_samples_; }
  void warn(const std::string& message);
  // Of the leader only; the others tell nobody.
  TrainingObserver& observer() { return speaks_ ? parts_.observer : silent_; }

  RunReport& report() { return report_; }
  RunKnowledge& known() { return known_; }
  const RunKnowledge& known() const { return known_; }
  CheckpointPace& pace() { return pace_; }
  Evaluation& last_validation() { return last_validation_; }
  // This worker has done something for the result.
  void take_part() { took_part_ = true; }
  // Whether it came when all was done.
  bool came_too_late() const { return known_.finished && !took_part_; }

 private:
  void lock_run(std::chrono::nanoseconds patience);
  bool several_hosts() const;
  std::filesystem::path mark_file() const { return folder_->path() / "folder.mark"; }
  void leave_mark();
  bool sees_mark() const;
  void open_writer();
  void look_for_saved();
  // Whether it is this worker that keeps the copy on its host. All workers of all hosts call it together.
  bool is_keeper(const strategies::Members& members) const;
  // False: it cannot be kept, for which there is an alarm, or need not be.
  bool open_copy();
  void close_files();
  bool lacks_newest() const;
  void share_metrics(const strategies::Members& members);
  void open_report();
  // Throws kIo if the run's folder was removed since: nothing that follows could be kept.
  void check_folder();
  std::string knowledge_text();
  void take_knowledge(const std::string& text);
  void open_log(const comm::Group& group);
  void log_cores();
  void open_checkpoints();
  std::optional<model::LoadedCheckpoint> newest_checkpoint();
  void begin_from(const model::LoadedCheckpoint& loaded);
  void recall_pace(const Json& progress, const std::string& where);
  void announce(bool taken_over);
  void checkpoint_attempted(const WrittenCheckpoint& written);

  RunParts& parts_;
  RunReport report_;
  std::optional<RunFolder> folder_;
  std::optional<RunLock> lock_;  // of the worker that leads
  std::optional<model::CheckpointStore> checkpoints_;
  RunKnowledge known_;
  Progress& progress_;
  CheckpointPace pace_;
  CheckpointAlarm alarm_;
  Evaluation last_validation_;
  TrainingObserver silent_;
  bool logging_ = false;
  bool leads_files_ = false;               // has opened what a leader writes
  bool keeps_ = false;                     // the copy of the run on this host
  bool shared_ = false;                    // this host sees the leader's folder: there is nothing to keep
  std::optional<std::uint64_t> reported_;  // the step whose rows this worker has given to its report last
  bool took_part_ = false;
  bool owes_checkpoint_ = false;
  bool left_out_ = false;  // the last checkpoint, because the disk had not finished the one before
  std::optional<Clock::Instant> folder_checked_;
  std::uint64_t told_bad_samples_ = 0;
  std::atomic<std::uint64_t> saved_ = 0;    // the step of the newest checkpoint here; 0: there is none
  std::atomic<bool> speaks_ = false;        // the thread that writes checkpoints reads it
  std::optional<CheckpointWriter> writer_;  // of the leader; the last member: its thread uses the others
};

}  // namespace muster::trainer
