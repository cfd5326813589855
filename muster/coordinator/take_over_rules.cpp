// Messages say what to do instead, because most of these are met by people who have typed muster attach in a hurry.
// The order of the rules is that in which the answers are known: what can be refused before anybody is asked comes
// first.
#include "muster/coordinator/take_over_rules.h"

#include <algorithm>

#include <fmt/format.h>

namespace muster::coordinator {

std::optional<Error> obstacle_of_job(const JobTakenOver& job) {
  if (!job.cluster) return std::nullopt;
  // Workers of a fixed group have no next generation, and of programs nobody knows what they do.
  if (job.of_a_file && job.replaces_workers && !job.needs_servers && !job.data_from_hosts) return std::nullopt;
  return Error(
      ErrorKind::kUnsupported,
      "a job of several hosts cannot be taken over where workers cannot be replaced, are served by parameter servers "
      "or get data from other hosts",
      job.run,
      job.of_a_file ? "Its workers write a checkpoint and end by themselves (parallel.orphan_seconds); then resume it."
                    : "End its workers on this host, and its agents; what the program has kept is where it left it.");
}

bool has_part(const std::optional<control::Lease>& lease, const std::string& here, bool has_agent) {
  return has_agent || (lease && lease->space == here);
}

HolderVerdict judge_holder(const std::optional<control::Lease>& holder, const ProcessId& self, const std::string& here,
                           bool lives) {
  if (!holder || holder->holder.pid == 0) return {false, "nobody has held it"};
  // Its number is somebody else's here.
  if (holder->space != here) return {false, "it was on another machine"};
  if (holder->holder == self) return {false, "it has become this process"};
  if (!lives) return {false, "it is gone"};
  return {true, fmt::format("process {} is ended; its workers are taken over", holder->holder.pid)};
}

std::optional<Error> obstacle_of_place(const JobTakenOver& job, const LeadView& view) {
  if (!job.cluster && !view.listen.empty())
    return Error(ErrorKind::kInvalidInput, "this job has one host: nobody could join by --listen", job.run,
                 "Leave it out.");
  if (!job.cluster || !view.moves) return std::nullopt;
  if (view.listen.empty())
    return Error(ErrorKind::kInvalidInput, "this host has an agent of the job; where should the others find it?",
                 job.run, "Add --listen ADDRESS:PORT, one that the agents were given by --join.");
  // It may have given this host up, and live: then the agent here gets no answer that counts.
  if (!view.elected && !view.answering.empty())
    return Error(ErrorKind::kMismatch, fmt::format("its coordinator answers, at {}", view.answering), job.run,
                 "Only a job whose coordinator is lost can be taken over.");
  return std::nullopt;
}

Lead next_lead(const control::LedCluster& before, const LeadView& view) {
  Lead lead{before, view.listen.empty() ? before.listen : view.listen,
            view.interface.empty() ? before.interface : view.interface};
  ++lead.cluster.term;
  return lead;
}

std::optional<control::EtcdOptions> etcd_that_decides(const std::optional<control::EtcdOptions>& given,
                                                      const std::optional<control::EtcdOptions>& pointed) {
  if (given || !pointed) return given;
  control::EtcdOptions of_the_job = *pointed;
  of_the_job.prefix = of_the_job.prefix.substr(0, of_the_job.prefix.rfind('/'));
  return of_the_job;
}

bool leads_for_certain(std::chrono::nanoseconds session_left, std::chrono::nanoseconds lease,
                       std::chrono::nanoseconds patience) {
  std::chrono::nanoseconds least{0};
  if (patience.count() > 0) least = std::max(least, lease - patience / 2);
  return session_left > least;
}

}  // namespace muster::coordinator
