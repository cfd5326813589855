// muster status: the jobs that run here, or one job in full. Asks the coordinator where one lives, and the job's record
// where none does; a run that cannot be read does not hide the others. With --at a job that has no host here.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/far_job.h"
#include "muster/cli/run_standing.h"
#include "muster/cli/runs.h"
#include "muster/cli/status_view.h"
#include "muster/control/control_client.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kAnswerTime{3};

struct StatusFlags {
  std::string job;
  std::string runs = "runs";
  bool all = false;
  bool json = false;
  FarFlags far;
};

control::JobStatus status_of(const std::filesystem::path& run) {
  const control::ControlClient client(run);
  control::JobStatus status = client.status(Deadline::after(kAnswerTime));
  if (status.changes.empty()) {
    try {
      status.changes = client.record().changes();
    } catch (const Error& error) {
      // A record in an etcd that does not answer; the coordinator has said so.
      if (!status.live || error.kind() != ErrorKind::kTimeout) throw;
    }
  }
  status.run = run.string();  // as seen from here, not from where the coordinator was started
  if (!status.live) correct_by_files(status, read_standing(run));
  return status;
}

void run_status_of_all(const StatusFlags& flags) {
  std::vector<control::JobStatus> jobs;
  for (const std::filesystem::path& run : list_runs(flags.runs)) {
    try {
      if (flags.all || is_alive(run)) jobs.push_back(status_of(run));
    } catch (const Error& error) {
      // One run that cannot be read must not hide the others. Runs without a record are of no interest here.
      if (error.kind() != ErrorKind::kNotFound) fmt::print(stderr, "muster: warning: {}\n", error.what());
    }
  }
  if (flags.json) {
    for (const control::JobStatus& status : jobs)
      fmt::print("{}\n", to_json(status).dump());
  } else if (jobs.empty()) {
    fmt::print("No job runs under {}.{}\n", flags.runs, flags.all ? "" : " --all shows those that are over.");
  } else {
    fmt::print("{}", jobs_table(jobs));
  }
}

void run_status_far(const StatusFlags& flags) {
  const control::JobStatus status = far_job(flags.far, flags.job, kAnswerTime)->status();
  fmt::print("{}", flags.json ? to_json(status).dump() + "\n" : job_page(status));
}

void run_status(const StatusFlags& flags) {
  if (flags.far.given()) return run_status_far(flags);
  if (flags.job.empty()) return run_status_of_all(flags);
  const std::filesystem::path run = find_newest_run(flags.job, flags.runs);
  const control::JobStatus status = status_of(run);
  const Json figures = read_standing(run).figures;
  if (!flags.json) {
    fmt::print("{}", job_page(status, figures));
    return;
  }
  Json json = to_json(status);
  if (!figures.is_null()) json["figures"] = figures;
  fmt::print("{}\n", json.dump());
}

}  // namespace

void add_status(CLI::App& app) {
  CLI::App* command = app.add_subcommand("status", "Jobs that run here: step, rate, members, what they wait for.");
  auto flags = std::make_shared<StatusFlags>();
  command->add_option("job", flags->job, "A run's folder, its name, or the beginning of it. None: all jobs that run");
  command->add_option("--runs", flags->runs, "Folder that holds the runs")->capture_default_str();
  command->add_flag("--all", flags->all, "Also jobs that are over");
  command->add_flag("--json", flags->json, "One JSON object a line for each job");
  add_far_flags(*command, flags->far);
  command->footer(
      "Without a coordinator the run's record and files answer, and say so.\n"
      "\nExamples:\n"
      "  muster status\n"
      "  muster status fashion\n"
      "  muster status fashion --json | jq '.members[].waits_for'\n"
      "  muster status --at 10.0.0.1:7400 --certs reader");
  command->callback([flags] { run_status(*flags); });
}

}  // namespace muster::cli
