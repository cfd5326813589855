#include "muster/cli/job_service.h"

#include <condition_variable>
#include <ctime>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/job_changes.h"
#include "muster/control/control_server.h"
#include "muster/control/store.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kRateWindow{5};

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
  }

  // On the thread that writes: everything that may wait for a disk.
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || to_write; });
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

  void open(const std::string& run) {
    record.emplace(control::make_sqlite_store(std::filesystem::path(run) / "control.db"));
    record->take_over(this_process());
    control::JobIdentity identity;
    identity.name = options.name;
    identity.run = run;
    identity.created = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
    control::WantedState wanted;
    wanted.min_workers = options.least_workers;
    wanted.max_workers = wanted.target_workers = options.most_workers;
    record->begin(identity, wanted);
    record->put_standing({control::JobPhase::kRunning, {}, last.step, 0});
    log.open_file(std::filesystem::path(run) / "log.supervisor.txt");
    control::ControlCallbacks callbacks;
    callbacks.status = [this] { return status(); };
    callbacks.command_stored = [this] { read_wishes(); };
    callbacks.check_change = [this](const std::string& assignment) {
      std::vector<std::string> earlier;
      for (const control::Change& change : record->changes())
        earlier.push_back(change.assignment);
      check_change(options.job_text, earlier, assignment);
      throw Error(ErrorKind::kUnsupported, "the workers of this release cannot change a key while they train", {},
                  "Stop the job (muster stop), and resume it with --set where the key may differ.");
    };
    server.emplace(*record, run, std::move(callbacks), log);
    thread = std::thread([this] { this->run(); });
  }

  void read_wishes() {
    const control::WantedState wanted = record->wanted();
    const std::lock_guard lock(mutex);
    wishes.workers = wanted.target_workers;
    wishes.stop = wanted.stop;
  }

  control::JobStatus status() {
    const control::WantedState wanted = record->wanted();
    const std::lock_guard lock(mutex);
    control::JobStatus status;
    status.job = options.name;
    status.run = run_folder;
    status.state = to_string(wanted.stop ? control::JobPhase::kStopping : control::JobPhase::kRunning);
    status.generation = last.generation;
    status.step = last.step;
    status.min_workers = wanted.min_workers;
    status.max_workers = wanted.max_workers;
    status.target_workers = wanted.target_workers;
    for (const launch::SupervisorReport::Seat& seat : last.seats)
      status.members.push_back(member_status(seat, last.step));
    const Json note = Json::parse(last.note, nullptr, false);
    if (note.is_object()) {
      status.total_steps = note.value("total_steps", std::uint64_t{0});
      const std::uint64_t per_epoch = note.value("steps_per_epoch", std::uint64_t{0});
      if (per_epoch > 0) status.epoch = last.step / per_epoch;
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
  // guarded by mutex
  mutable std::mutex mutex;
  std::condition_variable changed;
  launch::SupervisorReport last;
  launch::Wishes wishes;
  std::string run_folder;
  std::deque<std::pair<Clock::Instant, std::uint64_t>> steps;
  std::optional<control::Membership> to_write;
  bool stopping = false;
  // after what they use
  std::optional<control::ControlServer> server;
  std::thread thread;
};

JobService::JobService(JobServiceOptions options) : state_(std::make_unique<State>(std::move(options))) {
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
    state.steps.emplace_back(now, report.step);
    while (now - state.steps.front().first > kRateWindow)
      state.steps.pop_front();
  }
  if (!state.record && !state.given_up && !report.note.empty()) {
    const Json note = Json::parse(report.note, nullptr, false);
    if (!note.is_object() || !note.contains("run")) return;
    {
      const std::lock_guard lock(state.mutex);
      state.run_folder = note.at("run").get<std::string>();
    }
    try {
      state.open(state.run_folder);
      members_changed = true;  // since the record was opened
    } catch (const Error& error) {
      state.given_up = true;
      state.options.warn(fmt::format("muster status and other commands cannot reach this job: {}", error.what()));
      return;
    }
  }
  if (!state.thread.joinable() || !members_changed) return;
  const std::lock_guard lock(state.mutex);
  state.to_write = membership_of(report);
  state.changed.notify_all();
}

launch::Wishes JobService::wishes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->wishes;
}

void JobService::end(control::JobPhase phase, const std::string& reason) {
  State& state = *state_;
  if (!state.thread.joinable()) return;
  state.server.reset();
  state.finish_writing();  // nothing can be written once the lease is given up
  state.attempt([&] {
    state.record->put_standing({phase, reason, state.last.step, 0});
    state.record->release();
  });
}

}  // namespace muster::cli
