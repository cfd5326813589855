// ClusterClient: the coordinator of a job as the agent of another host calls it (cluster_calls.h).
//
// Every call has a time within which it is answered, or ends with kTimeout; a coordinator that is not there is
// kPeerLost at once. The connection is made anew by itself as often as needed. What the coordinator throws is thrown
// here. A thread of its own drives the connection.
#pragma once

#include <memory>
#include <string>

#include "muster/base/mutex.h"
#include "muster/control/cluster_calls.h"
#include "muster/control/trust_options.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace muster::control {

struct ClusterTarget {
  std::string address;   // "10.0.0.1:7400"
  TrustOptions trust{};  // none: neither encrypted nor authenticated
};

class ClusterClient final : public ClusterCalls {
 public:
  // Connects at the first call.
  explicit ClusterClient(const ClusterTarget& target);
  // Through a connection that stands; `where` is for messages. `token`: metadata of every call; empty: none.
  ClusterClient(std::shared_ptr<grpc::Channel> channel, std::string where, std::string token);
  ~ClusterClient() override;

  // Lets whoever answers there know of that life (ClusterCalls::met), which it does not belong to. Throws as every
  // call.
  void tell_of(const std::string& life);

  Welcome join(const HostCard& card) override;
  Orders report(const HostReport& report, std::uint64_t known, std::chrono::milliseconds wait) override;
  void store_set(std::uint64_t host, std::string_view key, std::string_view value) override;
  std::optional<std::string> store_get(std::uint64_t host, std::string_view key,
                                       std::chrono::milliseconds wait) override;
  void leave(std::uint64_t host, int code, const std::string& reason) override;
  JobStatus host_status(std::uint64_t host) override;
  WantedState host_scale(std::uint64_t host, const std::string& request, const Scaling& scaling) override;
  WantedState host_stop(std::uint64_t host, const std::string& request) override;
  Change host_set(std::uint64_t host, const std::string& request, const std::string& assignment) override;

 private:
  struct Parts;
  template <typename Call>
  void call(std::chrono::milliseconds longest, const Call& call) const;

  std::unique_ptr<Parts> parts_;
  mutable Mutex mutex_;
  std::string cluster_ MUSTER_GUARDED_BY(mutex_);  // that was joined
};

}  // namespace muster::control
