// LedHosts: what a coordinator has to do with the other hosts of its job. It keeps the cluster and its server, and is
// the agent of the first host, in the coordinator's own process and by the same interface as the others'.
//
// Thread safety: prepare(), see(), wish() and ending_signal() are for the supervisor's thread; the others from any
// thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/control/cluster_server.h"
#include "muster/control/job_status.h"
#include "muster/coordinator/agent.h"
#include "muster/coordinator/cluster.h"
#include "muster/coordinator/coordinated_job.h"
#include "muster/coordinator/heralds.h"
#include "muster/coordinator/host_data.h"
#include "muster/coordinator/host_reporter.h"
#include "muster/coordinator/host_servers.h"
#include "muster/coordinator/server_director.h"

namespace muster::coordinator {

class LedHosts {
 public:
  using Tell = std::function<void(const std::string&)>;

  // Listens, and joins as the first host. `tell` is for people, `note` for the log; from any thread. Throws as
  // ClusterServer. REQUIRES: job.hosts.
  // `commands` are those that agents pass on and people give from elsewhere; they outlive it. `may_decide`:
  // ClusterOptions.
  LedHosts(const CoordinatedJob& job, control::ControlCalls& commands, std::function<bool()> may_decide, Tell tell,
           Tell note, const Clock& clock = system_clock());

  // The gate, for the supervisor of this host.
  void prepare(launch::SupervisorOptions& options);
  void see(const launch::SupervisorReport& report);
  // What is wanted here is wanted on all hosts; `signal` as SupervisorOptions::requested_signal gives it.
  void wish(const launch::Wishes& wishes, int signal);

  // What a coordinator has to know that takes over.
  control::LedCluster standing() const;

  // As Cluster::superseded.
  std::uint64_t superseded() const { return cluster_.superseded(); }

  // Changes of the job, for the workers of the other hosts.
  void ask(const std::vector<control::Change>& changes) { cluster_.ask(changes); }

  void describe(control::JobStatus& status) const;
  // As Cluster has it.
  std::optional<Error> refusal() const;

  // The signal that the workers of this host get because those of another one are lost that cannot be replaced, or
  // with it parts of the model; 0: none.
  int ending_signal();
  // Why the job cannot go on, by the same. This host's workers may have ended before it is known: then it is waited
  // for, as long as it takes to find out. Empty: it is not by that.
  std::string why_broken(bool wait);

  // This host's workers have ended: so has the job. Waits a while for the others to end as well.
  void end(const std::string& failure, std::chrono::nanoseconds longest);

 private:
  const Tell tell_;
  const Clock& clock_;
  const std::string name_;  // of this host
  const JobHosts hosts_;
  AgentView view_;
  Cluster cluster_;
  std::optional<HostReporter> reporter_;
  std::optional<HostData> data_;  // of jobs that give data around
  // of jobs with parameter servers
  std::optional<ServerDirector> director_;
  std::optional<HostServers> servers_;
  std::optional<control::ClusterServer> server_;
  std::optional<Heralds> heralds_;  // of one that has taken over from elsewhere
};

}  // namespace muster::coordinator
