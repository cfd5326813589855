// Heralds: tell a coordinator that was replaced while it stood still, or was cut off, that it is none any more. It may
// wake up at any moment and believe that all others are lost, so it is told again and again, sooner than it gives
// anybody up. Thread safety: made and ended by one thread.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/mutex.h"
#include "muster/control/cluster_client.h"

namespace muster::coordinator {

class Heralds {
 public:
  // Begins to tell all of them of `life` (control::life_of), until this object ends.
  Heralds(const std::vector<control::ClusterTarget>& before, std::string life);
  Heralds(const Heralds&) = delete;
  Heralds& operator=(const Heralds&) = delete;
  ~Heralds();

 private:
  void tell(control::ClusterClient& one);

  const std::string life_;
  std::vector<std::unique_ptr<control::ClusterClient>> before_;
  Mutex mutex_;
  Condition changed_;
  bool ends_ MUSTER_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // one for each: who does not answer holds up nobody else
};

}  // namespace muster::coordinator
