// Coordinator: runs a job to its end. It starts the workers, has them supervised (launch/supervisor.h), keeps the job's
// record and answers commands (job_service.h). A worker that is lost is replaced and the job goes on, unless its
// workers have made a group that nobody can join later.
//
// What people see is somebody else's: it is told by callbacks. Thread safety: run() once; the others from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/control/job_status.h"
#include "muster/coordinator/coordinated_job.h"
#include "muster/coordinator/job_service.h"

namespace muster::coordinator {

// What people want and see while it runs; called on the thread of run().
struct Audience {
  // Several times a second while the job runs, once its first report is in.
  std::function<void()> look = [] {};
  // What was asked of this process so far (SupervisorOptions::requested_signal).
  std::function<int()> requested_signal = [] { return 0; };
};

class LedHosts;

class Coordinator {
 public:
  // `tell` gets what happened, in words, from any thread. Nothing is started yet. The clock outlives the coordinator.
  Coordinator(CoordinatedJob job, const JobService::Tell& tell, const Clock& clock = system_clock());
  // Goes on in the place of a coordinator that is gone. Throws kMismatch when it is not.
  Coordinator(RecordedJob recorded, const JobService::Tell& tell, const Clock& clock = system_clock());

  // Until the job has ended; its exit code. Throws as Supervisor::run, and kPeerLost when there was something to take
  // over and no worker lives.
  int run(const Audience& audience);

  const CoordinatedJob& job() const { return job_; }
  bool trains() const { return service_.trains(); }
  control::JobStatus status() const { return service_.status(); }  // as JobService::status
  // Tells `line` to people, and writes it into the supervisor's log.
  void note(const std::string& line);

 private:
  launch::SupervisorOptions supervisor_options(const Audience& audience, LedHosts* led);
  // The other hosts of the job; null: it has none.
  std::unique_ptr<LedHosts> lead();
  void throw_if_broken(LedHosts& led) const;

  const CoordinatedJob job_;
  const std::optional<std::string> store_;  // of workers to take over
  const JobService::Tell tell_;
  const Clock& clock_;
  JobService service_;
};

}  // namespace muster::coordinator
