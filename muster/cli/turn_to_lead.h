// An agent that stands by (muster agent --store): when nobody coordinates the job any more, and this host gets the
// lead, the agent's process becomes the coordinator, with its workers. It does so by exec: what an agent holds ends
// with it as if it had been killed, which everything here survives anyway, and its process number, its parent and its
// workers stay. No torch here. Thread safety: one thread, but for begin(), which any may call.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/mutex.h"
#include "muster/cli/cluster_flags.h"
#include "muster/cli/store_flags.h"
#include "muster/control/job_record.h"

namespace muster::cli {

class TurnToLead {
 public:
  // `listening`: as muster coordinator has them. Throws as listen_by() and etcd_by(). REQUIRES: both have an address.
  TurnToLead(ClusterFlags listening, StoreFlags store);
  TurnToLead(const TurnToLead&) = delete;
  TurnToLead& operator=(const TurnToLead&) = delete;
  ~TurnToLead();

  // Stands by for that run, from now on.
  void begin(const std::filesystem::path& run);

 private:
  void stand_by(const std::filesystem::path& run);
  // Returns only if it fails. Throws kIo.
  [[noreturn]] void become_coordinator(const std::filesystem::path& run, const control::Lease& before) const;

  const ClusterFlags listening_;
  const StoreFlags store_;
  const control::EtcdOptions etcd_;
  std::atomic<bool> ends_{false};
  Mutex mutex_;
  std::thread thread_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::cli
