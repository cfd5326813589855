// Takes over a job: by hand, or by the word of an etcd that says that nobody leads it any more. What is taken over are
// the workers of this host; agents of the others find the new coordinator by themselves.
#include "muster/cli/take_over.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/base/temporary_folder.h"
#include "muster/base/text.h"
#include "muster/cli/runs.h"
#include "muster/cli/signals.h"
#include "muster/cli/workers.h"
#include "muster/control/commands_folder.h"
#include "muster/control/control_client.h"
#include "muster/control/job_store.h"
#include "muster/control/take_over_checks.h"
#include "muster/coordinator/coordinator.h"
#include "muster/coordinator/standby.h"
#include "muster/coordinator/take_over_rules.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::cli {
namespace {

using coordinator::CoordinatedJob;
using coordinator::Coordinator;

constexpr std::chrono::milliseconds kLiveInterval{500};
constexpr std::chrono::seconds kPlainInterval{10};
constexpr std::chrono::seconds kAgentDeath{30};
constexpr std::chrono::milliseconds kAgentPoll{20};
constexpr std::chrono::seconds kCoordinatorAnswer{5};
constexpr std::chrono::milliseconds kLookForRun{500};

void throw_if(const std::optional<Error>& obstacle) {
  if (obstacle) throw *obstacle;
}

// One line about a job that was taken over: rewritten on a terminal, repeated now and then elsewhere.
class TakeOverView {
 public:
  explicit TakeOverView(const Coordinator& coordinator)
      : coordinator_(coordinator), live_(::isatty(STDERR_FILENO) != 0) {}
  ~TakeOverView() {
    if (live_) fmt::print(stderr, "\r\033[K");
  }

  void show() {
    const auto now = system_clock().now();
    if (shown_ && now - *shown_ < (live_ ? std::chrono::nanoseconds(kLiveInterval) : kPlainInterval)) return;
    const control::JobStatus status = coordinator_.status();
    fmt::print(stderr, "{}muster: {} {}: step {} of {}, {} workers, {} samples/s{}", live_ ? "\r\033[K" : "",
               shown_ ? "watching" : "took over", status.job, grouped(status.step), grouped(status.total_steps),
               status.members.size(), grouped(static_cast<std::uint64_t>(status.samples_per_second)),
               live_ && shown_ ? "" : "\n");
    shown_ = now;
  }

 private:
  const Coordinator& coordinator_;
  const bool live_;
  std::optional<Clock::Instant> shown_;
};

// Nobody may think that it supervises workers that another one has taken over: it is killed, and its death awaited.
void end_holder(const std::optional<control::Lease>& lease, const char* what, const std::filesystem::path& run) {
  const bool lives = lease && lease->holder.pid != 0 && state_of(lease->holder) != ProcessState::kGone;
  const coordinator::HolderVerdict verdict = coordinator::judge_holder(lease, this_process(), process_space(), lives);
  if (!verdict.end) return;
  tell(fmt::format("the {} of this host: {}", what, verdict.reason));
  launch::ChildProcess agent = launch::ChildProcess::adopt(lease->holder);
  agent.kill(SIGKILL);
  for (const Deadline deadline = Deadline::after(kAgentDeath); state_of(lease->holder) != ProcessState::kGone;) {
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout, fmt::format("the {} (process {}) does not die", what, lease->holder.pid),
                  run.string(), "Look at what it hangs in; then try again.");
    system_clock().sleep_for(kAgentPoll);
  }
}

// This host becomes the coordinator's: its agent goes, its workers stay. The agent's folder is the caller's then, to be
// removed with the job: the agent cannot do it any more.
std::optional<TemporaryFolder> move_from_agent(const coordinator::JobTakenOver& job, coordinator::LeadView place,
                                               const ClusterFlags& flags, coordinator::JobHosts& hosts,
                                               coordinator::RecordedJob& recorded) {
  const std::filesystem::path& run = recorded.run;
  hosts.listen = listen_by(flags);
  const control::JobRecord agents(control::open_record_store(control::host_folder(run)));
  const auto refuse_if = [&](bool answers, const std::string& address) {
    if (!answers) return;
    place.answering = address;
    throw_if(coordinator::obstacle_of_place(job, place));
  };
  // Who was elected need not ask.
  if (!place.elected)
    refuse_if(control::ControlClient(run).status(Deadline::after(kCoordinatorAnswer)).live, recorded.cluster->listen);
  ClusterFlags before = flags;
  before.join = recorded.cluster->listen;
  for (const control::ClusterTarget& target : targets_of(before))
    if (target.address != flags.listen) hosts.before.push_back(target);
  for (const control::ClusterTarget& target : hosts.before)
    if (!place.elected)
      refuse_if(control::coordinator_answers(target, Deadline::after(kCoordinatorAnswer)), target.address);
  control::require_can_listen(hosts.listen);
  end_holder(agents.lease(), "agent", run);
  // The file of the agent goes with its folder; the run has the same.
  std::vector<std::string>& arguments = recorded.job.command.arguments;
  if (arguments.size() < 2) return std::nullopt;
  const std::filesystem::path file = std::exchange(arguments[1], std::filesystem::absolute(run / "job.toml").string());
  std::error_code code;
  const std::filesystem::path folder = file.parent_path();
  const bool of_an_agent = folder.filename().string().starts_with(kAgentFolderPrefix);
  if (!of_an_agent || !std::filesystem::exists(folder, code)) return std::nullopt;
  return TemporaryFolder::adopt(folder);
}

