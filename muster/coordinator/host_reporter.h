// HostReporter: a host's line to the coordinator of its job. It joins, reports what the host's supervisor wants, and is
// the gate through which the supervisor begins generations: only with a job generation that names this host, and for
// every one that does (launch/generation_gate.h). For the workers it keeps the relay to the store of all hosts.
//
// Two threads report: one several times a second and at once when something has changed, one with calls that wait, so
// that orders arrive at once. A coordinator that does not answer costs nothing for a while: the workers go on. A host
// that was given up joins again, under another number, and keeps its workers; so does one whose coordinator was
// replaced by another of the same job and of a higher term. Not with one that was started anew, whose job may stand
// elsewhere, not with one of a lower term, and not with a second one of the same term.
//
// Workers are told their host's number once, when they start. So that they find their host in the text of a generation
// whatever its number is by then, the number that the host had first stands in the texts that are left for them.
//
// Thread safety: gate() is for the supervisor's thread; the others from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/base/temporary_folder.h"
#include "muster/control/cluster_calls.h"
#include "muster/control/cluster_relay.h"
#include "muster/coordinator/host_speed.h"
#include "muster/coordinator/link_calls.h"
#include "muster/launch/generation_gate.h"
#include "muster/launch/supervisor.h"

namespace muster::coordinator {

// Whether an attempt to join that failed with `error` may succeed later, there or at another address. Not found: the
// coordinator that answers was replaced.
bool may_join_later(const Error& error);

struct HostReporterOptions {
  control::HostCard card{};
  // Of a host whose workers are taken over: where they look for the relay (ClusterRelay::address). Empty: a new one.
  std::string relay{};
  // The workers that were taken over are in this generation.
  std::function<void(const control::JobGeneration&)> adopted = [](const control::JobGeneration&) {};
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

class HostReporter {
 public:
  // `calls` and the clock outlive it.
  HostReporter(control::ClusterCalls& calls, HostReporterOptions options, const Clock& clock = system_clock());
  HostReporter(const HostReporter&) = delete;
  HostReporter& operator=(const HostReporter&) = delete;
  ~HostReporter();

  // Joins, and begins to report. Once. Throws as ClusterCalls::join, and as ClusterRelay.
  control::Welcome join();

  // REQUIRES of those that follow: join() has returned.
  std::shared_ptr<launch::GenerationGate> gate();
  // As the job says: for how long the workers go on without a coordinator, and the network interface to other hosts
  // that they are told. Before the first of them is started.
  void set_job(std::chrono::nanoseconds orphan, std::string interface);
  // Begins to ask the other hosts whether they are there, from that address (LinkCalls). Throws as LinkCalls.
  void call_others(const std::string& address, std::chrono::nanoseconds patience);
  // Where this host gives data to others (empty: it does not; `whole`: all of it), and where its workers get that of
  // others.
  void set_data(std::string address, bool whole, std::string door);
  // It has its part of that plan of copies.
  void set_held(const std::string& plan);
  // A folder of this host's own, for as long as this lives.
  const std::filesystem::path& folder() const { return folder_->path(); }
  // What the supervisor tells.
  void see(const launch::SupervisorReport& report);

  // ClusterRelay::address.
  const std::string& relay() const { return relay_->address(); }
  // ClusterRelay::agreed.
  control::AgreedValues agreed() const { return relay_->agreed(); }
  std::uint64_t host() const;
  bool fixed() const;         // its workers are a group that nobody can join later
  std::string store() const;  // of the host's workers, as the supervisor has said
  // Of the coordinator, the highest that was met.
  std::uint64_t term() const;
  control::Orders orders() const;
  // Why there are no orders any more, once it is for good: the coordinator was away for too long, or has refused.
  std::optional<Error> abandoned() const;

  // Says that this host ends, so that the others do not wait for it. gone(): they know.
  void announce_end(const std::string& reason);
  bool gone() const;
  // It has ended. Does not throw: nobody may be there to hear it.
  void leave(int code, const std::string& reason);

 private:
  class Gate;

  void open_relay();
  void beat();
  void watch();
  // One report and what came back. False: it failed.
  bool exchange(std::chrono::milliseconds wait);
  void take(std::uint64_t as_host, const control::Orders& orders);
  void failed(std::uint64_t as_host, const Error& error);
  void join_again();
  // Before anybody else can say it there. Throws kMismatch if somebody has said something else.
  void say_what_was_agreed(std::uint64_t number);
  // Nobody may be there to hear it.
  void tell_that_it_ends(std::uint64_t number, int code, const std::string& reason);

  // constant after construction
  control::ClusterCalls& calls_;
  const HostReporterOptions options_;
  const Clock& clock_;
  // constant after join()
  std::chrono::milliseconds interval_{250};
  std::string cluster_;  // the job that they train for
  std::optional<TemporaryFolder> folder_;
  // guarded by mutex_
  mutable Mutex mutex_;
  Condition changed_;
  control::HostReport report_ MUSTER_GUARDED_BY(mutex_);  // the newest
  control::Orders orders_ MUSTER_GUARDED_BY(mutex_);
  std::string life_ MUSTER_GUARDED_BY(mutex_);        // of the coordinator that is followed
  std::uint64_t term_ MUSTER_GUARDED_BY(mutex_) = 0;  // of the coordinator, the highest that was met
  bool dirty_ MUSTER_GUARDED_BY(mutex_) = false;      // the coordinator does not know the newest report
  bool outcast_ MUSTER_GUARDED_BY(mutex_) = false;    // the number was given up
  bool ends_ MUSTER_GUARDED_BY(mutex_) = false;
  std::optional<Clock::Instant> silent_since_ MUSTER_GUARDED_BY(mutex_);  // the coordinator
  std::optional<Error> refused_ MUSTER_GUARDED_BY(mutex_);
  mutable std::optional<Error> abandoned_ MUSTER_GUARDED_BY(mutex_);  // once it was said
  std::chrono::nanoseconds orphan_ MUSTER_GUARDED_BY(mutex_) = std::chrono::seconds(60);
  std::string interface_ MUSTER_GUARDED_BY(mutex_);
  std::string store_ MUSTER_GUARDED_BY(mutex_);
  std::string data_door_ MUSTER_GUARDED_BY(mutex_);
  HostSpeed speed_ MUSTER_GUARDED_BY(mutex_);
  std::size_t own_lanes_ MUSTER_GUARDED_BY(mutex_) = 0;  // of the generation that has begun
  std::unique_ptr<LinkCalls> links_ MUSTER_GUARDED_BY(mutex_);
  // after what they use
  std::optional<control::ClusterRelay> relay_;
  std::shared_ptr<Gate> gate_;
  std::thread beat_;
  std::thread watch_;
};

}  // namespace muster::coordinator
