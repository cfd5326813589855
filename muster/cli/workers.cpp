#include "muster/cli/workers.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/cli/job_service.h"
#include "muster/cli/signals.h"
#include "muster/control/access_token.h"
#include "muster/control/server_map.h"
#include "muster/control/store.h"
#include "muster/launch/supervisor.h"
#include "muster/launch/worker_words.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/session_note.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kLiveInterval{500};
constexpr std::chrono::seconds kPlainInterval{10};
// Workers outlive this process unless it kills them first.
constexpr std::chrono::milliseconds kLongestKill{3000};

// One line about a job that was taken over: rewritten on a terminal, repeated now and then elsewhere.
class TakeOverView {
 public:
  explicit TakeOverView(const JobService& service) : service_(service), live_(::isatty(STDERR_FILENO) != 0) {}
  ~TakeOverView() {
    if (live_) fmt::print(stderr, "\r\033[K");
  }

  void show() {
    const auto now = system_clock().now();
    if (shown_ && now - *shown_ < (live_ ? std::chrono::nanoseconds(kLiveInterval) : kPlainInterval)) return;
    const control::JobStatus status = service_.status();
    fmt::print(stderr, "{}muster: {} {}: step {} of {}, {} workers, {} samples/s{}", live_ ? "\r\033[K" : "",
               shown_ ? "watching" : "took over", status.job, grouped(status.step), grouped(status.total_steps),
               status.members.size(), grouped(static_cast<std::uint64_t>(status.samples_per_second)),
               live_ && shown_ ? "" : "\n");
    shown_ = now;
  }

 private:
  const JobService& service_;
  const bool live_;
  std::optional<Clock::Instant> shown_;
};

}  // namespace

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

