// What `muster train` shows and takes while its workers train: the job's record in the run's folder and the service for
// `muster status`, `scale`, `stop` and `set`.
//
// The run's folder is the workers' to find or make; the service begins when they have said which one it is. A folder
// that cannot hold the record costs the commands, and a warning, not the job. Durable writes happen on a thread of
// their own, so that a slow disk never delays the supervisor.
// Thread safety: the supervisor's thread calls report() and wishes(); end() comes last, once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/control/job_record.h"
#include "muster/launch/supervisor.h"

namespace muster::cli {

struct JobServiceOptions {
  std::string name;      // of the job
  std::string job_text;  // what a change is checked against
  int least_workers = 1;
  int most_workers = 1;
  std::function<void(const std::string&)> warn;
};

class JobService {
 public:
  explicit JobService(JobServiceOptions options);
  JobService(const JobService&) = delete;
  JobService& operator=(const JobService&) = delete;
  ~JobService();

  void report(const launch::SupervisorReport& report);
  launch::Wishes wishes() const;
  void end(control::JobPhase phase, const std::string& reason);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::cli
