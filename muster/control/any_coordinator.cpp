// Several threads call at once: of two that find the same coordinator away only one turns to the next, and a call that
// was made before the turn turns nothing.
#include "muster/control/any_coordinator.h"

#include <optional>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::control {
namespace {

bool is_away(const Error& error) {
  return error.kind() == ErrorKind::kPeerLost || error.kind() == ErrorKind::kTimeout;
}

}  // namespace

AnyCoordinator::AnyCoordinator(std::vector<std::unique_ptr<ClusterCalls>> coordinators)
    : coordinators_(std::move(coordinators)) {
  MUSTER_CHECK(!coordinators_.empty(), "there is somebody to be called");
}

template <typename Call>
auto AnyCoordinator::with_present(const Call& call) {
  std::size_t place = 0;
  {
    const MutexLock lock(mutex_);
    place = present_;
  }
  try {
    return call(*coordinators_[place]);
  } catch (const Error& error) {
    if (is_away(error)) turn_from(place);
    throw;
  }
}

void AnyCoordinator::turn_from(std::size_t place) {
  const MutexLock lock(mutex_);
  if (present_ == place) present_ = (place + 1) % coordinators_.size();
}

Welcome AnyCoordinator::join(const HostCard& card) {
  std::optional<Error> refusal;
  for (std::size_t tries = 0; tries < coordinators_.size(); ++tries) {
    std::size_t place = 0;
    {
      const MutexLock lock(mutex_);
      place = present_;
    }
    try {
      return join_at(place, card);
    } catch (const Error& error) {
      const bool refuses = error.kind() == ErrorKind::kNotFound || error.kind() == ErrorKind::kUnsupported;
      if (refuses || is_away(error)) turn_from(place);
      // One that was replaced, or is ending, says nothing of the next; but what it says is more than that nobody is
      // there, and that the job ends more than that another has it.
      if (refuses && (!refusal || error.kind() == ErrorKind::kUnsupported)) refusal = error;
      if (!refuses) throw refusal ? *refusal : error;
    }
  }
  throw Error(*refusal);
}

Welcome AnyCoordinator::join_at(std::size_t place, const HostCard& card) {
  ClusterCalls& coordinator = *coordinators_[place];
  const Welcome welcome = coordinator.join(card);
  bool overtaken = false;
  {
    const MutexLock lock(mutex_);
    overtaken = welcome.term < term_ || (welcome.term == term_ && welcome.life != life_);
    if (!overtaken) {
      term_ = welcome.term;
      life_ = welcome.life;
    }
  }
  if (!overtaken) return welcome;
  // The caller will not follow it: the one that has overtaken it is at another address. The number is of this one only.
  turn_from(place);
  try {
    coordinator.leave(welcome.host, 1, "follows a coordinator of a higher term");
  } catch (const Error&) {
    // It finds out by itself.
  }
  return welcome;
}

Orders AnyCoordinator::report(const HostReport& report, std::uint64_t known, std::chrono::milliseconds wait) {
  return with_present([&](ClusterCalls& calls) { return calls.report(report, known, wait); });
}

void AnyCoordinator::store_set(std::uint64_t host, std::string_view key, std::string_view value) {
  with_present([&](ClusterCalls& calls) { calls.store_set(host, key, value); });
}

std::optional<std::string> AnyCoordinator::store_get(std::uint64_t host, std::string_view key,
                                                     std::chrono::milliseconds wait) {
  return with_present([&](ClusterCalls& calls) { return calls.store_get(host, key, wait); });
}

void AnyCoordinator::leave(std::uint64_t host, int code, const std::string& reason) {
  with_present([&](ClusterCalls& calls) { calls.leave(host, code, reason); });
}

JobStatus AnyCoordinator::host_status(std::uint64_t host) {
  return with_present([&](ClusterCalls& calls) { return calls.host_status(host); });
}

WantedState AnyCoordinator::host_scale(std::uint64_t host, const std::string& request, const Scaling& scaling) {
  return with_present([&](ClusterCalls& calls) { return calls.host_scale(host, request, scaling); });
}

WantedState AnyCoordinator::host_stop(std::uint64_t host, const std::string& request) {
  return with_present([&](ClusterCalls& calls) { return calls.host_stop(host, request); });
}

Change AnyCoordinator::host_set(std::uint64_t host, const std::string& request, const std::string& assignment) {
  return with_present([&](ClusterCalls& calls) { return calls.host_set(host, request, assignment); });
}

}  // namespace muster::control
