// HostData: a host's part in giving data around, of jobs whose hosts need not all have it (data.access = "fetch").
//
// A host that has the packed shards at the place that the job names gives them to the others, at an address that it
// tells the coordinator; one that has not gets them from those that have (data/depot.h). Its workers reach either by a
// door (control/depot_door.h). Data goes over the network interface to the other hosts, or over loopback where none was
// named. With certificates or tokens calls are encrypted, and only a host that has a coordinator's certificate gives.
// Thread safety: one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/control/trust_options.h"
#include "muster/coordinator/coordinated_job.h"
#include "muster/coordinator/host_reporter.h"

namespace muster::coordinator {

struct HostDataOptions {
  JobData data{};
  std::string interface {};              // to the other hosts; empty: loopback
  control::TrustOptions listen_trust{};  // of who gives
  control::TrustOptions call_trust{};    // of who gets
  std::string coordinator{};             // HOST:PORT by which its certificate is known, where a token is the trust
  bool may_serve = true;                 // false: this host has no certificate by which others could trust it
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

// "10.0.0.1" of "eth0". Throws kInvalidInput when the machine has no such interface with an address.
std::string address_of_interface(const std::string& interface);
// The same; where no interface was named that of loopback.
std::string address_for_others(const std::string& interface);

}  // namespace muster::coordinator
