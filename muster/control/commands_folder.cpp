// A folder of this host's agent that is not there leaves the run's own. Where both are there, and both were served here
// (a coordinator's host that was lost and came back with an agent, or an agent's that took over), whoever lives counts,
// and of the dead the one of the later term.
#include "muster/control/commands_folder.h"

#include <optional>

#include "muster/base/process.h"
#include "muster/control/job_record.h"
#include "muster/control/job_store.h"

namespace muster::control {
namespace {

bool lives(const JobRecord& record) {
  const std::optional<Lease> lease = record.lease();
  return lease && lease->holder.pid != 0 && state_of(lease->holder) != ProcessState::kGone;
}

}  // namespace

std::filesystem::path host_folder(const std::filesystem::path& run) {
  return run / "hosts" / process_space();
}

std::filesystem::path commands_folder(const std::filesystem::path& run) {
  std::filesystem::path own = host_folder(run);
  if (!has_record(own)) return run;
  if (!has_record(run)) return own;
  const JobRecord coordinators(open_record_store(run));
  if (coordinators.served_in() != process_space()) return own;
  if (lives(coordinators)) return run;
  const JobRecord agents(open_record_store(own));
  if (lives(agents)) return own;
  const std::optional<LedCluster> led = coordinators.cluster();
  const std::optional<LedCluster> followed = agents.cluster();
  const bool comparable = led && followed && led->identity == followed->identity;
  return comparable && followed->term > led->term ? own : run;
}

}  // namespace muster::control
