// What comes with every report and may wait for a disk is written by a thread of its own, the newest state only; a
// command is written before it is answered.
#include "muster/coordinator/job_service.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/control/access_token.h"
#include "muster/control/control_server.h"
#include "muster/control/job_store.h"
#include "muster/control/store.h"
#include "muster/coordinator/asked_changes.h"
#include "muster/coordinator/job_progress.h"
#include "muster/coordinator/lead_keeper.h"
#include "muster/coordinator/open_calls.h"
#include "muster/coordinator/supervisor_log.h"
#include "muster/coordinator/take_over_rules.h"

namespace muster::coordinator {
struct JobService::State {
  State(CoordinatedJob its_job, Tell its_tell, const Clock& its_clock)
      : job(std::move(its_job)), launch(launch_of(job)), tell(std::move(its_tell)), clock(its_clock) {
    wishes.workers = job.most_workers;
    wishes.servers = job.servers;
  }

  // On the thread that writes: everything that may wait for a disk.
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || to_write || look_for_applied; });
      if (std::exchange(look_for_applied, false)) {
        lock.unlock();
        attempt([&] {
          changes->mark_applied();
          read_changes();
        });
        lock.lock();
        continue;
      }
      if (to_write) {
        const control::Membership membership = *std::exchange(to_write, std::nullopt);
        const std::optional<control::LedCluster> led = to_lead;
        const std::optional<control::Launch> moved = std::exchange(to_launch, std::nullopt);
        const bool begins = progress.trains() && !std::exchange(written_as_running, true);
        const std::uint64_t step = progress.step();
        lock.unlock();
        if (moved) attempt([&] { record->put_launch(*moved); });
        attempt([&] { record->put_membership(membership); });
        if (led && led != written_lead) {
          attempt([&] {
            record->put_cluster(*led);
            written_lead = led;
          });
        }
        if (begins) attempt([&] { record->put_standing({control::JobPhase::kRunning, {}, step, 0}); });
        lock.lock();
      } else if (stopping) {
        return;
      }
    }
  }

  template <typename Action>
  void attempt(const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      tell(fmt::format("the job's record: {}", error.what()));
    }
  }

  // Empty: nobody has said it yet.
  std::string named_run() const { return job.folder.path.empty() ? progress.leader().run : job.folder.path.string(); }

  void take_over(const std::string& run, bool by_force = false) {
    std::optional<control::EtcdOptions> in = control::etcd_in(run);
    if (job.etcd) in = control::etcd_of_run(*job.etcd, run);
    if (!in) {
      record = std::make_shared<control::JobRecord>(control::make_sqlite_store(control::store_file(run)));
      record->take_over(this_process(), by_force);
      return;
    }
    const std::shared_ptr<control::Store> store = control::make_etcd_store(*in);
    record = std::make_shared<control::JobRecord>(store);
    record->take_over(this_process());
    lead_over(store, *in);
  }

  // The lead of a record in an etcd was taken: it is kept from now on.
  void lead_over(std::shared_ptr<control::Store> store, const control::EtcdOptions& of_run) {
    control::keep_record_in(run_folder, of_run);
    where_recorded = control::url_of(of_run);
    etcd = std::move(store);
    lease = of_run.lease;
    lead.emplace(*record, [this](const std::string& line) {
      tell(line);
      log.note(line);
    });
    lead_known = true;
  }

  // Of a run that this process has begun or resumes. Throws if somebody else was faster: the run is not this job's
  // then.
  void take_lead(const std::string& run) {
    try {
      take_over(run);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kMismatch) throw;
      taken = true;
      const std::lock_guard lock(mutex);
      run_folder.clear();
      throw;
    }
  }

  void begin(const std::string& run) {
    control::JobIdentity identity;
    identity.name = job.name;
    identity.run = run;
    identity.created = fmt::format("{:%FT%TZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(clock.wall())));
    if (record->identity()) before = record->standing();
    record->begin(identity, wanted_at_first(job));
    read_wishes();
    // Workers that start anew count from 1, and a record's generation never goes back.
    if (const std::uint64_t recorded = record->membership().generation; recorded > progress.report().generation)
      earlier_generations = recorded;
    written_launch = launch;
    written_launch.store = progress.report().store;
    written_launch.earlier_generations = earlier_generations;
    record->put_launch(written_launch);
    if (cluster) record->put_cluster(*cluster);
  }

  // A job that was coordinated on another host: what that one has written down is here only if both see the folder.
  void move_here(const std::string& store) {
    if (!record->identity()) {
      control::JobIdentity identity;
      identity.name = job.name;
      identity.run = run_folder;
      record->begin(identity, wanted_at_first(job));
    }
    written_launch = launch;
    written_launch.store = store;
    written_launch.earlier_generations = earlier_generations = record->membership().generation;
    record->put_launch(written_launch);
  }

  // Workers whose founder was lost while it loaded meet elsewhere. Whether they have moved.
  bool follow_store() {
    if (!serves || progress.report().store == written_launch.store) return false;
    written_launch.store = progress.report().store;
    const std::lock_guard lock(mutex);
    to_launch = written_launch;
    return true;
  }

  // What was made for a job that never trained says nothing, unless somebody has stopped it: who did so looks.
  void remove_unused() const {
    if (!has_trained && !wishes.stop && !job.training->has_results(job.folder.path)) job.folder.remove();
  }

  void serve() {
    written_as_running = progress.trains();
    // Of a run that is resumed nobody knows more yet than its record did.
    const std::uint64_t step = progress.trains() ? progress.step() : record->standing().step;
    record->put_standing({phase(), progress.leader().doing, step, 0});
    log.open(run_folder, fmt::format("process {} coordinates {}, {} worker{} at most", this_process().pid, job.name,
                                     job.most_workers, job.most_workers == 1 ? "" : "s"));
    control::ControlCallbacks callbacks;
    callbacks.status = [this] {
      control::JobStatus now = status();
      if (!etcd) now.changes = record->changes();
      return now;
    };
    callbacks.command_stored = [this] {
      read_wishes();
      read_changes();
      attempt([&] { changes->tell(); });
    };
    callbacks.check_change = [this](const std::string& assignment) { changes->check(assignment); };
    changes.emplace(*record, run_folder, job.training,
                    [this](const std::vector<control::Change>& asked) { others_asked(asked); });
    changes->keep_numbers();
    changes->tell();  // what another coordinator has acknowledged and not told
    calls.emplace(*record, std::move(callbacks));
    server.emplace(*calls, *record, run_folder, log.log(), clock);
    commands.open(*calls);
    read_changes();
    if (etcd) control::note_leader(run_folder, {*record->lease(), record->endpoint().value_or("")});
    serves = true;
    thread = std::thread([this] { this->run(); });
  }

  // For those who ask how the job stands while the etcd does not answer. A file always does.
  void read_changes() {
    if (!etcd) return;
    attempt([&] {
      const std::vector<control::Change> now = record->changes();
      const std::lock_guard lock(mutex);
      known_changes = now;
    });
  }

  void others_asked(const std::vector<control::Change>& asked) {
    std::function<void(const std::vector<control::Change>&)> ask;
    {
      const std::lock_guard lock(mutex);
      ask = ask_others;
    }
    if (ask) ask(asked);
  }

  // While nobody asked for its end.
  control::JobPhase phase() const {
    return progress.trains() ? control::JobPhase::kRunning : control::JobPhase::kStarting;
  }

  // As soon as it is known where the run is.
  void open() {
    if (!record) {
      const std::string run = named_run();
      if (run.empty()) return;
      {
        const std::lock_guard lock(mutex);
        run_folder = run;
      }
      take_lead(run);
      begin(run);
    }
    serve();
  }

  // From several threads of the service: what one has read must not take the place of what another has read later.
  void read_wishes() {
    const std::lock_guard one_at_a_time(reading);
    const control::WantedState now = record->wanted();
    MUSTER_FAILPOINT("job_service.wishes.read");
    bool stopped_before = false;
    {
      const std::lock_guard lock(mutex);
      wanted = now;
      wishes.workers = wanted.target_workers;
      wishes.servers = wanted.target_servers;
      stopped_before = std::exchange(wishes.stop, wanted.stop);
    }
    if (!now.stop || stopped_before) return;
    const std::string message = "muster stop: the workers are told to finish their step and to end";
    tell(message);
    log.note(message);
  }

  control::JobStatus status() {
    const std::lock_guard lock(mutex);
    control::JobStatus status;
    status.job = job.name;
    status.run = run_folder;
    status.state = to_string(wanted.stop ? control::JobPhase::kStopping : phase());
    if (!progress.trains()) status.reason = progress.leader().doing;
    progress.describe(status);
    status.generation += earlier_generations;
    status.min_workers = wanted.min_workers;
    status.max_workers = wanted.max_workers;
    status.target_workers = wanted.target_workers;
    status.min_servers = wanted.min_servers;
    status.max_servers = wanted.max_servers;
    status.target_servers = wanted.target_servers;
    status.coordinator_pid = this_process().pid;
    status.started = job.started;
    status.live = true;
    status.changes = known_changes;
    if (etcd && etcd->session_left().count() == 0)
      status.alarms.push_back(fmt::format(
          "the job's store ({}) was not heard of for longer than the lease: training goes on, hosts stay as "
          "they are, and commands wait",
          where_recorded));
    if (describe) describe(status);
    return status;
  }

  // A record that cannot be read says nothing of others.
  bool leads() const {
    try {
      return record->leads();
    } catch (const Error&) {
      return true;
    }
  }

  // Returns when everything is written.
  void finish_writing() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  const CoordinatedJob job;
  const control::Launch launch;
  const Tell tell;
  const Clock& clock;
  SupervisorLog log;
  std::shared_ptr<control::JobRecord> record;
  std::shared_ptr<control::Store> etcd;     // that holds it; null: a file does
  std::chrono::nanoseconds lease{0};        // its length there
  std::string where_recorded;               // for people
  std::optional<AskedChanges> changes;      // once it serves
  control::Launch written_launch;           // as it stands in the record, or will in a moment
  std::optional<control::Standing> before;  // of a run that was there before this life of it
  std::optional<control::LedCluster> cluster;
  std::function<control::LedCluster()> standing;    // the same, as it is now
  std::optional<control::LedCluster> written_lead;  // of the thread that writes
  bool given_up = false;
  bool taken = false;  // the run is another process's
  bool has_trained = false;
  bool serves = false;
  std::atomic<bool> lead_known = false;   // `lead` is there
  std::uint64_t earlier_generations = 0;  // of lives of the run before this one; constant once the record is open
  // guarded by mutex; what the supervisor's thread alone writes it reads without
  mutable std::mutex mutex;
  std::condition_variable changed;
  JobProgress progress;
  launch::Wishes wishes;
  control::WantedState wanted;                 // as the record has it: only its leader writes
  std::vector<control::Change> known_changes;  // the same, of a record in an etcd
  std::string run_folder;
  std::function<void(control::JobStatus&)> describe;
  std::function<void(const std::vector<control::Change>&)> ask_others;
  std::optional<control::Membership> to_write;
  std::optional<control::LedCluster> to_lead;  // with it, as the next
  std::optional<control::Launch> to_launch;
  bool look_for_applied = false;
  bool written_as_running = false;  // in the record
  bool stopping = false;
  std::mutex reading;  // before `mutex`
  // after what they use
  std::optional<control::RecordedCalls> calls;  // once it serves
  OpenCalls commands;
  std::optional<control::ControlServer> server;
  std::thread thread;
  std::optional<LeadKeeper> lead;  // of a record in an etcd
};

