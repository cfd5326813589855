// A job as its coordinator knows it: how its workers are started and watched, and how many there may be.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/control/cluster_client.h"
#include "muster/control/cluster_server.h"
#include "muster/control/etcd_options.h"
#include "muster/control/job_record.h"
#include "muster/control/store.h"
#include "muster/coordinator/job_folder.h"
#include "muster/coordinator/training.h"
#include "muster/launch/child_process.h"
#include "muster/launch/worker_watch.h"

namespace muster::coordinator {

// Of a job of several hosts: how many, how they reach this one, and what their agents are told.
struct JobHosts {
  std::size_t least = 1;
  std::size_t most = 1;
  std::size_t lanes = 1;
  std::chrono::nanoseconds patience = std::chrono::seconds(5);  // for a host that is silent
  std::string interface {};                                     // to the other hosts, on this one
  control::ClusterListen listen{};
  std::string job{};  // this and the next two: control/cluster_calls.h
  std::string program{};
  std::vector<std::string> arguments{};
  std::string name{};  // of this host; empty: as it calls itself
  // Told where this host listens, with the port that was chosen, as soon as it does.
  std::function<void(const std::string& address)> listens{};
  // Within which the least of hosts have to come, where something has started them all; empty: somebody may start them
  // at any time.
  std::optional<std::chrono::nanoseconds> arrival{};
  // Asked until the first generation has begun: why some of them cannot come any more; nothing: they can.
  std::function<std::optional<Error>()> hopeless{};
  // Of a job that is taken over: as the coordinator before has left it, with the next term.
  std::optional<control::LedCluster> taken_over{};
  // Where a coordinator before this one may still listen, that has to know that it is none any more.
  std::vector<control::ClusterTarget> before{};
};

// Of a job whose hosts give each other data (coordinator/host_data.h).
struct JobData {
  std::filesystem::path folder{};  // of the packed shards, on hosts that have them
  std::filesystem::path cache{};   // of those that have not, and what they keep at most
  std::uint64_t cache_bytes = 0;
  std::uint32_t copies = 0;  // hosts that keep each part of the data; 0: none has to
};

struct CoordinatedJob {
  std::string name;
  launch::Command command;         // starts a worker
  launch::Command server_command;  // starts a parameter server, of a job that has some
  int least_workers = 1;
  int most_workers = 1;
  std::chrono::duration<double> grace{};  // in which workers end once they were told to; they keep to it themselves
  launch::WorkerWatchOptions watch{};
  int servers = 0;                                             // this and the next: launch/supervisor.h
  bool workers_serve = false;                                  // each of them
  int copies = 1;                                              // of every part of the model
  std::chrono::nanoseconds orphan = std::chrono::seconds(60);  // for which workers go on without a coordinator
  std::optional<JobHosts> hosts{};                             // empty: this one is all
  std::optional<JobData> data{};                               // empty: every host sees all of it by itself
  std::optional<control::EtcdOptions> etcd{};  // that holds the record; empty: a file of the run's folder
  std::shared_ptr<const Training> training = std::make_shared<const Training>();
  JobFolder folder{};     // of its record
  std::string started{};  // by what, where something has started the nodes of the job, in words; told and shown
};

// Between this and what a record holds of it; the store is the supervisor's to say.
control::Launch launch_of(const CoordinatedJob& job);
control::WantedState wanted_at_first(const CoordinatedJob& job);

// A job whose coordinator is gone, as it has written it down.
struct RecordedJob {
  std::filesystem::path run;  // its folder
  CoordinatedJob job;
  std::string store;                             // by which its workers are found
  std::optional<control::LedCluster> cluster{};  // of a job of several hosts, as the last coordinator has left it
  // The workers were those of an agent, and the coordinator was on another host: there is no record of its own here, or
  // one that names processes of that host.
  bool moves = false;
  // Of a job whose record is in an etcd: the lead has been taken already.
  std::shared_ptr<control::Store> etcd{};
  std::shared_ptr<control::JobRecord> led{};
};

// `known` gives what the run's folder says of the job beside the record. Throws kNotFound (there is no record, or it
// says nothing of workers) before that is asked for.
RecordedJob read_recorded_job(const std::filesystem::path& run, const std::function<CoordinatedJob()>& known);
// The same of a job whose record is in an etcd. `space` is where its last coordinator ran (Lease::space): there the
// record says how workers are found; elsewhere that of this host's agent does.
RecordedJob read_shared_job(const std::filesystem::path& run, const control::JobRecord& shared,
                            const std::string& space, const std::function<CoordinatedJob()>& known);

}  // namespace muster::coordinator
