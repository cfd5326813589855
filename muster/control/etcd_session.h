// EtcdSession: a lease of an etcd that this process keeps alive. Entries that were written under it go when the process
// has been silent for as long as the lease lasts, and at once when the session ends.
//
// What is left of it is counted from before the newest call that has prolonged it was sent, by this machine's own
// clock: so it is never longer than etcd's own count, whatever stood still or was cut off meanwhile.
// Thread safety: every method from any thread. A thread of its own prolongs it.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/mutex.h"
#include "muster/control/etcd_client.h"

namespace muster::control {

class EtcdSession {
 public:
  // `client` and the clock outlive it. There is no lease yet.
  EtcdSession(EtcdClient& client, std::chrono::seconds length, const Clock& clock = system_clock());
  EtcdSession(const EtcdSession&) = delete;
  EtcdSession& operator=(const EtcdSession&) = delete;
  ~EtcdSession();

  // The lease; a new one if there is none. Throws as EtcdClient::call, and kResource.
  std::int64_t lease(const Deadline& deadline);
  // etcd does not know this one any more.
  void forget(std::int64_t lease);
  // For how long the lease is certain to count still; 0: it may be gone.
  std::chrono::nanoseconds left() const;

 private:
  void keep();
  // Whether it was prolonged, or found to be gone.
  bool prolong(std::int64_t lease);
  void revoke(std::int64_t lease);

  EtcdClient& client_;
  const std::chrono::seconds length_;
  const Clock& clock_;
  mutable Mutex mutex_;
  Condition changed_;
  std::int64_t lease_ MUSTER_GUARDED_BY(mutex_) = 0;
  Clock::Instant until_ MUSTER_GUARDED_BY(mutex_){};
  bool ends_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster::control