JobService::JobService(CoordinatedJob job, Tell tell, const Clock& clock)
    : state_(std::make_unique<State>(std::move(job), std::move(tell), clock)) {
}

JobService::JobService(const RecordedJob& recorded, Tell tell, const Clock& clock)
    : JobService(recorded.job, std::move(tell), clock) {
  state_->run_folder = recorded.run.string();
  // Of processes of another host nobody can say here whether they run: whoever moves the job here says that they do
  // not.
  if (recorded.led) {
    state_->record = recorded.led;
    state_->lead_over(recorded.etcd, control::etcd_of_run(*recorded.job.etcd, recorded.run));
  } else {
    state_->take_over(state_->run_folder, recorded.moves);
  }
  // Where no worker is left to be taken over the run stays what it was.
  state_->before = state_->record->standing();
  if (recorded.moves) state_->move_here(recorded.store);
  if (const auto launch = state_->record->launch()) {
    state_->written_launch = *launch;
    state_->earlier_generations = launch->earlier_generations;
  }
  state_->read_wishes();
}

JobService::~JobService() {
  state_->commands.close();
  state_->server.reset();
  state_->finish_writing();
  state_->remove_unused();
}

void JobService::report(const launch::SupervisorReport& report) {
  State& state = *state_;
  bool members_changed = report.generation != state.progress.report().generation;
  {
    const std::lock_guard lock(state.mutex);
    const bool trained = state.progress.trains();
    state.progress.see(report, state.clock.now());
    members_changed = members_changed || trained != state.progress.trains();
    state.has_trained = state.has_trained || state.progress.trains();
    state.look_for_applied = state.changes && state.changes->waiting();
    if (state.look_for_applied) state.changed.notify_all();
  }
  if (!state.serves && !state.given_up) {
    try {
      state.open();
      members_changed = true;  // since the record was opened
    } catch (const Error& error) {
      state.given_up = true;
      if (state.taken) throw;
      state.tell(fmt::format("muster status and other commands cannot reach this job: {}", error.what()));
    }
  }
  members_changed = state.follow_store() || members_changed;
  if (!state.thread.joinable() || !members_changed) return;
  std::optional<control::LedCluster> led;
  if (state.standing) led = state.standing();
  const std::lock_guard lock(state.mutex);
  state.to_lead = std::move(led);
  state.to_write = state.progress.membership();
  state.to_write->generation += state.earlier_generations;
  state.changed.notify_all();
}

