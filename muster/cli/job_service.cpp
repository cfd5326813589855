#include "muster/cli/job_service.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/log.h"
#include "muster/cli/job_changes.h"
#include "muster/control/access_token.h"
#include "muster/control/control_server.h"
#include "muster/control/store.h"
#include "muster/trainer/run_changes.h"
#include "muster/trainer/run_failure.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kRateWindow{5};
constexpr std::size_t kMostEarlyLines = 1000;

control::MemberState member_state(control::SeatState state) {
  return state == control::SeatState::kMember ? control::MemberState::kRunning : control::MemberState::kStarting;
}

control::Membership membership_of(const launch::SupervisorReport& report) {
  control::Membership membership;
  membership.generation = report.generation;
  for (const launch::SupervisorReport::Seat& seat : report.seats)
    membership.members.push_back({seat.seat, seat.process, seat.restarts, member_state(seat.state)});
  return membership;
}

control::MemberStatus member_status(const launch::SupervisorReport::Seat& seat, std::uint64_t step) {
  control::MemberStatus member;
  member.rank = seat.seat;
  member.process = seat.process;
  member.restarts = seat.restarts;
  member.state = seat.state == control::SeatState::kMember
                     ? std::string(to_string(state_of(seat.process)))
                     : (seat.state == control::SeatState::kReady ? "ready" : "starting");
  if (seat.state != control::SeatState::kMember) return member;
  member.step = step + 1;
  if (seat.lane) member.lane = static_cast<std::uint64_t>(*seat.lane);
  const comm::Activity activity = seat.doing.activity;
  if (activity == comm::Activity::kWaiting) member.waits_for = "the others";
  if (activity == comm::Activity::kLoading) member.waits_for = "samples";
  if (activity == comm::Activity::kSaving) member.waits_for = "the disk";
  member.seconds = std::chrono::duration<double>(system_clock().now().time_since_epoch() - seat.doing.since).count();
  return member;
}

}  // namespace

struct JobService::State {
  explicit State(JobServiceOptions its_options) : options(std::move(its_options)), log(LogLevel::kOff) {
    wishes.workers = options.most_workers;
    wishes.servers = options.servers;
  }