namespace {

// On a terminal the line that a progress bar stands in is cleared first.
void tell(const std::string& message) {
  fmt::print(stderr, "{}muster: {}\n", ::isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", message);
}

JobServiceOptions service_options(const launch::Command& command, const SupervisedJob& job) {
  JobServiceOptions options;
  options.name = job.name;
  options.job_text = job.text;
  options.least_workers = job.least_workers;
  options.most_workers = job.most_workers;
  if (job.servers > 0) {
    options.least_servers = job.copies;
    options.most_servers = control::most_servers(job.servers);
    options.servers = job.servers;
  }
  options.make_run = job.make_run;
  options.warn = tell;
  options.launch.program = command.program;
  options.launch.arguments = command.arguments;
  options.launch.folder = command.folder.empty() ? std::filesystem::current_path().string() : command.folder;
  options.launch.liveness_seconds = job.liveness.count();
  options.launch.hang_seconds = job.hang.count();
  options.launch.start_seconds = job.start.count();
  options.launch.grace_seconds = job.grace.count();
  return options;
}

// For the error when a lane has killed two workers. A user's program says by a note how its lanes are made.
std::string samples_of_lane(const SupervisedJob& job, const JobService& service, std::uint64_t step, int lane) {
  if (job.describe_lane) return job.describe_lane(step, lane);
  const std::optional<trainer::SessionNote> note = trainer::SessionNote::from_text(service.leaders_note());
  if (!note) return {};
  return fmt::format("samples {}", fmt::join(note->samples_of(step, static_cast<std::size_t>(lane)), ", "));
}

launch::SupervisorOptions supervisor_options(const SupervisedJob& job, const SignalWatch& signals,
                                             JobService& service) {
  launch::SupervisorOptions options;
  options.seats = job.most_workers;
  options.liveness = std::chrono::duration_cast<std::chrono::nanoseconds>(job.liveness);
  options.hang = std::chrono::duration_cast<std::chrono::nanoseconds>(job.hang);
  options.start = std::chrono::duration_cast<std::chrono::nanoseconds>(job.start);
  options.describe_lane = [&job, &service](std::uint64_t step, int lane) {
    return samples_of_lane(job, service, step, lane);
  };
  options.servers = job.servers;
  options.server_command = {own_program(), {"server"}, {}};
  options.workers_serve = job.workers_serve;
  options.tell = [&service](const std::string& message) {
    tell(message);
    service.note(message);
  };
  options.requested_signal = [&signals] {
    if (signals.insisted()) return SIGKILL;
    return signals.exit_code() == 0 ? 0 : signals.exit_code() - 128;
  };
  options.wishes = [&service] { return service.wishes(); };
  options.report = [&service](const launch::SupervisorReport& report) { service.report(report); };
  // Workers of ours end together; what a user's program does after training is its own affair.
  if (job.text.empty()) options.grace.reset();
  return options;
}

// What a signal that ends the job leads to, in words.
std::string consequence(const SupervisedJob& job, const JobService& service) {
  if (job.text.empty())
    return fmt::format("the workers are told to end (at most {:.0f} s; again to stop at once)", job.grace.count());
  if (!service.trains()) return "ending; nothing was trained yet";
  return fmt::format("finishing the step and writing a checkpoint (at most {:.0f} s; again to stop at once)",
                     job.grace.count());
}

// The workers have a grace period of their own: this process only makes sure that nothing outlives it by much.
SignalWatch watch_signals(const SupervisedJob& job, JobService& service) {
  const auto on_first = [&](const std::string& signal) {
    const std::string message = fmt::format("{}: {}", signal, consequence(job, service));
    tell(message);
    service.note(message);
  };
  return SignalWatch(job.grace + std::chrono::seconds(5), on_first, kLongestKill);
}

// Why the workers ended so, as far as they have said it.
std::string reason_of_end(const JobService& service, int code) {
  const std::string said = launch::read_reason(service.store());
  return said.empty() ? fmt::format("the workers ended with exit code {}", code) : said;
}

// `make` gives the supervisor.
template <typename Make>
int run_job(const SupervisedJob& job, JobService& service, const SignalWatch& signals, const Make& make) {
  try {
    launch::Supervisor supervisor = make();
    const int code = supervisor.run();
    const bool stopped = signals.exit_code() != 0 || service.wishes().stop;
    service.end(stopped     ? control::JobPhase::kStopped
                : code == 0 ? control::JobPhase::kFinished
                            : control::JobPhase::kFailed,
                code == 0 || stopped ? "" : reason_of_end(service, code));
    // Whatever a user's program returns then.
    return code != 0 && signals.exit_code() != 0 ? signals.exit_code() : code;
  } catch (const Error& error) {
    service.end(control::JobPhase::kFailed, error.message());
    if (error.kind() != ErrorKind::kPeerLost || !(job.text.empty() || error.remedy().empty())) throw;
    // What goes on from a checkpoint, and how, a program of a user's own decides.
    throw Error(error.kind(), error.message(), error.where(),
                job.text.empty() ? "What the workers said is above; what the program has kept is where it left it."
                                 : "Nothing that was committed to a checkpoint is lost: start again with --resume.");
  }
}

}  // namespace

int supervise_workers(const launch::Command& command, const SupervisedJob& job) {
  JobService service(service_options(command, job));
  const SignalWatch signals = watch_signals(job, service);
  const launch::SupervisorOptions options = supervisor_options(job, signals, service);
  return run_job(job, service, signals, [&] { return launch::Supervisor(command, options); });
}

SupervisedJob supervised_job(const trainer::ResolvedJob& resolved) {
  SupervisedJob job;
  job.name = resolved.job.name;
  job.text = resolved.text;
  job.least_workers = static_cast<int>(resolved.job.parallel.workers.least);
  job.most_workers = static_cast<int>(resolved.job.parallel.workers.most);
  job.grace = std::chrono::duration<double>(resolved.job.checkpoint.grace_seconds);
  job.liveness = std::chrono::duration<double>(resolved.job.parallel.liveness_seconds);
  job.hang = std::chrono::duration<double>(resolved.job.parallel.hang_seconds);
  job.start = std::chrono::duration<double>(resolved.job.parallel.start_seconds);
  if (resolved.job.parallel.strategy == "parameter_server") {
    job.servers = static_cast<int>(resolved.job.parallel.servers);
    job.workers_serve = job.servers == 0;
    job.copies = static_cast<int>(resolved.job.parallel.copies);
  }
  job.describe_lane = [resolved](std::uint64_t step, int lane) {
    return fmt::format("samples {}",
                       fmt::join(trainer::samples_of(resolved, step, static_cast<std::size_t>(lane)), ", "));
  };
  return job;
}

namespace {

// As the coordinator before has written it down.
SupervisedJob recorded_job(const std::filesystem::path& run, const control::JobRecord& record,
                           const control::Launch& launch) {
  SupervisedJob job;
  std::error_code ignored;
  const std::filesystem::path file = run / "job.toml";
  if (std::filesystem::exists(file, ignored)) job = supervised_job(trainer::load_job(file, {}));
  const control::WantedState wanted = record.wanted();
  if (const auto identity = record.identity()) job.name = identity->name;
  job.least_workers = wanted.min_workers;
  job.most_workers = wanted.max_workers;
  job.grace = std::chrono::duration<double>(launch.grace_seconds);
  job.liveness = std::chrono::duration<double>(launch.liveness_seconds);
  job.hang = std::chrono::duration<double>(launch.hang_seconds);
  job.start = std::chrono::duration<double>(launch.start_seconds);
  return job;
}

}  // namespace

int take_over_workers(const std::filesystem::path& run) {
  const control::JobRecord record(control::make_sqlite_store(control::store_file(run), {.create = false}));
  const std::optional<control::Launch> launch = record.launch();
  if (!launch)
    throw Error(ErrorKind::kNotFound, "this run has no workers that can be taken over", run.string(),
                "Resume it: muster train JOB.toml --resume --run FOLDER.");
  const SupervisedJob job = recorded_job(run, record, *launch);
  launch::Command command{launch->program, launch->arguments, {}};
  command.folder = launch->folder;
  JobService service(service_options(command, job), run);
  const SignalWatch signals = watch_signals(job, service);
  launch::SupervisorOptions options = supervisor_options(job, signals, service);
  // What the workers print goes where the coordinator before let it go.
  TakeOverView view(service);
  options.report = [&](const launch::SupervisorReport& report) {
    service.report(report);
    view.show();
  };
  return run_job(job, service, signals, [&] { return launch::Supervisor(command, options, launch->store); });
}

}  // namespace muster::cli
