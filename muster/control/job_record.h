// JobRecord: what is durably known of one job, as a typed view over a Store.
//
// Anybody may read. Writing needs the lease: a coordinator takes it over, which gives it the next epoch number, and
// every write is one transaction that first looks whether the lease is still its own. So a coordinator that was
// stopped, slow or forgotten cannot change anything once another has taken over (fencing), however late its writes
// come. Commands of users carry a request id made by the client: the same id takes effect once, however often it is
// sent.
//
// Over a store that has sessions (etcd) a leader also holds the key `leader`, which goes with its session: while that
// is there nobody can take over, and every write needs it, too. Elsewhere its process says whether a leader is there.
//
// Keys below the prefix: identity, launch, cluster, wanted, membership, standing, lease, leader, endpoint,
// change/NUMBER, request/ID; all JSON. Thread safety: every method from any thread. Errors: those of the store,
// kDamaged for a value that is not as written, and for every write kMismatch, naming the leader, when another
// coordinator has taken over.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/base/mutex.h"
#include "muster/base/process.h"
#include "muster/control/store.h"
#include "muster/control/worker.h"

namespace muster::control {

struct JobIdentity {
  std::string name;
  std::string run;      // the run's folder
  std::string created;  // time stamp, for people
  // Of a host whose coordinator is another one: where the run of the host that leads is, for people.
  std::string elsewhere = {};
};

// How its workers are started and watched: what a coordinator needs that takes them over.
struct Launch {
  std::string program;
  std::vector<std::string> arguments;
  std::string folder;  // in which they were started
  std::string store;   // by which they find each other (launch/supervisor.h)
  double liveness_seconds = 2;
  double hang_seconds = 10;
  double grace_seconds = 30;
  std::uint64_t earlier_generations = 0;  // before these workers began: theirs count from 1
  double start_seconds = 600;
  bool operator==(const Launch&) const = default;
};

// Of a job of several hosts: what a coordinator needs beside that takes over its hosts. Agents know the job by its
// identity, and its coordinators by their terms: each has a higher one than all before it, and who has a lower one is
// not followed any more.
struct LedCluster {
  std::string identity;
  std::uint64_t term = 1;
  std::string listen;                  // where agents joined
  std::string relay;                   // by which the workers of the coordinator's own host reach it (cluster_relay.h)
  std::string interface;               // of that host to the others
  std::vector<std::string> arguments;  // of workers on other hosts (Welcome::arguments)
  // What its workers have agreed on, as far as this host knows it: values of the store of all hosts (cluster_values.h).
  std::map<std::string, std::string> agreed = {};
  bool operator==(const LedCluster&) const = default;
};

struct WantedState {
  int min_workers = 1;
  int max_workers = 1;
  int target_workers = 1;  // between the two
  bool stop = false;
  int min_servers = 0;  // processes of parameter servers; all 0: the job has none
  int max_servers = 0;
  int target_servers = 0;
  bool operator==(const WantedState&) const = default;
};

// What `muster scale` asks for; nothing: as before.
struct Scaling {
  std::optional<int> workers{};
  std::optional<int> servers{};
};

// A change of a key of the job, asked for by `muster set`. Numbered from 1, in the order in which they take effect.
struct Change {
  std::uint64_t number = 0;
  std::string assignment;                        // "optimizer.lr=0.01"
  std::optional<std::uint64_t> applied_at_step;  // the first step that was computed with it
  bool operator==(const Change&) const = default;
};

struct Membership {
  std::uint64_t generation = 0;      // never goes back
  std::vector<Worker> members = {};  // by rank; who they are, and whether they have begun to train
  bool operator==(const Membership&) const = default;
};

enum class JobPhase { kStarting, kRunning, kStopping, kFinished, kStopped, kFailed };
std::string_view to_string(JobPhase phase);
// Whether the job has come to an end.
bool is_over(JobPhase phase);

// Where the job stood when it was last written down: at changes of phase and now and then, not at every step.
struct Standing {
  JobPhase phase = JobPhase::kStarting;
  std::string reason = {};  // in words
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  bool operator==(const Standing&) const = default;
};

// Who coordinates. After release() the process is {0, 0} and the epoch stays.
struct Lease {
  ProcessId holder;
  std::uint64_t epoch = 0;
  std::string space{};  // in which the holder's number counts (process_space()); empty: not known
  std::string host{};   // its name, for people
  bool operator==(const Lease&) const = default;
};

// Whether a lease may be taken, and why (or why not) in words. Pure.
struct TakeOverDecision {
  bool allowed = false;
  std::string reason;
};
TakeOverDecision decide_take_over(const std::optional<Lease>& lease, ProcessState holder);
// Over a store with sessions; `led`: that of some leader lasts.
TakeOverDecision decide_take_over_of_session(const std::optional<Lease>& lease, bool led);

class JobRecord {
 public:
  explicit JobRecord(std::shared_ptr<Store> store, std::string prefix = "job");

