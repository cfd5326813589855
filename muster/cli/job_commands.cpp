// muster scale, stop and set: commands to a job that runs. Each is stored by the coordinator before it is acknowledged,
// so that what was said here survives the coordinator.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/cli/command.h"
#include "muster/cli/far_job.h"
#include "muster/cli/runs.h"
#include "muster/control/access_token.h"
#include "muster/control/commands_folder.h"
#include "muster/control/control_client.h"
#include "muster/control/job_store.h"
#include "muster/trainer/job_changes.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kCommandTime{10};
constexpr std::chrono::milliseconds kAnswerInterval{200};
constexpr std::chrono::seconds kAnswerTime{2};
constexpr std::chrono::seconds kSilence{3};  // of a coordinator that has ended, for those who are elsewhere

std::string new_request() {
  return control::ControlClient::new_request();
}

struct CommandFlags {
  std::string job;
  std::string runs = "runs";
  control::Scaling scaling;
  std::string assignment;
  bool no_wait = false;
  double timeout_seconds = 300;
  FarFlags far;
};

void add_job(CLI::App* command, CommandFlags& flags) {
  command->add_option("job", flags.job, "A run's folder, its name, or the beginning of it")->required();
  command->add_option("--runs", flags.runs, "Folder that holds the runs")->capture_default_str();
  add_far_flags(*command, flags.far);
}

void tell_wanted(const control::Scaling& scaling, const control::WantedState& wanted) {
  const auto tell = [](int count, std::string_view what) {
    fmt::print("The job wants {} {}{} from now on.\n", count, what, count == 1 ? "" : "s");
  };
  if (scaling.workers) tell(wanted.target_workers, "worker");
  if (scaling.servers) tell(wanted.target_servers, "parameter server");
}

void run_scale(const CommandFlags& flags) {
  if (!flags.scaling.workers && !flags.scaling.servers)
    throw Error(ErrorKind::kInvalidInput, "how many workers, or how many servers?", {},
                "muster scale JOB WORKERS, or muster scale JOB --servers N.");
  if (flags.far.given())
    return tell_wanted(flags.scaling, far_job(flags.far, flags.job, kCommandTime)->scale(new_request(), flags.scaling));
  const std::filesystem::path run = find_commanded(flags.job, flags.runs);
  require_running(run, flags.runs);
  const control::ControlClient client(run);
  tell_wanted(flags.scaling, client.scale(flags.scaling, Deadline::after(kCommandTime)));
}

void tell_change(const control::Change& change) {
  fmt::print("Change {} is stored: {}. It takes effect at the next step, and again when the run is resumed.\n",
             change.number, change.assignment);
}

void run_set(const CommandFlags& flags) {
  if (flags.far.given())
    return tell_change(far_job(flags.far, flags.job, kCommandTime)->set(new_request(), flags.assignment));
  const std::filesystem::path found = find_commanded(flags.job, flags.runs);
  require_running(found, flags.runs);
  std::error_code code;
  if (!std::filesystem::exists(found / "job.toml", code))
    throw Error(ErrorKind::kUnsupported, "its workers are a program of their own, which has no keys of a job file",
                found.string(), "muster scale and muster stop work for it.");
  const trainer::RunFolder run = trainer::RunFolder::open(found);
  const control::ControlClient client(run.path());
  std::vector<std::string> earlier;
  for (const control::Change& change : client.record().changes())
    earlier.push_back(change.assignment);
  trainer::check_change(run.job(), earlier, flags.assignment);
  tell_change(client.set(flags.assignment, Deadline::after(kCommandTime)));
}

std::string line_of(const control::JobStatus& status) {
  const auto running = std::count_if(status.members.begin(), status.members.end(),
                                     [](const control::Worker& member) { return member.member(); });
  return fmt::format("{}: step {}, {} worker{} left", status.state, status.step, running, running == 1 ? "" : "s");
}

// What `status` gives whenever it is another line than before, until it gives none.
void follow(const std::function<std::optional<control::JobStatus>()>& status, const Deadline& deadline) {
  std::string told;
  while (const std::optional<control::JobStatus> now = status()) {
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout, "the job was told to stop and has not ended yet", {},
                  "Look at it with muster status; it goes on stopping.");
    std::string line = line_of(*now);
    if (line != told) fmt::print(stderr, "{}\n", line);
    told = std::move(line);
    system_clock().sleep_for(kAnswerInterval);
  }
}

// Until nothing of the job runs any more. Gives how it ended.
control::Standing wait_for_end(const control::ControlClient& client, const Deadline& deadline) {
  follow(
      [&]() -> std::optional<control::JobStatus> {
        if (!is_alive(client.record())) return std::nullopt;
        return client.status(Deadline::after(std::min<std::chrono::nanoseconds>(kAnswerTime, deadline.remaining())));
      },
      deadline);
  return client.record().standing();
}

