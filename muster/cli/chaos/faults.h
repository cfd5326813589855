// Makes faults in a job that runs, and keeps track of what becomes of their victims.
//
// A process is never taken for another: it is addressed by a descriptor of the kernel's, after number and start time
// were found to be those that the job's status named. A fault waits until the job has committed a step since the last
// death: a lane in which two workers die ends a job, by design. For the same reason a worker is spared that was killed
// three times in a row without having trained for a while: after five it would be left out. Thread safety: one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/memory_group.h"
#include "muster/cli/chaos/checks.h"
#include "muster/control/job_status.h"

namespace muster::cli {

// Sends a signal to exactly this process. False: it is gone, and nobody got anything.
bool send_signal(const ProcessId& process, int signal);

struct FaultMakerOptions {
  double liveness = 2;  // seconds: parallel.liveness_seconds
  // Starts another coordinator, whose predecessor was killed.
  std::function<void()> replace_coordinator = [] {};
  // What happened, for people.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

class FaultMaker {
 public:
  explicit FaultMaker(FaultMakerOptions options);
  // Wakes whom it has stopped.
  ~FaultMaker();

  // Why a worker's memory cannot be made to run out here; nothing when it can.
  static std::optional<std::string> oom_obstacle();

  // To be called with every look at the job; `now` as ChaosSample::at.
  void look(const control::JobStatus& status, double now);
  // Whether a fault may be made now. False for a while after each.
  bool ready() const;
  // False: there is no victim now. REQUIRES: ready().
  bool make(const PlannedFault& planned, double now);
  // Whether no fault is under way any more.
  bool settled() const;
  // No more faults: wakes whom it has stopped, and frees whom the kernel has not killed yet.
  void end(double now);

  const std::vector<MadeFault>& faults() const { return faults_; }
  // Faults that were tried and came to nothing, such as memory that never ran out.
  int failed() const { return failed_; }

 private:
  struct Trap {
    std::size_t fault = 0;
    std::unique_ptr<TemporaryMemoryGroup> group;
    double set = 0;
    std::optional<double> empty = {};
  };
  bool spared(int rank) const;
  const control::Worker* choose(std::uint64_t draw) const;
  void look_at_victims(double now);
  void look_at_trap(double now);
  void note_death(MadeFault& fault, double now);
  bool kill_coordinator(double now);
  bool under_way(const MadeFault& fault) const { return !fault.gone && !fault.continued && !fault.hit_again; }

  const FaultMakerOptions options_;
  control::JobStatus status_;
  double now_ = 0;
  std::vector<MadeFault> faults_;
  std::map<std::size_t, double> wake_;  // fault to time
  std::optional<Trap> trap_;
  std::optional<std::int32_t> lost_coordinator_;
  std::map<int, double> trains_since_;     // rank to time, of its present process
  std::map<int, std::int32_t> trains_as_;  // rank to process
  std::map<int, int> quick_deaths_;        // in a row
  std::optional<double> last_death_;
  std::optional<std::uint64_t> step_after_death_;
  int failed_ = 0;
};

}  // namespace muster::cli
