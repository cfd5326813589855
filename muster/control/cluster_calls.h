// What agents ask of the coordinator of a job of several hosts (proto/cluster.proto), as an interface: the coordinator
// answers it, the agent of its own host calls it directly, those of other hosts through gRPC (cluster_client.h).
//
// A host has a number from join() on. A number that was given up is refused with kNotFound in every call: its agent
// joins again, and is another host to the job. Thread safety: every method from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/control/host_links.h"
#include "muster/control/job_generation.h"
#include "muster/control/job_record.h"
#include "muster/control/job_status.h"

namespace muster::control {

// A host that wants to take part.
struct HostCard {
  std::string version{};  // of Muster
  std::string name{};     // for people
  int most_workers = 1;
  int cores = 1;
  std::uint64_t begun = 0;  // the newest job generation that its workers have entered, of one that comes back
  std::string cluster{};    // whose generation that is: the job that it belongs to; empty: none yet
  bool operator==(const HostCard&) const = default;
};

// What it has to know of the job.
struct Welcome {
  std::uint64_t host = 0;                // its number
  std::string job{};                     // the resolved job file; empty: it is a program of the user's own,
  std::string program{};                 // which this describes (cli/program_job.h)
  std::vector<std::string> arguments{};  // flags of its workers' command, beside the job
  std::string run{};                     // the job's name, for people
  // Of the job, and of this life of its coordinator: one that takes over has the same identity and a higher term.
  std::string cluster{};
  std::chrono::milliseconds interval{250};   // between two reports
  std::chrono::milliseconds patience{5000};  // a host that reports nothing for so long is given up
  std::uint64_t term = 1;
  std::string life{};  // life_of() them; empty: the cluster is its own name
  bool operator==(const Welcome&) const = default;
};

// A coordinator's life, as agents name it in every call: numbers of hosts are those of one life. Two that have taken
// over at the same moment have the same term; `which` tells them apart.
std::string life_of(const std::string& cluster, std::uint64_t term, const std::string& which);
// The term of such a name, of that job; 0: it is not one of it.
std::uint64_t term_of(const std::string& life, const std::string& cluster);

// How a host stands.
struct HostReport {
  std::uint64_t host = 0;
  std::uint64_t sequence = 0;  // grows with every report: one that comes late changes nothing
  std::uint64_t wanted = 0;    // members that its supervisor wants (bit s: seat s); 0: nobody is ready
  std::uint64_t begun = 0;     // the newest job generation that it has begun
  std::uint64_t step = 0;      // committed
  double worker_speed = 0;     // lanes that one of its workers computes in a second; 0: not known
  std::string ends{};          // why it is about to end; empty: it is not
  bool fixed = false;          // its workers are a group that nobody can join later
  std::string data{};          // ADDRESS:PORT at which it gives data to other hosts; empty: it does not
  bool data_whole = false;     // all of it, from files of its own
  std::string data_held{};     // the plan of copies of which it has its part (data/copy_plan.h)
  // What its folder is to the run, the step of the newest checkpoint there, and what is wrong with them (LeaderNote).
  std::string place{};
  std::optional<std::uint64_t> saved{};
  std::string alarm{};
  std::string calls{};  // ADDRESS:PORT at which it answers other hosts (coordinator/link_calls.h); empty: nowhere
  HostLinks links{};    // whom of them it hears
  bool operator==(const HostReport&) const = default;
};

// Where a host answers others that ask whether it is there.
struct Peer {
  std::uint64_t host = 0;
  std::string address{};
  bool operator==(const Peer&) const = default;
};

// A host that gives data to the others (data/shard_calls.h).
struct DataHost {
  std::uint64_t host = 0;
  std::string name{};
  std::string address{};
  bool whole = false;  // these two: as it has reported
  std::string held{};
  bool operator==(const DataHost&) const = default;
};

// What a host has to do. A new revision for every change.
struct Orders {
  std::uint64_t revision = 0;
  std::optional<JobGeneration> generation{};  // the newest
  int workers = 1;                            // that are wanted on each host
  bool stop = false;                          // finish the step, write a checkpoint, end
  bool at_once = false;                       // end without
  std::optional<std::string> over{};          // the job is over: why, in words; empty: as it should
  std::vector<Change> changes{};              // the newest that were asked for by `muster set`
  std::vector<DataHost> data{};               // who has the data and gives it to others
  std::vector<Peer> peers{};                  // where hosts answer each other
  bool operator==(const Orders&) const = default;
};

// How long a call may wait for something to happen, at most.
constexpr std::chrono::milliseconds kLongestWait{1000};

class ClusterCalls {
 public:
  virtual ~ClusterCalls() = default;

  // As life_of() has it; empty: nobody asks.
  virtual std::string identity() const { return {}; }
  // Somebody has called who belongs to another life: if it is one of the same job with a higher term, this one is over.
  virtual void met(const std::string& life);
  // Throws kMismatch (another version), kResource (the job has all its hosts: try again later), kUnsupported (it is
  // ending).
  virtual Welcome join(const HostCard& card) = 0;
  // Waits until the orders are others than revision `known`, at most `wait`.
  virtual Orders report(const HostReport& report, std::uint64_t known, std::chrono::milliseconds wait) = 0;
  // The store that all workers of all hosts share, as comm::Store; get waits at most `wait`, then gives nothing.
  virtual void store_set(std::uint64_t host, std::string_view key, std::string_view value) = 0;
  virtual std::optional<std::string> store_get(std::uint64_t host, std::string_view key,
                                               std::chrono::milliseconds wait) = 0;
  // The host has ended; `code` as exit codes are.
  virtual void leave(std::uint64_t host, int code, const std::string& reason) = 0;

  // What people on that host ask of the job, and what ControlCalls answers. Throws kUnsupported where nobody takes
  // commands.
  virtual JobStatus host_status(std::uint64_t host);
  virtual WantedState host_scale(std::uint64_t host, const std::string& request, const Scaling& scaling);
  virtual WantedState host_stop(std::uint64_t host, const std::string& request);
  virtual Change host_set(std::uint64_t host, const std::string& request, const std::string& assignment);
};

}  // namespace muster::control