  // Reading. What was never written is empty, or has its defaults.
  std::optional<JobIdentity> identity() const;
  std::optional<Launch> launch() const;
  std::optional<LedCluster> cluster() const;
  WantedState wanted() const;
  std::vector<Change> changes() const;
  Membership membership() const;
  Standing standing() const;
  std::optional<Lease> lease() const;
  // Where the leader's service listens, if it has said so in its own epoch.
  std::optional<std::string> endpoint() const;
  // On which host the service listened last, as process_space() there; empty: nowhere, or not known.
  std::string served_in() const;

  // Becomes the leader, with an epoch above all before. Throws kMismatch when the holder still runs, unless `by_force`
  // (the holder is hung: end it first if you can; its writes are refused from now on). Over a store with sessions:
  // while the holder's session lasts, which no force ends.
  Lease take_over(const ProcessId& self, bool by_force = false);
  // Whether the lease is still this one's.
  bool leads() const;
  // Over a store with sessions: whether some leader's session lasts.
  bool is_led() const;
  // The same: a leader whose session has ended begins another one, if nobody has taken over meanwhile; throws kMismatch
  // if somebody has. Nothing where it goes on, and without sessions.
  void keep_lead();
  // Gives the lease up in good order, so that nobody has to find out that this process is gone.
  void release();

  // Writes of the leader; durable when they return. REQUIRES: take_over returned.
  // begin keeps the identity of a run that has one (it is being resumed) and forgets its wanted state, members and
  // hosts.
  void begin(const JobIdentity& identity, const WantedState& wanted);
  void put_launch(const Launch& launch);
  void put_cluster(const LedCluster& cluster);
  void put_membership(const Membership& membership);  // kMismatch if the generation went back
  void put_standing(const Standing& standing);
  void put_endpoint(const std::string& address);
  void mark_applied(std::uint64_t change, std::uint64_t step);
  // One that workers know of already, under the number that it has there. REQUIRES: it is above those of all others.
  void keep_change(const Change& change);

  // Commands. A request id that was seen before changes nothing and gives what it gave then; kMismatch if it then
  // asked for something else. The last 256 ids are remembered. scale: kInvalidInput outside of the limits.
  WantedState scale(const std::string& request, const Scaling& scaling);
  WantedState stop(const std::string& request);
  Change change(const std::string& request, const std::string& assignment);

 private:
  using Writes = std::vector<Transaction::Write>;
  std::string key(const std::string& name) const { return prefix_ + "/" + name; }
  std::optional<Json> read(const std::string& name) const;
  // Commits under the lease. False: one of `conditions` did not hold.
  bool write(const Writes& writes, std::vector<Transaction::Condition> conditions = {});
  // Throws what a write of somebody who does not lead any more does, if that is so.
  void throw_if_fenced(std::uint64_t lease_revision, std::uint64_t leader_revision) const;
  std::optional<Json> remembered(const std::string& request, const Json& asked) const;
  Writes remember(const std::string& request, const Json& asked, const Json& answer) const;
  WantedState command(const std::string& request, const Json& asked, void (*apply)(WantedState&, const Json&));

  const std::shared_ptr<Store> store_;
  const std::string prefix_;
  mutable Mutex mutex_;
  std::optional<Lease> own_ MUSTER_GUARDED_BY(mutex_);
  std::uint64_t own_revision_ MUSTER_GUARDED_BY(mutex_) = 0;     // of the lease
  std::uint64_t leader_revision_ MUSTER_GUARDED_BY(mutex_) = 0;  // of `leader`; 0: the store has no sessions
};

}  // namespace muster::control
