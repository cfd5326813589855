// Connections that were let in and whose first call has not come yet, by the address of their other end.
//
// gRPC tells nobody of a handshake that failed: who was let in and never called is how it is noticed.
// Thread safety: every method from any thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/mutex.h"

namespace muster::control {

class Arrivals {
 public:
  void came(const std::string& peer, Clock::Instant now) {
    const MutexLock lock(mutex_);
    if (waiting_.size() < kMost) waiting_[peer] = now;
  }
  // A call came.
  void called(const std::string& peer) {
    const MutexLock lock(mutex_);
    waiting_.erase(peer);
  }
  // Takes out those that came before `before`.
  std::vector<std::string> silent_since(Clock::Instant before) {
    const MutexLock lock(mutex_);
    std::vector<std::string> silent;
    for (auto place = waiting_.begin(); place != waiting_.end();) {
      if (place->second < before) {
        silent.push_back(place->first);
        place = waiting_.erase(place);
      } else {
        ++place;
      }
    }
    return silent;
  }

 private:
  static constexpr std::size_t kMost = 4096;

  Mutex mutex_;
  std::map<std::string, Clock::Instant> waiting_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::control
