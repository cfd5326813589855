// The thread takes the newest of everything and writes it down; whoever asks for a status meanwhile is answered by the
// coordinator, with this host's own workers in the place of the coordinator's.
#include "muster/coordinator/host_service.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/control/access_token.h"
#include "muster/control/commands_folder.h"
#include "muster/control/control_calls.h"
#include "muster/control/control_server.h"
#include "muster/coordinator/asked_changes.h"
#include "muster/coordinator/job_progress.h"
#include "muster/coordinator/supervisor_log.h"

namespace muster::coordinator {
namespace {

// How soon the record follows what nobody reports: another coordinator's term.
constexpr std::chrono::milliseconds kLookAtLine{250};

// To the coordinator and back. A number that was given up is given anew in a moment: whoever asks may try again.
template <typename Call>
auto passed_on(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    throw Error(ErrorKind::kPeerLost, "the coordinator has given this host up, which joins again", {}, "Try again.");
  }
}

}  // namespace

struct HostService::State final : control::ControlCalls {
  State(CoordinatedJob its_job, Line its_line, Tell its_tell, const Clock& its_clock)
      : job(std::move(its_job)), line(std::move(its_line)), tell(std::move(its_tell)), clock(its_clock) {
    thread = std::thread([this] { work(); });
  }

  control::JobStatus status() override {
    control::JobStatus status = passed_on([&] { return line.calls.host_status(line.host()); });
    control::JobStatus here;
    const std::lock_guard lock(mutex);
    progress.describe(here);
    status.members = std::move(here.members);
    status.run = run.string();
    return status;
  }
  control::WantedState scale(const std::string& request, const control::Scaling& scaling) override {
    return passed_on([&] { return line.calls.host_scale(line.host(), request, scaling); });
  }
  control::WantedState stop(const std::string& request) override {
    return passed_on([&] { return line.calls.host_stop(line.host(), request); });
  }
  control::Change set(const std::string& request, const std::string& assignment) override {
    return passed_on([&] { return line.calls.host_set(line.host(), request, assignment); });
  }

  // What is to be written down.
  struct News {
    std::string store;
    std::string run;  // as the leader has it
    control::Membership membership;
    control::Standing standing;
    std::vector<control::Change> changes;
  };

