// Who trains together in a generation (membership.h). No torch here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "muster/comm/group.h"
#include "muster/control/job_generation.h"

namespace muster::strategies {

// Those who train together now.
struct Members {
  std::uint64_t generation = 0;  // counts changes of members
  comm::Group group{};           // this worker's place among them is its rank
  int leader = 0;                // the rank of the one that has been a member longest: it writes and speaks for all
  control::JobGeneration job{};  // their hosts; none: all are on one
  std::size_t host = 0;          // this worker's, in job.hosts
  bool leads() const { return group.rank() == leader; }
  std::size_t index() const { return static_cast<std::size_t>(group.rank()); }
  std::size_t count() const { return static_cast<std::size_t>(group.size()); }

  std::size_t hosts() const { return std::max<std::size_t>(1, job.hosts.size()); }
  // Among the members on this worker's host.
  std::size_t host_index() const {
    return index() - (job.hosts.empty() ? 0 : static_cast<std::size_t>(job.first_rank(host)));
  }
  std::size_t host_count() const {
    return job.hosts.empty() ? count() : static_cast<std::size_t>(job.hosts[host].workers());
  }
  // What of a step of `lanes` lanes is computed on this worker's host.
  control::LaneRange host_lanes(std::size_t lanes) const {
    return job.hosts.empty() ? control::LaneRange{0, lanes} : job.lanes_of(host, lanes);
  }
};

}  // namespace muster::strategies
