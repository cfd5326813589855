// Agent: one host's part in a job that another host coordinates. It joins, starts the host's workers as it is told,
// has them supervised (launch/supervisor.h) and does what the coordinator orders, until the job is over or this host
// leaves it. Workers go on while the coordinator is away, for as long as the job says; then they write a checkpoint and
// end. Thread safety: run() once.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/control/cluster_calls.h"
#include "muster/control/trust_options.h"
#include "muster/coordinator/coordinated_job.h"
#include "muster/coordinator/coordinator.h"
#include "muster/coordinator/host_reporter.h"
#include "muster/coordinator/host_service.h"

namespace muster::coordinator {

class HostServers;

struct AgentOptions {
  control::HostCard card{};
  std::string coordinator{};  // its address, for people
  std::string interface {};
  control::TrustOptions trust{};  // by which the coordinator, and hosts that give data, are called
  std::chrono::nanoseconds patience = std::chrono::seconds(60);  // for a coordinator that is not there yet
  // A signal to this process is one to all hosts: it stops the job, after a checkpoint, instead of leaving it.
  bool together = false;
  // The job as this host runs it, from what the coordinator has said; fills in the interface if it has none.
  std::function<CoordinatedJob(const control::Welcome&, std::string& interface)> job;
  // HostService::Line::recorded.
  std::function<void(const std::filesystem::path& run)> recorded = [](const std::filesystem::path&) {};
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

// What ends the workers of a host, and when. Pure.
struct AgentView {
  Clock::Instant now{};
  int requested = 0;                          // signal that was asked for on this host
  std::optional<Clock::Instant> asked{};      // since when
  bool together = false;                      // such a signal is for all hosts
  bool gone = false;                          // the others know that this host ends
  bool at_once = false;                       // ordered
  std::optional<Clock::Instant> over{};       // the job, since
  bool failed = false;                        // it is over because it has
  std::optional<Clock::Instant> abandoned{};  // by the coordinator, since
  std::chrono::nanoseconds grace{};           // in which workers end once they were told to
};
struct AgentDecision {
  bool announce = false;  // that this host ends
  int signal = 0;         // for the workers; 0: none
  std::string reason;     // in words; empty: nothing is done
  bool stop = false;      // ask the coordinator to stop the job
};
AgentDecision decide_agent(const AgentView& view);

// The grace of workers that are fixed and have lost others: no step of theirs can be finished.
constexpr std::chrono::nanoseconds kBrokenGrace = std::chrono::seconds(2);
// Within which the coordinator has found a host to be lost, where a host that is silent for `patience` is. Pure.
std::chrono::nanoseconds time_for_verdict(std::chrono::nanoseconds patience);

// How an agent ends once its workers have. Pure.
struct AgentEndView {
  int code = 0;                      // of its workers
  int left = 0;                      // signal by which this host was told to leave
  std::optional<Error> abandoned{};  // HostReporter::abandoned
  control::Orders orders{};          // the last ones
};
struct AgentEnd {
  int code = 0;
  std::optional<Error> failure{};  // instead of a code
  // What this host's record says of it.
  control::JobPhase phase = control::JobPhase::kFinished;
  std::string reason{};
};
AgentEnd decide_agent_end(const AgentEndView& view);

class Agent {
 public:
  // `calls` and the clock outlive it.
  Agent(control::ClusterCalls& calls, AgentOptions options, const Clock& clock = system_clock());

  // The exit code: 0 when the job has finished, 128 + SIGTERM when it was stopped, 128 + N after signal N here. Throws
  // as ClusterCalls::join once patience is over, as Supervisor::run, and kPeerLost when the coordinator was away for
  // too long or the job has failed.
  int run(const Audience& audience);

 private:
  // Nothing: a signal came first.
  std::optional<control::Welcome> join(HostReporter& reporter, const Audience& audience);
  // `servers` is null where the job has none.
  launch::SupervisorOptions supervisor_options(const CoordinatedJob& job, HostReporter& reporter, HostService& service,
                                               HostServers* servers, const Audience& audience);
  void wait_for_verdict(const HostReporter& reporter, std::chrono::nanoseconds patience,
                        const Audience& audience) const;
  // Until the job is over.
  void wait_for_the_others(const HostReporter& reporter, const Audience& audience) const;
  int signal_for(const CoordinatedJob& job, HostReporter& reporter, int requested);
  void stop_job(const HostReporter& reporter);

  control::ClusterCalls& calls_;
  const AgentOptions options_;
  const Clock& clock_;
  AgentView view_;
  std::string told_;      // why the workers end
  bool stopped_ = false;  // the coordinator was asked to stop the job
};

}  // namespace muster::coordinator
