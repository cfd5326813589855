// What a job was started with is written down in its record, so that whoever takes over coordinates it in the same way;
// the rest is said by the job itself.
#include "muster/coordinator/coordinated_job.h"

#include <algorithm>
#include <optional>

#include "muster/base/error.h"
#include "muster/control/commands_folder.h"
#include "muster/control/job_store.h"
#include "muster/control/server_map.h"
#include "muster/control/store.h"

namespace muster::coordinator {
namespace {

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::chrono::nanoseconds nanoseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

}  // namespace

control::Launch launch_of(const CoordinatedJob& job) {
  control::Launch launch;
  launch.program = job.command.program;
  launch.arguments = job.command.arguments;
  launch.folder = job.command.folder.empty() ? std::filesystem::current_path().string() : job.command.folder;
  launch.liveness_seconds = seconds(job.watch.liveness);
  launch.hang_seconds = seconds(job.watch.hang);
  launch.start_seconds = seconds(job.watch.start);
  launch.grace_seconds = job.grace.count();
  return launch;
}

control::WantedState wanted_at_first(const CoordinatedJob& job) {
  control::WantedState wanted;
  wanted.min_workers = job.least_workers;
  wanted.max_workers = wanted.target_workers = job.most_workers;
  if (job.servers == 0) return wanted;
  wanted.target_servers = job.servers;
  // On several hosts they stay as many as they are.
  wanted.min_servers = job.hosts ? job.servers : job.copies;
  wanted.max_servers = job.hosts ? job.servers : control::most_servers(job.servers);
  return wanted;
}

namespace {

// By the record that knows the workers of this host.
RecordedJob recorded_by(const control::JobRecord& record, const std::filesystem::path& run,
                        const std::function<CoordinatedJob()>& known) {
  const std::optional<control::Launch> launch = record.launch();
  if (!launch)
    throw Error(ErrorKind::kNotFound, "this run has no workers that can be taken over", run.string(),
                "Resume it: muster train JOB.toml --resume --run FOLDER.");
  RecordedJob recorded{run, known(), launch->store, record.cluster()};
  CoordinatedJob& job = recorded.job;
  if (const auto identity = record.identity()) job.name = identity->name;
  job.grace = std::chrono::duration<double>(launch->grace_seconds);
  job.watch.liveness = nanoseconds(launch->liveness_seconds);
  job.watch.hang = nanoseconds(launch->hang_seconds);
  job.watch.start = nanoseconds(launch->start_seconds);
  job.command = {launch->program, launch->arguments, {}};
  job.command.folder = launch->folder;
  return recorded;
}

void set_limits(CoordinatedJob& job, const control::WantedState& wanted) {
  job.least_workers = wanted.min_workers;
  job.most_workers = wanted.max_workers;
}

}  // namespace

RecordedJob read_recorded_job(const std::filesystem::path& run, const std::function<CoordinatedJob()>& known) {
  const std::filesystem::path folder = control::commands_folder(run);
  const control::JobRecord record(control::open_record_store(folder));
  RecordedJob recorded = recorded_by(record, run, known);
  set_limits(recorded.job, record.wanted());
  recorded.moves = folder != run;
  return recorded;
}

RecordedJob read_shared_job(const std::filesystem::path& run, const control::JobRecord& shared,
                            const std::string& space, const std::function<CoordinatedJob()>& known) {
  if (space == process_space()) {
    RecordedJob recorded = recorded_by(shared, run, known);
    set_limits(recorded.job, shared.wanted());
    return recorded;
  }
  const control::JobRecord own(control::open_record_store(control::host_folder(run)));
  RecordedJob recorded = recorded_by(own, run, known);
  set_limits(recorded.job, shared.wanted());
  recorded.moves = true;
  const std::optional<control::LedCluster> led = shared.cluster();
  if (!led || !recorded.cluster || led->identity != recorded.cluster->identity)
    throw Error(ErrorKind::kMismatch, "the agent of this host has taken part in another job than its record tells of",
                run.string(), "Start the agent again: it joins the one that runs.");
  recorded.cluster->term = std::max(led->term, recorded.cluster->term);
  recorded.cluster->agreed.insert(led->agreed.begin(), led->agreed.end());
  recorded.cluster->listen += "," + led->listen;
  return recorded;
}

}  // namespace muster::coordinator