bool JobService::leads_for_certain() const {
  // Of a run that nobody knows yet there is no other leader.
  if (!state_->lead_known) return true;
  const auto& hosts = state_->job.hosts;
  return coordinator::leads_for_certain(state_->etcd->session_left(), state_->lease,
                                        hosts ? hosts->patience : std::chrono::nanoseconds(0));
}

std::string JobService::overtaken() const {
  return state_->lead_known ? state_->lead->overtaken() : "";
}

launch::Wishes JobService::wishes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->wishes;
}

control::JobStatus JobService::status() const {
  return state_->status();
}

void JobService::note(const std::string& line) {
  state_->log.note(line);
}

void JobService::describe_with(std::function<void(control::JobStatus&)> describe) {
  const std::lock_guard lock(state_->mutex);
  state_->describe = std::move(describe);
}

void JobService::ask_others_with(std::function<void(const std::vector<control::Change>&)> ask) {
  const std::lock_guard lock(state_->mutex);
  state_->ask_others = std::move(ask);
}

void JobService::lead(const control::LedCluster& cluster) {
  state_->cluster = cluster;
  if (state_->record) state_->record->put_cluster(cluster);
}

void JobService::lead_with(std::function<control::LedCluster()> standing) {
  lead(standing());
  state_->standing = std::move(standing);
}

