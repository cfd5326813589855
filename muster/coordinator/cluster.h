// Cluster: the hosts of a job, as its coordinator keeps them. It answers their agents (control/cluster_calls.h), gives
// numbers, decides who trains (control/hosts.h) many times a second, and keeps the store that all workers share.
//
// Nothing here is durable: a coordinator that comes after this one, with the same identity and a higher term, makes the
// agents join again, and goes on above every generation that one of them has begun. What workers have agreed on it
// has from its record, and from the agents.
// Thread safety: every method from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/control/cluster_calls.h"
#include "muster/control/cluster_values.h"
#include "muster/control/control_calls.h"
#include "muster/control/hosts.h"
#include "muster/control/job_status.h"

namespace muster::coordinator {

struct ClusterOptions {
  std::size_t least = 1;  // hosts without which the job does not begin
  std::size_t most = 1;
  std::size_t lanes = 1;                                        // of the job
  std::chrono::nanoseconds patience = std::chrono::seconds(5);  // for a host that is silent
  std::optional<std::chrono::nanoseconds> arrival{};            // of the least of hosts; empty: whenever they come
  int workers = 1;                                              // wanted on each host at first
  control::Welcome welcome{};  // but for the number, the patience, and, where it has none, the identity of the job
  // Of one that takes over: what the workers have agreed on before. Who comes later has to have the same.
  control::AgreedValues agreed{};
  // Whether this coordinator may decide now: one that is not certain to lead leaves hosts and generations as they are,
  // and answers. Quick; called with a lock held.
  std::function<bool()> may_decide = [] { return true; };
  control::ControlCalls* commands = nullptr;  // who takes those of hosts; null: nobody. Outlives it
  // What happened, for people; and what only the log has to have. From any thread.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

class Cluster final : public control::ClusterCalls {
 public:
  // The clock outlives it.
  explicit Cluster(ClusterOptions options, const Clock& clock = system_clock());
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster() override;

  std::string identity() const override { return life_; }
  // Of the job, for whoever takes over.
  const std::string& job_identity() const { return identity_; }
  void met(const std::string& life) override;
  control::Welcome join(const control::HostCard& card) override;
  control::Orders report(const control::HostReport& report, std::uint64_t known,
                         std::chrono::milliseconds wait) override;
  void store_set(std::uint64_t host, std::string_view key, std::string_view value) override;
  std::optional<std::string> store_get(std::uint64_t host, std::string_view key,
                                       std::chrono::milliseconds wait) override;
  void leave(std::uint64_t host, int code, const std::string& reason) override;

  control::JobStatus host_status(std::uint64_t host) override;
  control::WantedState host_scale(std::uint64_t host, const std::string& request,
                                  const control::Scaling& scaling) override;
  control::WantedState host_stop(std::uint64_t host, const std::string& request) override;
  control::Change host_set(std::uint64_t host, const std::string& request, const std::string& assignment) override;

  // What the job's owner wants of all hosts.
  void wish(int workers, bool stop, bool at_once);
  // Workers of the first host were taken over, in this generation: its hosts are waited for as long as for one that is
  // silent, and the next one has a higher number. REQUIRES: no host is ready yet.
  void expect(const control::JobGeneration& adopted);
  // The newest changes of the job, of which agents tell their workers.
  void ask(const std::vector<control::Change>& changes);
  // The job is over; `failure` says why, empty: as it should. Nobody joins any more.
  void end(const std::string& failure);
  // Why the job cannot go on, once it is known: of workers that are fixed, because one of their hosts is lost. Empty:
  // it is not known when the deadline passes.
  std::string failure(const Deadline& deadline);
  // Until no host but `own` is left, or another coordinator has them. False: the deadline passed before.
  bool wait_until_alone(std::uint64_t own, const Deadline& deadline);

  // The term of a coordinator that has taken over this job; 0: none has. From then on there are no generations, and
  // nobody is answered.
  std::uint64_t superseded() const;
  // Why the job cannot begin: its hosts have different data, or have not come in time. Nothing: it can, or has.
  std::optional<Error> refusal() const;

