// HostService: what an agent shows and takes on its host while the workers train. `muster status`, `scale`, `stop` and
// `set` that are typed there it passes on to the coordinator; changes that were asked for it leaves for its workers;
// and the host's own record says who they are, for those who look when the agent is gone.
//
// The record is in a folder of its own below the run's (control/commands_folder.h). It begins when the workers have
// said which run it is; one that cannot be kept costs the commands on this host, and a warning, not the job. Everything
// that may wait for a disk happens on a thread of its own.
// Thread safety: end() comes last, once; the others from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/control/cluster_calls.h"
#include "muster/control/job_record.h"
#include "muster/coordinator/coordinated_job.h"
#include "muster/launch/supervisor.h"

namespace muster::coordinator {

class HostService {
 public:
  using Tell = std::function<void(const std::string&)>;
  // The way to the coordinator; `calls` outlives the service.
  struct Line {
    control::ClusterCalls& calls;
    std::function<std::uint64_t()> host;  // the number of this one, as it is now
    std::string coordinator{};            // its address, for people
    // What is needed to take over here when the coordinator is lost, as it is now.
    std::function<control::LedCluster()> cluster = [] { return control::LedCluster(); };
    // Told once, on a thread of the service's: the record in that run's folder is whole, so one could take over here.
    std::function<void(const std::filesystem::path& run)> recorded = [](const std::filesystem::path&) {};
  };

  HostService(CoordinatedJob job, Line line, Tell tell, const Clock& clock = system_clock());
  HostService(const HostService&) = delete;
  HostService& operator=(const HostService&) = delete;
  ~HostService();

  void report(const launch::SupervisorReport& report);
  // The newest that were asked for (Orders::changes).
  void ask(const std::vector<control::Change>& changes);
  // A line for the supervisor's log.
  void note(const std::string& line);
  void end(control::JobPhase phase, const std::string& reason);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::coordinator
