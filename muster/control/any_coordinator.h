// AnyCoordinator: the coordinator of a job that may be at one of several addresses, as an agent calls it. A call goes
// to the one that was reached last; one that cannot be reached, or does not answer, makes the next call try the next.
// join() asks the others at once when one refuses because it was replaced or is ending.
//
// Whether the one that answers is to be followed is not decided here: by the term in its Welcome the caller knows
// (coordinator/host_reporter.h). One that has a lower term than another that was met is left again by join() itself,
// which alone knows where it is. Thread safety: every method from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/mutex.h"
#include "muster/control/cluster_calls.h"

namespace muster::control {

class AnyCoordinator final : public ClusterCalls {
 public:
  // REQUIRES: one at least.
  explicit AnyCoordinator(std::vector<std::unique_ptr<ClusterCalls>> coordinators);

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
  // Calls the present one; turns to the next if it is away.
  template <typename Call>
  auto with_present(const Call& call);
  void turn_from(std::size_t place);
  Welcome join_at(std::size_t place, const HostCard& card);

  const std::vector<std::unique_ptr<ClusterCalls>> coordinators_;
  Mutex mutex_;
  std::size_t present_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::uint64_t term_ MUSTER_GUARDED_BY(mutex_) = 0;  // the highest that was met, and whose it was
  std::string life_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::control