constexpr std::string_view kTold = "The job has been told to stop; it writes a checkpoint first.\n";

// Its coordinator is the last of it to end, and how it ended stands where it ran. One that is not there for a moment
// may be cut off, or be replaced by another.
void run_stop_far(const CommandFlags& flags, const Deadline& deadline) {
  const auto job = far_job(flags.far, flags.job, kCommandTime);
  job->stop(new_request());
  if (flags.no_wait) return fmt::print(kTold);
  std::optional<control::JobStatus> last;
  std::optional<Deadline> silent;
  follow(
      [&]() -> std::optional<control::JobStatus> {
        for (;; system_clock().sleep_for(kAnswerInterval)) {
          try {
            last = job->status();
            silent.reset();
            return last;
          } catch (const Error& error) {
            if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) throw;
            if (!silent) silent = Deadline::after(kSilence);
            if (silent->passed()) return std::nullopt;
          }
        }
      },
      deadline);
  if (!last || last->state == to_string(control::JobPhase::kFailed))
    throw Error(ErrorKind::kPeerLost, last ? "the job has failed: " + last->reason : "nobody answers any more",
                flags.far.at, "The stop is stored; muster status on the job's hosts says how it ended.");
  fmt::print(
      "Nobody listens at {} any more; the job was {} at step {}. muster status on that host says how it ended.\n",
      flags.far.at, last->state, last->step);
}

void run_stop(const CommandFlags& flags) {
  const Deadline deadline = Deadline::after(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(flags.timeout_seconds)));
  if (flags.far.given()) return run_stop_far(flags, deadline);
  const std::filesystem::path run = find_commanded(flags.job, flags.runs);
  if (!control::has_record(control::commands_folder(run))) require_running(run, flags.runs);
  const control::ControlClient client(run);
  const control::Standing before = client.record().standing();
  if (is_over(before.phase) && !is_alive(client.record())) {
    fmt::print("The job is over already: {}.\n", to_string(before.phase));
    return;
  }
  require_running(run, flags.runs);
  client.stop(Deadline::after(kCommandTime));
  if (flags.no_wait) return fmt::print(kTold);
  const control::Standing end = wait_for_end(client, deadline);
  if (end.phase != control::JobPhase::kStopped && end.phase != control::JobPhase::kFinished)
    throw Error(ErrorKind::kPeerLost,
                fmt::format("the job ended, but not as it should: {}{}", to_string(end.phase),
                            end.reason.empty() ? "" : " (" + end.reason + ")"),
                run.string(), fmt::format("Its log says more: muster logs {}.", run.string()));
  fmt::print("The job has {} at step {}.\n", to_string(end.phase), end.step);
}

}  // namespace

void add_scale(CLI::App& app) {
  CLI::App* command = app.add_subcommand("scale", "Change how many workers, or parameter servers, a running job has.");
  auto flags = std::make_shared<CommandFlags>();
  add_job(command, *flags);
  command->add_option("workers", flags->scaling.workers, "Workers, within the job's limits");
  command->add_option("--servers", flags->scaling.servers,
                      "Processes of parameter servers: at least as many as copies; what one holds moves first");
  command->footer(
      "Workers change the speed; the result stays. Servers come and go while training goes on.\n"
      "\nExamples:\n"
      "  muster scale fashion 3\n"
      "  muster scale fashion --servers 4\n"
      "  muster scale fashion 3 --at 10.0.0.1:7400 --certs user-alice");
  command->callback([flags] { run_scale(*flags); });
}

void add_stop(CLI::App& app) {
  CLI::App* command = app.add_subcommand("stop", "Stop a running job after a checkpoint.");
  auto flags = std::make_shared<CommandFlags>();
  add_job(command, *flags);
  command->add_flag("--no-wait", flags->no_wait, "Return as soon as the job was told");
  command->add_option("--timeout", flags->timeout_seconds, "Longest wait in seconds; the job goes on stopping")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  command->footer(
      "Examples:\n  muster stop fashion\n  muster stop fashion --no-wait\n"
      "  muster stop fashion --at 10.0.0.1:7400 --certs user-alice");
  command->callback([flags] { run_stop(*flags); });
}

void add_set(CLI::App& app) {
  CLI::App* command = app.add_subcommand("set", "Change a key of a running job, such as its learning rate.");
  auto flags = std::make_shared<CommandFlags>();
  add_job(command, *flags);
  command->add_option("assignment", flags->assignment, "section.key=value")->required();
  command->footer(
      fmt::format("Keys that can change: {}.\n"
                  "\nExamples:\n"
                  "  muster set fashion optimizer.lr=0.01",
                  join_words(trainer::changeable_keys())));
  command->callback([flags] { run_set(*flags); });
}

}  // namespace muster::cli