// What the run's folder says of the job beside its record.
struct KnownJob {
  CoordinatedJob job{};
  std::optional<coordinator::JobHosts> hosts{};  // by the job file; nothing: it is a program of a user's
  coordinator::JobTakenOver rules{};             // all but the cluster
};

KnownJob known_job(const std::filesystem::path& run) {
  KnownJob known;
  known.rules.run = run.string();
  std::error_code ignored;
  const std::filesystem::path file = run / "job.toml";
  if (!std::filesystem::exists(file, ignored)) return known;
  const trainer::ResolvedJob resolved = trainer::load_job(file, {});
  known.hosts = hosts_of(resolved);
  const strategies::Traits traits = resolved.job.parallel.chosen().traits();
  known.job = coordinated_job(resolved);
  known.rules.of_a_file = true;
  known.rules.replaces_workers = traits.replaces_workers;
  known.rules.needs_servers = traits.needs_servers;
  known.rules.data_from_hosts = known.job.data.has_value();
  return known;
}

// From what is recorded to the job's end.
int coordinate(coordinator::RecordedJob recorded, KnownJob known, ClusterFlags flags) {
  std::optional<coordinator::JobHosts>& hosts = known.hosts;
  known.rules.cluster = recorded.cluster;
  throw_if(coordinator::obstacle_of_job(known.rules));
  const coordinator::LeadView place{.moves = recorded.moves,
                                    .elected = recorded.led != nullptr,
                                    .listen = flags.listen,
                                    .interface = flags.interface};
  throw_if(coordinator::obstacle_of_place(known.rules, place));
  std::optional<TemporaryFolder> agents;
  if (recorded.cluster) {
    if (recorded.moves) {
      std::optional<TemporaryFolder> left = move_from_agent(known.rules, place, flags, *hosts, recorded);
      if (left) agents.emplace(std::move(*left));
    }
    const coordinator::Lead lead = coordinator::next_lead(*recorded.cluster, place);
    flags.listen = lead.listen;
    if (!recorded.moves) hosts->listen = listen_by(flags);
    hosts->interface = lead.interface;
    hosts->arguments = lead.cluster.arguments;
    hosts->taken_over = recorded.cluster = lead.cluster;
    recorded.job.hosts = std::move(hosts);
  }
  Coordinator coordinator(std::move(recorded), tell);
  // What the workers print goes where the coordinator before let it go.
  TakeOverView view(coordinator);
  return run_aloud(coordinator, [&] { view.show(); });
}

// The record of that run in an etcd, and whoever leads it.
struct SharedRecord {
  std::shared_ptr<control::Store> store;
  std::shared_ptr<control::JobRecord> record;
};

SharedRecord open_shared(const std::filesystem::path& run, const control::EtcdOptions& etcd) {
  SharedRecord shared;
  shared.store = control::make_etcd_store(control::etcd_of_run(etcd, run));
  shared.record = std::make_shared<control::JobRecord>(shared.store);
  return shared;
}

// The lead was taken, from the holder of `before`. What fails from here on gives it to whoever stands by as well.
int coordinate_shared(const std::filesystem::path& run, const SharedRecord& shared, const control::Lease& before,
                      const control::EtcdOptions& etcd, const ClusterFlags& flags) {
  try {
    // It may have lost its lease and live: nobody else may think that it supervises these workers.
    end_holder(before, "coordinator", run);
    KnownJob known;
    coordinator::RecordedJob recorded = coordinator::read_shared_job(run, *shared.record, before.space, [&] {
      known = known_job(run);
      return known.job;
    });
    recorded.job.etcd = etcd;
    recorded.etcd = shared.store;
    recorded.led = shared.record;
    return coordinate(std::move(recorded), std::move(known), flags);
  } catch (...) {
    try {
      shared.record->release();
    } catch (const Error&) {
      // The etcd does not answer: the lead ends with its lease. What is told is why this one gave it up.
    }
    throw;
  }
}