  // On the thread that writes: everything that may wait for a disk.
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || to_write || look_for_applied; });
      if (std::exchange(look_for_applied, false)) {
        lock.unlock();
        attempt([&] { mark_applied(); });
        lock.lock();
        continue;
      }
      if (to_write) {
        const control::Membership membership = *std::exchange(to_write, std::nullopt);
        lock.unlock();
        attempt([&] { record->put_membership(membership); });
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
      options.warn(fmt::format("the job's record: {}", error.what()));
    }
  }

  std::string run_of(const launch::SupervisorReport& report) const {
    if (options.make_run) return report.generation > 0 ? options.make_run() : "";
    const Json note = Json::parse(report.note, nullptr, false);
    return note.is_object() && note.contains("run") ? note.at("run").get<std::string>() : "";
  }

  void take_over(const std::string& run) {
    record.emplace(control::make_sqlite_store(control::store_file(run)));
    record->take_over(this_process());
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
    identity.name = options.name;
    identity.run = run;
    identity.created = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
    control::WantedState wanted;
    wanted.min_workers = options.least_workers;
    wanted.max_workers = wanted.target_workers = options.most_workers;
    wanted.min_servers = options.least_servers;
    wanted.max_servers = options.most_servers;
    wanted.target_servers = options.servers;
    record->begin(identity, wanted);
    // Workers that start anew count from 1, and a record's generation never goes back.
    if (const std::uint64_t recorded = record->membership().generation; recorded > last.generation)
      earlier_generations = recorded;
    control::Launch launch = options.launch;
    launch.store = last.store;
    launch.earlier_generations = earlier_generations;
    record->put_launch(launch);
  }

  void serve(const std::string& run) {
    record->put_standing({control::JobPhase::kRunning, {}, last.step, 0});
    open_log(run);
    control::ControlCallbacks callbacks;
    callbacks.status = [this] { return status(); };
    callbacks.command_stored = [this] {
      read_wishes();
      attempt([&] { tell_changes(); });
    };
    callbacks.check_change = [this](const std::string& assignment) {
      if (options.job_text.empty())
        throw Error(ErrorKind::kUnsupported, "the workers are a program of its own, which has no keys of a job");
      std::vector<std::string> earlier;
      for (const control::Change& change : record->changes())
        earlier.push_back(change.assignment);
      check_change(options.job_text, earlier, assignment);
    };
    keep_numbers();
    tell_changes();  // what another coordinator has acknowledged and not told
    server.emplace(*record, run, std::move(callbacks), log);
    serves = true;
    thread = std::thread([this] { this->run(); });
  }

  void open_log(const std::string& run) {
    log.open_file(std::filesystem::path(run) / "log.supervisor.txt");
    log.info(fmt::format("process {} coordinates {}, {} worker{} at most", this_process().pid, options.name,
                         options.most_workers, options.most_workers == 1 ? "" : "s"));
    const std::lock_guard lock(mutex);
    for (const std::string& line : early_lines)
      log.warning(line);
    early_lines.clear();
    logs = true;
  }

  void note(const std::string& line, bool expected = false) {
    const std::lock_guard lock(mutex);
    if (logs)
      expected ? log.info(line) : log.warning(line);
    else if (early_lines.size() < kMostEarlyLines)
      early_lines.push_back(line);
  }

  // From several threads of the service: what one has read must not take the place of what another has read later.
  void read_wishes() {
    const std::lock_guard one_at_a_time(reading);
    const control::WantedState wanted = record->wanted();
    MUSTER_FAILPOINT("job_service.wishes.read");
    bool stopped_before = false;
    {
      const std::lock_guard lock(mutex);
      wishes.workers = wanted.target_workers;
      wishes.servers = wanted.target_servers;
      stopped_before = std::exchange(wishes.stop, wanted.stop);
    }
    if (!wanted.stop || stopped_before) return;
    const std::string message = "muster stop: the workers are told to finish their step and to end";
    options.warn(message);
    note(message);
  }

  // A record that was lost and made anew has no changes, but the run's folder has: new ones are numbered after them.
  void keep_numbers() {
    const std::size_t recorded = record->changes().size();
    const trainer::RunChanges changes(run_folder);
    for (const trainer::JobChange& change : changes.asked()) {
      if (change.number > recorded) record->change(fmt::format("change-{}", change.number), change.assignment);
    }
  }

  // The workers look into the run's folder.
  void tell_changes() {
    const std::lock_guard one_at_a_time(telling);
    std::vector<trainer::JobChange> asked;
    std::set<std::uint64_t> waiting;
    for (const control::Change& change : record->changes()) {
      asked.push_back({change.number, change.assignment});
      if (!change.applied_at_step) waiting.insert(change.number);
    }
    if (!asked.empty()) trainer::write_asked_changes(run_folder, asked);
    const std::lock_guard lock(mutex);
    unapplied = std::move(waiting);
  }

  // What the leader has written down of changes goes into the record.
  void mark_applied() {
    const trainer::RunChanges made(run_folder);
    for (const trainer::JobChange& change : made.known()) {
      {
        const std::lock_guard lock(mutex);
        if (!unapplied.contains(change.number)) continue;
      }
      record->mark_applied(change.number, change.step);
      const std::lock_guard lock(mutex);
      unapplied.erase(change.number);
    }
  }

  control::JobStatus status() {
    const control::WantedState wanted = record->wanted();
    const std::lock_guard lock(mutex);
    control::JobStatus status;
    status.job = options.name;
    status.run = run_folder;
    status.state = to_string(wanted.stop ? control::JobPhase::kStopping : control::JobPhase::kRunning);
    status.generation = earlier_generations + last.generation;
    status.step = last.step;
    status.min_workers = wanted.min_workers;
    status.max_workers = wanted.max_workers;
    status.target_workers = wanted.target_workers;
    status.min_servers = wanted.min_servers;
    status.max_servers = wanted.max_servers;
    status.target_servers = wanted.target_servers;
    status.servers = last.servers.serving;
    status.leaving_servers = last.servers.leaving;
    for (const launch::SupervisorReport::Seat& seat : last.seats)
      status.members.push_back(member_status(seat, last.step));
    const Json note = Json::parse(last.note, nullptr, false);
    if (note.is_object()) {
      status.total_steps = note.value("total_steps", std::uint64_t{0});
      const std::uint64_t per_epoch = note.value("steps_per_epoch", std::uint64_t{0});
      // The one in work, counted from 1 as the progress line counts.
      if (per_epoch > 0) status.epoch = last.step / per_epoch + (last.step == status.total_steps ? 0 : 1);
      status.samples_per_second = rate() * note.value("batch", 0.0);
      if (note.contains("alarm")) status.alarms.push_back(note.value("alarm", std::string()));
    }
    status.coordinator_pid = this_process().pid;
    status.live = true;
    return status;
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

  // Steps a second over the last few seconds.
  double rate() const {
    if (steps.size() < 2) return 0;
    const double seconds = std::chrono::duration<double>(steps.back().first - steps.front().first).count();
    return seconds > 0 ? static_cast<double>(steps.back().second - steps.front().second) / seconds : 0;
  }

  const JobServiceOptions options;
  Log log;
  std::optional<control::JobRecord> record;
  bool given_up = false;
  bool taken = false;  // the run is another process's
  bool serves = false;
  std::uint64_t earlier_generations = 0;  // of lives of the run before this one; constant once the record is open
  // guarded by mutex
  mutable std::mutex mutex;
  std::condition_variable changed;
  launch::SupervisorReport last;
  launch::Wishes wishes;
  std::string run_folder;
  std::deque<std::pair<Clock::Instant, std::uint64_t>> steps;
  std::optional<control::Membership> to_write;
  std::set<std::uint64_t> unapplied;  // changes of which the record does not say from which step on they count
  bool look_for_applied = false;
  bool stopping = false;
  bool logs = false;                     // the log is open; until then:
  std::vector<std::string> early_lines;  // for it
  std::mutex telling;                    // this and the next: before `mutex`
  std::mutex reading;
  // after what they use
  std::optional<control::ControlServer> server;
  std::thread thread;
};