  // What the workers have agreed on, for whoever takes over.
  control::AgreedValues agreed() const { return values_.agreed(); }
  std::vector<control::HostStatus> hosts() const;
  // The newest; number 0: none was made.
  control::JobGeneration generation() const;
  // How often it has looked at its hosts and decided: what it was told before counts once there is one more.
  std::uint64_t looks() const;

 private:
  struct Host {
    control::HostView view;
    std::uint64_t sequence = 0;  // of the newest report
    std::uint64_t step = 0;
    std::string data{};  // where it gives data to others, whether it has all, and what it keeps
    bool data_whole = false;
    std::string data_held{};
    std::string calls{};  // where it answers other hosts
    // What its folder is to the run, the newest checkpoint there, what is wrong (control::HostReport).
    std::string place{};
    std::optional<std::uint64_t> saved{};
    std::string alarm{};
  };

  // Why a host is not let in, since when, and whether people know.
  struct HeldUp {
    std::string why{};
    Clock::Instant since{};
    bool told = false;
  };

  void run();
  // What is to be told of it, if there is something.
  struct Words {
    std::vector<std::string> told;
    std::vector<std::string> noted;
  };
  Words look() MUSTER_REQUIRES(mutex_);
  void say(const Words& words) const;
  void require_not_superseded() const MUSTER_REQUIRES(mutex_);
  Host& find(std::uint64_t number) MUSTER_REQUIRES(mutex_);
  void change_orders() MUSTER_REQUIRES(mutex_);
  // Who answers the commands of that host. `what` is noted, unless it is empty.
  control::ControlCalls& commands_of(std::uint64_t host, const std::string& what);
  // What a host says of the run's files there. Whether some of it is to be told.
  bool take_folder(Host& host, const control::HostReport& report) MUSTER_REQUIRES(mutex_);
  // Who gives data, as the hosts have it now; other orders if that is news.
  void tell_data_hosts() MUSTER_REQUIRES(mutex_);
  void tell_peers() MUSTER_REQUIRES(mutex_);  // the same of where hosts answer each other

  // constant after construction
  const ClusterOptions options_;
  const Clock& clock_;
  const std::string identity_;
  const std::string life_;
  // own synchronisation
  control::ClusterValues values_;
  // guarded by mutex_
  mutable Mutex mutex_;
  Condition changed_;  // of hosts, or of orders
  std::vector<Host> hosts_ MUSTER_GUARDED_BY(mutex_);
  control::JobGeneration present_ MUSTER_GUARDED_BY(mutex_);  // number 0: none was made here
  std::uint64_t earlier_ MUSTER_GUARDED_BY(mutex_) = 0;       // the newest one of coordinators before
  control::Orders orders_ MUSTER_GUARDED_BY(mutex_);
  std::uint64_t next_number_ MUSTER_GUARDED_BY(mutex_) = control::kFirstHost;
  std::size_t expected_ MUSTER_GUARDED_BY(mutex_) = 0;  // hosts that may come back; 0: nobody is waited for any more
  std::uint64_t superseded_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool finishing_ MUSTER_GUARDED_BY(mutex_) = false;
  std::optional<Clock::Instant> broken_ MUSTER_GUARDED_BY(mutex_);
  std::optional<Error> refusal_ MUSTER_GUARDED_BY(mutex_);
  Clock::Instant decided_ MUSTER_GUARDED_BY(mutex_);
  Clock::Instant watched_since_ MUSTER_GUARDED_BY(mutex_);
  Clock::Instant looked_ MUSTER_GUARDED_BY(mutex_);
  Clock::Instant began_ MUSTER_GUARDED_BY(mutex_);
  bool held_ MUSTER_GUARDED_BY(mutex_) = false;    // it may not decide
  std::string waiting_ MUSTER_GUARDED_BY(mutex_);  // what was told last
  HeldUp held_up_ MUSTER_GUARDED_BY(mutex_);
  Words unsaid_ MUSTER_GUARDED_BY(mutex_);  // what is to be told with the next look
  bool look_now_ MUSTER_GUARDED_BY(mutex_) = false;
  std::uint64_t looks_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool ends_ MUSTER_GUARDED_BY(mutex_) = false;
  // after what it uses
  std::thread thread_;
};

}  // namespace muster::coordinator
