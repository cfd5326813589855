// The values of the store that all workers of a job's hosts share, in the coordinator's memory. Keys that belong to a
// job generation ("job-generation-7/...", "broken/7") are forgotten some generations later: who looks for them then is
// too late anyway. Thread safety: every method from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/mutex.h"

namespace muster::control {

// Below it is what all workers have to agree on (trainer/session_agreement.h, data_agreement.h): who says it first sets
// it, and everybody after it compares. So it has to outlive the coordinator: whoever has set or read it knows it, and
// brings it along.
constexpr std::string_view kAgreedPrefix = "agreement/";
using AgreedValues = std::map<std::string, std::string>;

// The job generation that a key belongs to, if it does to one.
std::optional<std::uint64_t> generation_of_key(std::string_view key);

class ClusterValues {
 public:
  // Keys and values as comm::Store has them. Throws kInvalidInput, kMismatch (there is another value), kResource (too
  // much is stored).
  void set(std::string_view key, std::string_view value);
  // Waits for it, at most `wait`.
  std::optional<std::string> get(std::string_view key, std::chrono::nanoseconds wait);
  // Those below kAgreedPrefix.
  AgreedValues agreed() const;
  // Generation `present` has begun.
  void forget_before(std::uint64_t present);
  // All waits end at once, from now on.
  void close();

 private:
  mutable Mutex mutex_;
  Condition added_;
  bool closed_ MUSTER_GUARDED_BY(mutex_) = false;
  std::size_t bytes_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::string, std::less<>> values_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::control
