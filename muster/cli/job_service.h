// What `muster train` shows and takes while its workers train: the job's record in the run's folder and the service for
// `muster status`, `scale`, `stop` and `set`.
//
// The run's folder is the workers' to find or make; the service begins when they have said which one it is. A folder
// that cannot hold the record costs the commands, and a warning, not the job. Durable writes happen on a thread of
// their own, so that a slow disk never delays the supervisor.
// Thread safety: the supervisor's thread calls report(), note() and wishes(); end() comes last, once. The others from
// any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "muster/control/job_record.h"
#include "muster/control/job_status.h"
#include "muster/launch/supervisor.h"

namespace muster::cli {

struct JobServiceOptions {
  std::string name;      // of the job
  std::string job_text;  // what a change is checked against
  int least_workers = 1;
  int most_workers = 1;
  int least_servers = 0;  // processes of parameter servers; all 0: the job has none
  int most_servers = 0;
  int servers = 0;         // at first
  control::Launch launch;  // the store is what the supervisor reports
  // Makes the run's folder once the workers have begun, where they have none of their own to name.
  std::function<std::string()> make_run{};
  std::function<void(const std::string&)> warn;
};

class JobService {
 public:
  explicit JobService(JobServiceOptions options);
  // Takes over from a coordinator that is gone: what was asked of it still holds. Answers from the first report on.
  // Throws as JobRecord::take_over.
  JobService(JobServiceOptions options, const std::filesystem::path& run);
  JobService(const JobService&) = delete;
  JobService& operator=(const JobService&) = delete;
  ~JobService();

  // Throws kMismatch, once the run is known, if another process coordinates it: two have resumed it at the same moment.
  void report(const launch::SupervisorReport& report);
  // A line for the supervisor's log in the run's folder, also before that folder is known.
  void note(const std::string& line);
  launch::Wishes wishes() const;
  control::JobStatus status() const;  // REQUIRES: there was a report, and the run is known
  // Whether somebody has begun to train.
  bool trains() const;
  // The folder in which the workers find each other, and what their leader has said last; empty: not known yet.
  std::string store() const;
  std::string leaders_note() const;
  void end(control::JobPhase phase, const std::string& reason);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::cli
