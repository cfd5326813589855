// What a coordinator shows and takes while its workers train: the job's record in the run's folder and the service for
// `muster status`, `scale`, `stop` and `set`.
//
// It begins with the first report, before anybody has loaded anything; of a job whose folder its workers are to find,
// when they have said which one it is. What was made for a job that has trained nothing is removed with the service,
// unless it was stopped by a command. A folder that cannot hold the record costs the commands, and a warning, not the
// job. Durable writes happen on a thread of their own, so that a slow disk never delays the supervisor.
// Thread safety: the supervisor's thread calls report(), note() and wishes(); end() comes last, once. The others from
// any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/control/control_calls.h"
#include "muster/control/job_record.h"
#include "muster/control/job_status.h"
#include "muster/coordinator/coordinated_job.h"
#include "muster/launch/supervisor.h"

namespace muster::coordinator {

class JobService {
 public:
  // What people should know is told by `tell`, from any thread.
  using Tell = std::function<void(const std::string&)>;

  JobService(CoordinatedJob job, Tell tell, const Clock& clock = system_clock());
  // Takes over from a coordinator that is gone: what was asked of it still holds. Answers from the first report on.
  // Throws as JobRecord::take_over.
  JobService(const RecordedJob& recorded, Tell tell, const Clock& clock = system_clock());
  JobService(const JobService&) = delete;
  JobService& operator=(const JobService&) = delete;
  ~JobService();

  // Throws kMismatch, once the run is known, if another process coordinates it: two have resumed it at the same moment.
  void report(const launch::SupervisorReport& report);
  // A line for the supervisor's log in the run's folder, also before that folder is known.
  void note(const std::string& line);
  launch::Wishes wishes() const;
  // Whether this coordinator is certain to lead: of a record in an etcd, as long as its session lasts. Quick.
  bool leads_for_certain() const;
  // Why it does not lead any more, once a process of another machine has taken over; empty: it may. (Who takes over on
  // this machine ends this process first.)
  std::string overtaken() const;
  control::JobStatus status() const;  // REQUIRES: there was a report, and the run is known
  // Whether somebody has begun to train.
  bool trains() const;
  // The folder in which the workers find each other; empty: not known yet.
  std::string store() const;
  // What is added to every status from now on; from any thread. It is called until end() has returned.
  void describe_with(std::function<void(control::JobStatus&)> describe);
  // Gets the newest changes that were asked for, for the workers of other hosts; as above.
  void ask_others_with(std::function<void(const std::vector<control::Change>&)> ask);
  // Of a job of several hosts, for whoever takes over: written down as soon as there is a record.
  void lead(const control::LedCluster& cluster);
  // The same, and again at every change of members; called by the thread of report().
  void lead_with(std::function<control::LedCluster()> standing);
  // The job's commands for callers of this process. They throw kPeerLost before the run is known, and after end().
  control::ControlCalls& commands();
  // What the leader has told last.
  control::LeaderNote leader() const;
  void end(control::JobPhase phase, const std::string& reason);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::coordinator
