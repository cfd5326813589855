// Who enters last opens, so that the first call finds every model; who leaves last closes. Waits look again after a
// while, because a model that fails may do so without the lock.
#include "muster/cli/federated_door.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kDoorLook{100};

}  // namespace

std::string FederatedDoor::enter(const federated::OfferedModel& model) {
  const MutexLock lock(mutex_);
  entered_.push_back(model);
  if (entered_.size() == models_ && !failed_) {
    try {
      listener_ = std::make_unique<federated::FederatedListener>(entered_, listen_);
    } catch (...) {
      fail();
      ++left_;
      changed_.notify_all();
      throw;
    }
    changed_.notify_all();
  }
  while (!listener_) {
    if (failed_) {
      ++left_;
      changed_.notify_all();
      throw Error(ErrorKind::kInterrupted, fmt::format("{} was not begun: another model failed", model.offer.name));
    }
    changed_.wait_for(mutex_, kDoorLook);
  }
  return listener_->address();
}

void FederatedDoor::leave() {
  const MutexLock lock(mutex_);
  ++left_;
  changed_.notify_all();
  while (left_ < entered_.size())
    changed_.wait_for(mutex_, kDoorLook);
  // Under the lock: nobody's RoundServer goes before the calls have ended.
  listener_.reset();
}

void FederatedDoor::fail() {
  failed_ = true;
}

}  // namespace muster::cli
