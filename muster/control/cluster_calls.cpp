// What somebody who answers agents need not answer: commands to the job, which relays and coordinators in tests have no
// use for. And how a coordinator's life is named.
#include "muster/control/cluster_calls.h"

#include <charconv>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::control {
namespace {

[[noreturn]] void refuse_command() {
  throw Error(ErrorKind::kUnsupported, "commands to the job are not taken here");
}

}  // namespace

std::string life_of(const std::string& cluster, std::uint64_t term, const std::string& which) {
  return term <= 1 ? cluster : fmt::format("{}.{}.{}", cluster, term, which);
}

std::uint64_t term_of(const std::string& life, const std::string& cluster) {
  if (cluster.empty() || !life.starts_with(cluster)) return 0;
  if (life.size() == cluster.size()) return 1;
  std::uint64_t term = 0;
  const char* const end = life.data() + life.size();
  const auto [rest, code] = std::from_chars(life.data() + cluster.size() + 1, end, term);
  return life[cluster.size()] == '.' && code == std::errc() && rest != end && *rest == '.' ? term : 0;
}

void ClusterCalls::met(const std::string&) {
}

JobStatus ClusterCalls::host_status(std::uint64_t) {
  refuse_command();
}

WantedState ClusterCalls::host_scale(std::uint64_t, const std::string&, const Scaling&) {
  refuse_command();
}

WantedState ClusterCalls::host_stop(std::uint64_t, const std::string&) {
  refuse_command();
}

Change ClusterCalls::host_set(std::uint64_t, const std::string&, const std::string&) {
  refuse_command();
}

}  // namespace muster::control
