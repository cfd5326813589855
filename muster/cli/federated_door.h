// The one address of a server with several models: it opens when all of them are ready, and closes when all are done.
//
// Thread safety: each model has a thread, which enters and leaves once. No torch here.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/mutex.h"
#include "muster/control/cluster_server.h"
#include "muster/federated/federated_listener.h"
#include "muster/federated/offers.h"

namespace muster::cli {

class FederatedDoor {
 public:
  FederatedDoor(std::size_t models, control::ClusterListen listen) : models_(models), listen_(std::move(listen)) {}

  // Waits for the others, then gives the address. Throws Error{kInterrupted} when another model has failed, and what
  // the listener throws.
  std::string enter(const federated::OfferedModel& model);
  // Waits until all that have entered leave: as long as there are calls, all models are there to answer.
  void leave();
  // One has come to nothing: nobody waits for it, and going_on() is false from now on.
  void fail();
  bool going_on() const { return !failed_; }

 private:
  const std::size_t models_;
  const control::ClusterListen listen_;
  std::atomic<bool> failed_ = false;
  Mutex mutex_;
  Condition changed_;
  std::vector<federated::OfferedModel> entered_ MUSTER_GUARDED_BY(mutex_);
  std::size_t left_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<federated::FederatedListener> listener_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::cli
