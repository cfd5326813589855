// Each refusal names what is typed instead: a job of another kind is started in another way, and by no change of
// parallel.hosts.
#include "muster/trainer/job_hosts.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::trainer {

void require_shared_by_hosts(const ResolvedJob& resolved) {
  if (resolved.job.federated.chosen())
    throw resolved.invalid(
        "federated.clients", "virtual clients are trained on one machine, and each of several would train all of them",
        "Start it on one (of Slurm: --nodes 1). With clients on machines of their own: muster federated server there "
        "and muster federated client on the others (docs/federated.md).");
  if (resolved.job.is_vertical())
    throw resolved.invalid("data.partition", "parties with columns of their own are no hosts that share a job",
                           "Start muster federated vertical labels and columns, each on its party's machine "
                           "(docs/federated-vertical.md).");
}

std::optional<std::string> hosts_assignment(const ResolvedJob& resolved, int hosts) {
  if (hosts > 1) require_shared_by_hosts(resolved);
  const IntegerRange said = resolved.job.parallel.hosts;
  if (said.most == 1) return hosts == 1 ? std::nullopt : std::optional(fmt::format("parallel.hosts={}", hosts));
  if (hosts >= said.least && hosts <= said.most) return std::nullopt;
  const std::string wanted =
      said.least == said.most ? fmt::format("{}", said.least) : fmt::format("{} to {}", said.least, said.most);
  throw resolved.invalid("parallel.hosts", fmt::format("the job is for {} hosts, and was started on {}", wanted, hosts),
                         "Start it on as many, or leave parallel.hosts out: then what starts it says how many.");
}

ResolvedJob load_job_on(int hosts, const std::filesystem::path& path, std::vector<std::string> assignments) {
  ResolvedJob resolved = load_job(path, assignments);
  const std::optional<std::string> more = hosts_assignment(resolved, hosts);
  if (!more) return resolved;
  assignments.push_back(*more);
  return load_job(path, assignments);
}

}  // namespace muster::trainer