JobService::JobService(JobServiceOptions options) : state_(std::make_unique<State>(std::move(options))) {
}

JobService::JobService(JobServiceOptions options, const std::filesystem::path& run) : JobService(std::move(options)) {
  state_->run_folder = run.string();
  state_->take_over(state_->run_folder);
  if (const auto launch = state_->record->launch()) state_->earlier_generations = launch->earlier_generations;
  state_->read_wishes();
}

JobService::~JobService() {
  state_->server.reset();
  state_->finish_writing();
}

void JobService::report(const launch::SupervisorReport& report) {
  State& state = *state_;
  bool members_changed = report.generation != state.last.generation;
  const auto now = system_clock().now();
  {
    const std::lock_guard lock(state.mutex);
    state.last = report;
    // With parameter servers the arena counts no steps; the leader tells.
    const Json note = Json::parse(report.note, nullptr, false);
    if (note.is_object()) state.last.step = std::max(report.step, note.value("step", std::uint64_t{0}));
    state.steps.emplace_back(now, state.last.step);
    while (now - state.steps.front().first > kRateWindow)
      state.steps.pop_front();
    state.look_for_applied = !state.unapplied.empty();
    if (state.look_for_applied) state.changed.notify_all();
  }
  if (!state.serves && !state.given_up) {
    try {
      if (!state.record) {
        const std::string run = state.run_of(report);
        if (run.empty()) return;  // nobody has said it yet
        {
          const std::lock_guard lock(state.mutex);
          state.run_folder = run;
        }
        state.take_lead(run);
        state.begin(run);
      }
      state.serve(state.run_folder);
      members_changed = true;  // since the record was opened
    } catch (const Error& error) {
      state.given_up = true;
      if (state.taken) throw;
      state.options.warn(fmt::format("muster status and other commands cannot reach this job: {}", error.what()));
      return;
    }
  }
  if (!state.thread.joinable() || !members_changed) return;
  const std::lock_guard lock(state.mutex);
  state.to_write = membership_of(report);
  state.to_write->generation += state.earlier_generations;
  state.changed.notify_all();
}

launch::Wishes JobService::wishes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->wishes;
}

control::JobStatus JobService::status() const {
  return state_->status();
}

void JobService::note(const std::string& line) {
  state_->note(line);
}

bool JobService::trains() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last.generation > 0 || !state_->last.note.empty();
}

std::string JobService::store() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last.store;
}

std::string JobService::leaders_note() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last.note;
}

void JobService::end(control::JobPhase phase, const std::string& reason) {
  State& state = *state_;
  const std::string line = fmt::format("the job has {} after step {}{}{}", to_string(phase), state.last.step,
                                       reason.empty() ? "" : ": ", reason);
  state.note(line, phase == control::JobPhase::kFinished);
  // A program of a user's has no files of ours.
  if (phase == control::JobPhase::kFailed && !state.run_folder.empty() && !state.options.job_text.empty())
    trainer::write_failure(state.run_folder, state.last.step, reason);
  if (!state.record || state.given_up) return;
  state.server.reset();
  state.finish_writing();  // nothing can be written once the lease is given up
  state.attempt([&] { state.mark_applied(); });
  state.attempt([&] {
    state.record->put_standing({phase, reason, std::max(state.last.step, state.record->standing().step), 0});
    state.record->release();
  });
}

}  // namespace muster::cli