  // On the thread.
  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait_for(lock, kLookAtLine, [&] { return stopping || fresh; });
      if (!std::exchange(fresh, false) && stopping) return;
      const control::JobPhase phase = progress.trains() ? control::JobPhase::kRunning : control::JobPhase::kStarting;
      const News news{progress.report().store,
                      progress.leader().run,
                      progress.membership(),
                      {phase, progress.leader().doing, progress.step(), 0},
                      changes};
      lock.unlock();
      take(news);
      lock.lock();
    }
  }

  // The run as the host that leads has it. Of a program of the user's own only the coordinator knows it, once its
  // workers have met. Empty: nobody has said it yet.
  std::string run_of_leader(const News& news) const {
    if (!news.run.empty() || job.training->ours() || news.membership.generation == 0) return news.run;
    try {
      return line.calls.host_status(line.host()).run;
    } catch (const Error&) {
      return {};  // it is away, or does not know it either: at the next look
    }
  }

  void take(const News& news) {
    if (given_up) return;
    const std::string led_run = server ? news.run : run_of_leader(news);
    if (!server && led_run.empty()) return;
    try {
      if (!server) open(news, led_run);
      // Each counts as written when it is: what fails is tried again at the next look.
      if (const control::LedCluster now = line.cluster(); now != cluster) {
        record->put_cluster(now);
        cluster = now;
      }
      if (news.changes != changes_passed_on) {
        pass_on_changes(run, *job.training, news.changes);
        changes_passed_on = news.changes;
      }
      control::Membership members = news.membership;
      members.generation += earlier_generations;
      if (members != membership) {
        record->put_membership(members);
        membership = members;
      }
      if (news.standing.phase != standing.phase) {
        record->put_standing(news.standing);
        standing = news.standing;
      }
      complaint.clear();
      if (!std::exchange(told_recorded, true)) line.recorded(run);
    } catch (const Error& error) {
      given_up = !server;
      const std::string words = given_up ? fmt::format("commands on this host cannot reach the job: {}", error.what())
                                         : fmt::format("the record of this host: {}", error.what());
      if (std::exchange(complaint, words) != words) tell(words);
    }
  }

  void open(const News& news, const std::string& led_run) {
    const std::filesystem::path found = job.training->local_run(led_run);
    const std::filesystem::path folder = control::host_folder(found);
    make_folders(folder);
    record.emplace(control::make_sqlite_store(control::store_file(folder)));
    record->take_over(this_process());
    control::JobIdentity identity;
    identity.name = job.name;
    identity.run = found.string();
    identity.elsewhere = fmt::format("{} ({})", led_run, line.coordinator);
    identity.created = fmt::format("{:%FT%TZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(clock.wall())));
    record->begin(identity, wanted_at_first(job));
    control::Launch launch = launch_of(job);
    launch.store = news.store;
    // Workers that start anew count from 1, and a record's generation never goes back.
    launch.earlier_generations = earlier_generations = record->membership().generation;
    record->put_launch(launch);
    log.open(folder, fmt::format("process {} is the agent of this host for {}", this_process().pid, job.name));
    {
      const std::lock_guard lock(mutex);
      run = found;
    }
    server.emplace(*this, *record, folder, log.log(), clock);
  }

  static void make_folders(const std::filesystem::path& folder) {
    std::error_code code;
    std::filesystem::create_directories(folder, code);
    if (code) throw Error(ErrorKind::kIo, fmt::format("cannot be made: {}", code.message()), folder.string());
  }

  void finish() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  // constant after construction
  const CoordinatedJob job;
  const Line line;
  const Tell tell;
  const Clock& clock;
  SupervisorLog log;
  // of the thread, and of end() after it
  std::optional<control::JobRecord> record;
  control::Membership membership;
  control::Standing standing;
  control::LedCluster cluster;
  std::vector<control::Change> changes_passed_on;
  std::uint64_t earlier_generations = 0;
  bool given_up = false;
  bool told_recorded = false;
  std::string complaint;  // the last, until all is written
  // guarded by mutex; `run` is read without by the thread, which alone writes it
  std::mutex mutex;
  std::condition_variable changed;
  JobProgress progress;
  std::filesystem::path run;
  std::vector<control::Change> changes;
  bool fresh = false;
  bool stopping = false;
  // after what they use
  std::optional<control::ControlServer> server;
  std::thread thread;
};

HostService::HostService(CoordinatedJob job, Line line, Tell tell, const Clock& clock)
    : state_(std::make_unique<State>(std::move(job), std::move(line), std::move(tell), clock)) {
}

HostService::~HostService() {
  state_->finish();
}

void HostService::report(const launch::SupervisorReport& report) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  const bool same = report.generation == state.progress.report().generation;
  const bool trained = state.progress.trains();
  const bool known = !state.progress.leader().run.empty();
  state.progress.see(report, state.clock.now());
  if (same && trained == state.progress.trains() && known == !state.progress.leader().run.empty()) return;
  state.fresh = true;
  state.changed.notify_all();
}

void HostService::ask(const std::vector<control::Change>& changes) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (state.changes == changes) return;
  state.changes = changes;
  state.fresh = true;
  state.changed.notify_all();
}

void HostService::note(const std::string& line) {
  state_->log.note(line);
}

void HostService::end(control::JobPhase phase, const std::string& reason) {
  State& state = *state_;
  state.finish();
  if (!state.server) return;
  state.server.reset();
  state.log.note(
      fmt::format("{} after step {}{}{}", to_string(phase), state.progress.step(), reason.empty() ? "" : ": ", reason),
      phase == control::JobPhase::kFinished);
  try {
    state.record->put_standing({phase, reason, state.progress.step(), 0});
    state.record->release();
  } catch (const Error& error) {
    state.tell(fmt::format("the record of this host: {}", error.what()));
  }
}

}  // namespace muster::coordinator
