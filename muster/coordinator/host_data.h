// HostData: a host's part in a job whose hosts need not all have its data (data.access = "fetch" and "copy").
//
// A host that has the packed shards at the place that the job names gives them to the others, at an address that it
// tells the coordinator; one that has not gets them from those that have (data/depot.h). With "copy" such a one also
// keeps a part (data/copy_keeper.h), and gives that. Its workers reach either by a door (control/depot_door.h). Data
// goes over the network interface to the other hosts, or over loopback where none was named. Where hosts know each
// other by certificates or tokens calls are encrypted, by certificates of the job's own (control/job_secrets.h). Thread
// safety: one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/control/job_secrets.h"
#include "muster/coordinator/coordinated_job.h"
#include "muster/coordinator/host_reporter.h"

namespace muster::coordinator {

struct HostDataOptions {
  JobData data{};
  std::string interface {};                      // to the other hosts; empty: loopback
  std::optional<control::JobSecrets> secrets{};  // of both ends; nothing: calls are not encrypted
  std::function<void(const std::string&)> tell = [](const std::string&) {};
  std::function<void(const std::string&)> note = [](const std::string&) {};  // the audit; from any thread
};

class HostData {
 public:
  // Begins to give, or to be ready to get. `reporter` has joined, and outlives it. Throws kInvalidInput (no such
  // interface), and as ShardFiles (data that is damaged), ShardServer and DepotDoor.
  HostData(HostReporter& reporter, HostDataOptions options);
  HostData(const HostData&) = delete;
  HostData& operator=(const HostData&) = delete;
  ~HostData();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// How the hosts of a job encrypt what they give each other: the first one makes it and leaves it in the store of all
// hosts, the others find it there. Throw as ClusterCalls; find also kTimeout.
control::JobSecrets leave_data_secrets(control::ClusterCalls& calls, std::uint64_t host, control::WallTime now);
control::JobSecrets find_data_secrets(control::ClusterCalls& calls, std::uint64_t host);

// "10.0.0.1" of "eth0". Throws kInvalidInput when the machine has no such interface with an address.
std::string address_of_interface(const std::string& interface);
// The same; where no interface was named that of loopback.
std::string address_for_others(const std::string& interface);

}  // namespace muster::coordinator