control::ControlCalls& JobService::commands() {
  return state_->commands;
}

bool JobService::trains() const {
  const std::lock_guard lock(state_->mutex);
  return state_->progress.trains();
}

std::string JobService::store() const {
  const std::lock_guard lock(state_->mutex);
  return state_->progress.report().store;
}

control::LeaderNote JobService::leader() const {
  const std::lock_guard lock(state_->mutex);
  return state_->progress.leader();
}

void JobService::end(control::JobPhase phase, const std::string& reason) {
  State& state = *state_;
  const std::uint64_t step = state.progress.step();
  state.log.note(
      fmt::format("the job has {} after step {}{}{}", to_string(phase), step, reason.empty() ? "" : ": ", reason),
      phase == control::JobPhase::kFinished);
  // A run that could not be loaded is as it was before, and one that another has taken over goes on.
  const bool ours = overtaken().empty() && (!state.record || state.leads());
  if (phase == control::JobPhase::kFailed && !state.run_folder.empty() && state.has_trained && ours)
    state.job.training->write_failure(state.run_folder, step, reason);
  if (!state.record || state.given_up) return;
  state.commands.close();
  state.server.reset();
  state.finish_writing();  // nothing can be written once the lease is given up
  if (!overtaken().empty()) return;
  if (state.changes) state.attempt([&] { state.changes->mark_applied(); });
  const bool as_before = phase == control::JobPhase::kFailed && !state.has_trained && state.before;
  state.attempt([&] {
    state.record->put_standing(
        as_before ? *state.before : control::Standing{phase, reason, std::max(step, state.record->standing().step), 0});
    state.record->release();
    if (state.etcd) control::bring_record_back(state.run_folder, *state.etcd);
  });
}

}  // namespace muster::coordinator