// Whether this host has workers of the job that a coordinator here could take over.
void require_part_of_the_job(const std::filesystem::path& run, const control::JobRecord& record) {
  if (coordinator::has_part(record.lease(), process_space(), control::has_record(control::host_folder(run)))) return;
  throw Error(ErrorKind::kInvalidInput, "this host has no part in the job: there are no workers to take over",
              run.string(), "Stand by on a host that has an agent of the job, or on its coordinator's.");
}

// The run that `job` names, waited for until the deadline.
std::filesystem::path await_run(const std::string& job, const std::string& runs, const Deadline& deadline,
                                const SignalWatch& signals) {
  for (bool told = false;;) {
    try {
      return find_newest_run(job, runs);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound || deadline.passed() || signals.stop_requested()) throw;
      if (!std::exchange(told, true)) tell(fmt::format("standing by: waiting for a run of {}", job));
    }
    system_clock().sleep_for(kLookForRun);
  }
}

// Until this process leads: the lease of whoever did before. Nothing: as coordinator::stand_by().
std::optional<control::Lease> await_turn(const std::filesystem::path& run, const SharedRecord& shared,
                                         const ClusterFlags& flags, const std::function<bool()>& stop_requested) {
  bool checked = false;
  coordinator::StandbyOptions options;
  options.tell = tell;
  options.stop_requested = [&] {
    try {
      if (!checked && shared.record->lease()) {
        require_part_of_the_job(run, *shared.record);
        coordinator::JobTakenOver job = known_job(run).rules;
        job.cluster = shared.record->cluster();
        throw_if(coordinator::obstacle_of_job(job));
        if (!flags.listen.empty()) listen_by(flags);
        checked = true;
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;  // it is looked at again
    }
    return stop_requested();
  };
  return coordinator::stand_by(*shared.record, options);
}

}  // namespace

int take_over_workers(const std::filesystem::path& run, const ClusterFlags& flags,
                      const std::optional<control::EtcdOptions>& etcd) {
  if (const auto in = coordinator::etcd_that_decides(etcd, control::etcd_in(run))) {
    const SharedRecord shared = open_shared(run, *in);
    const std::optional<control::Lease> before = shared.record->lease();
    if (!before)
      throw Error(ErrorKind::kNotFound, "that etcd knows nothing of this run", run.string(),
                  "Give the --store that it was started with.");
    require_part_of_the_job(run, *shared.record);
    shared.record->take_over(this_process());
    return coordinate_shared(run, shared, *before, *in, flags);
  }
  KnownJob known;
  coordinator::RecordedJob recorded = coordinator::read_recorded_job(run, [&] {
    known = known_job(run);
    return known.job;
  });
  return coordinate(std::move(recorded), std::move(known), flags);
}

int stand_by_for(const std::string& job, const std::string& runs, const ClusterFlags& flags,
                 const control::EtcdOptions& etcd, std::chrono::duration<double> wait) {
  std::optional<std::filesystem::path> run;
  std::optional<SharedRecord> shared;
  std::optional<control::Lease> before;
  {
    // Nothing is held while it stands by: it may end at any moment.
    const SignalWatch signals(std::chrono::hours(24), [](const std::string& signal) { tell(signal + ": ending"); });
    run = await_run(job, runs, Deadline::after(std::chrono::duration_cast<std::chrono::nanoseconds>(wait)), signals);
    shared = open_shared(*run, etcd);
    before = await_turn(*run, *shared, flags, [&] { return signals.stop_requested(); });
    if (!before) return signals.exit_code();
  }
  return coordinate_shared(*run, *shared, *before, etcd, flags);
}

void stand_by_beside(const std::filesystem::path& run, const ClusterFlags& flags, const control::EtcdOptions& etcd,
                     const std::function<bool()>& stop_requested,
                     const std::function<void(const control::Lease& before)>& lead) {
  const SharedRecord shared = open_shared(run, etcd);
  if (const auto before = await_turn(run, shared, flags, stop_requested)) lead(*before);
}

int take_turn(const std::filesystem::path& run, const ClusterFlags& flags, const control::EtcdOptions& etcd,
              const control::Lease& before) {
  const SharedRecord shared = open_shared(run, etcd);
  shared.record->take_over(this_process());
  return coordinate_shared(run, shared, before, etcd, flags);
}

}  // namespace muster::cli
