// A map under a lock. What is bounded here is the memory that a worker gone wild can take from the coordinator; and
// keys of old generations go, because a job may have thousands.
#include "muster/control/cluster_values.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/store_key.h"

namespace muster::control {
namespace {

constexpr std::size_t kMostClusterValueBytes = std::size_t{64} * 1024;
constexpr std::size_t kMostStoredBytes = std::size_t{128} * 1024 * 1024;
constexpr std::uint64_t kKeptGenerations = 16;

}  // namespace

std::optional<std::uint64_t> generation_of_key(std::string_view key) {
  for (const std::string_view prefix : {"job-generation-", "broken/"}) {
    if (!key.starts_with(prefix)) continue;
    std::uint64_t number = 0;
    const char* const end = key.data() + key.size();
    const auto [rest, code] = std::from_chars(key.data() + prefix.size(), end, number);
    if (code == std::errc() && (rest == end || *rest == '/' || *rest == '-')) return number;
  }
  return std::nullopt;
}

void ClusterValues::set(std::string_view key, std::string_view value) {
  require_store_key(key);
  require_store_value(key, value, kMostClusterValueBytes);
  const MutexLock lock(mutex_);
  if (const auto there = values_.find(key); there != values_.end()) {
    if (there->second == value) return;
    throw Error(ErrorKind::kMismatch, fmt::format("\"{}\" is in the store already, with another value", key), {},
                "Give every rank its own number and every new group its own name.");
  }
  if (bytes_ + key.size() + value.size() > kMostStoredBytes)
    throw Error(ErrorKind::kResource, "the store of the job's hosts is full");
  bytes_ += key.size() + value.size();
  values_.emplace(key, value);
  added_.notify_all();
}

std::optional<std::string> ClusterValues::get(std::string_view key, std::chrono::nanoseconds wait) {
  require_store_key(key);
  const Deadline deadline = Deadline::after(wait);
  const MutexLock lock(mutex_);
  for (;;) {
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
    if (closed_ || deadline.passed()) return std::nullopt;
    added_.wait_for(mutex_, deadline.remaining());
  }
}

AgreedValues ClusterValues::agreed() const {
  const MutexLock lock(mutex_);
  AgreedValues found;
  for (auto entry = values_.lower_bound(kAgreedPrefix);
       entry != values_.end() && entry->first.starts_with(kAgreedPrefix); ++entry)
    found.insert(*entry);
  return found;
}

void ClusterValues::forget_before(std::uint64_t present) {
  const MutexLock lock(mutex_);
  for (auto entry = values_.begin(); entry != values_.end();) {
    const std::optional<std::uint64_t> number = generation_of_key(entry->first);
    if (!number || *number + kKeptGenerations > present) {
      ++entry;
      continue;
    }
    bytes_ -= entry->first.size() + entry->second.size();
    entry = values_.erase(entry);
  }
}

void ClusterValues::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  added_.notify_all();
}

}  // namespace muster::control
