// A pair of functions for each value of the record. Readers are strict about what is there and lenient about what
// earlier versions did not write.
#include "muster/control/job_json.h"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::control {
namespace {

constexpr std::array kPhases{JobPhase::kStarting, JobPhase::kRunning, JobPhase::kStopping,
                             JobPhase::kFinished, JobPhase::kStopped, JobPhase::kFailed};

int small_number(const Json& json, const std::string& name, const std::string& where) {
  const auto value = json_get<std::int64_t>(json, name, where);
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorKind::kDamaged, fmt::format("\"{}\" is {}", name, value), where);
  return static_cast<int>(value);
}

[[noreturn]] void throw_unknown(const std::string& name, const std::string& where) {
  throw Error(ErrorKind::kDamaged, fmt::format("\"{}\" has a value that this version does not know", name), where);
}

JobPhase phase_from(const Json& json, const std::string& where) {
  const auto text = json_get<std::string>(json, "phase", where);
  for (const JobPhase phase : kPhases)
    if (to_string(phase) == text) return phase;
  throw_unknown("phase", where);
}

Json process_json(const ProcessId& process) {
  return {{"pid", process.pid}, {"start_time", process.start_time}};
}

ProcessId process_from(const Json& json, const std::string& where) {
  return {small_number(json, "pid", where), json_get<std::uint64_t>(json, "start_time", where)};
}

// Who it is, not what it is at.
Json worker_json(const Worker& worker) {
  return {{"rank", worker.rank},
          {"process", process_json(worker.process)},
          {"restarts", worker.restarts},
          {"state", to_string(worker.state)}};
}

Worker worker_from(const Json& json, const std::string& where) {
  const std::optional<WorkerState> state = worker_state_named(json_get<std::string>(json, "state", where));
  if (!state) throw_unknown("state", where);
  return {.rank = small_number(json, "rank", where),
          .process = process_from(json_get<Json>(json, "process", where), where),
          .restarts = small_number(json, "restarts", where),
          .state = *state};
}

}  // namespace

std::string_view to_string(JobPhase phase) {
  switch (phase) {
    case JobPhase::kStarting:
      return "starting";
    case JobPhase::kRunning:
      return "running";
    case JobPhase::kStopping:
      return "stopping";
    case JobPhase::kFinished:
      return "finished";
    case JobPhase::kStopped:
      return "stopped";
    case JobPhase::kFailed:
      return "failed";
  }
  MUSTER_CHECK(false, "a JobPhase without a name");
}

bool is_over(JobPhase phase) {
  return phase == JobPhase::kFinished || phase == JobPhase::kStopped || phase == JobPhase::kFailed;
}

Json to_json(const JobIdentity& identity) {
  Json json{{"name", identity.name}, {"run", identity.run}, {"created", identity.created}};
  if (!identity.elsewhere.empty()) json["elsewhere"] = identity.elsewhere;
  return json;
}

JobIdentity identity_from(const Json& json, const std::string& where) {
  return {json_get<std::string>(json, "name", where), json_get<std::string>(json, "run", where),
          json_get<std::string>(json, "created", where),
          json.contains("elsewhere") ? json_get<std::string>(json, "elsewhere", where) : ""};
}

Json to_json(const Launch& launch) {
  return {{"program", launch.program},
          {"arguments", launch.arguments},
          {"folder", launch.folder},
          {"store", launch.store},
          {"liveness_seconds", launch.liveness_seconds},
          {"hang_seconds", launch.hang_seconds},
          {"grace_seconds", launch.grace_seconds},
          {"earlier_generations", launch.earlier_generations},
          {"start_seconds", launch.start_seconds}};
}

Launch launch_from(const Json& json, const std::string& where) {
  return {json_get<std::string>(json, "program", where),
          json_get<std::vector<std::string>>(json, "arguments", where),
          json_get<std::string>(json, "folder", where),
          json_get<std::string>(json, "store", where),
          json_get<double>(json, "liveness_seconds", where),
          json_get<double>(json, "hang_seconds", where),
          json_get<double>(json, "grace_seconds", where),
          json_get<std::uint64_t>(json, "earlier_generations", where),
          json.contains("start_seconds") ? json_get<double>(json, "start_seconds", where) : Launch().start_seconds};
}

Json to_json(const LedCluster& cluster) {
  return {{"identity", cluster.identity}, {"term", cluster.term},           {"listen", cluster.listen},
          {"relay", cluster.relay},       {"interface", cluster.interface}, {"arguments", cluster.arguments},
          {"agreed", cluster.agreed}};
}

LedCluster cluster_from(const Json& json, const std::string& where) {
  LedCluster cluster{
      json_get<std::string>(json, "identity", where),  json_get<std::uint64_t>(json, "term", where),
      json_get<std::string>(json, "listen", where),    json_get<std::string>(json, "relay", where),
      json_get<std::string>(json, "interface", where), json_get<std::vector<std::string>>(json, "arguments", where)};
  // Records of earlier versions do not say it.
  if (!json.contains("agreed")) return cluster;
  const Json agreed = json_get<Json>(json, "agreed", where);
  for (const auto& entry : agreed.items())
    cluster.agreed.emplace(entry.key(), json_get<std::string>(agreed, entry.key(), where));
  return cluster;
}

Json to_json(const WantedState& wanted) {
  return {{"min_workers", wanted.min_workers},       {"max_workers", wanted.max_workers},
          {"target_workers", wanted.target_workers}, {"stop", wanted.stop},
          {"min_servers", wanted.min_servers},       {"max_servers", wanted.max_servers},
          {"target_servers", wanted.target_servers}};
}

WantedState wanted_from(const Json& json, const std::string& where) {
  WantedState wanted{small_number(json, "min_workers", where), small_number(json, "max_workers", where),
                     small_number(json, "target_workers", where), json_get<bool>(json, "stop", where)};
  // Records of earlier versions do not speak of servers.
  if (!json.contains("target_servers")) return wanted;
  wanted.min_servers = small_number(json, "min_servers", where);
  wanted.max_servers = small_number(json, "max_servers", where);
  wanted.target_servers = small_number(json, "target_servers", where);
  return wanted;
}

Json to_json(const Change& change) {
  Json json{{"number", change.number}, {"assignment", change.assignment}};
  if (change.applied_at_step) json["applied_at_step"] = *change.applied_at_step;
  return json;
}

Change change_from(const Json& json, const std::string& where) {
  Change change{json_get<std::uint64_t>(json, "number", where), json_get<std::string>(json, "assignment", where), {}};
  if (json.contains("applied_at_step"))
    change.applied_at_step = json_get<std::uint64_t>(json, "applied_at_step", where);
  return change;
}

Json to_json(const Membership& membership) {
  Json members = Json::array();
  for (const Worker& member : membership.members)
    members.push_back(worker_json(member));
  return {{"generation", membership.generation}, {"members", members}};
}

Membership membership_from(const Json& json, const std::string& where) {
  Membership membership{.generation = json_get<std::uint64_t>(json, "generation", where)};
  if (!json.contains("members") || !json.at("members").is_array())
    throw Error(ErrorKind::kDamaged, "\"members\" is no list", where);
  for (const Json& entry : json.at("members"))
    membership.members.push_back(worker_from(entry, where));
  return membership;
}

Json to_json(const Standing& standing) {
  return {{"phase", to_string(standing.phase)},
          {"reason", standing.reason},
          {"step", standing.step},
          {"total_steps", standing.total_steps}};
}

Standing standing_from(const Json& json, const std::string& where) {
  return {phase_from(json, where), json_get<std::string>(json, "reason", where),
          json_get<std::uint64_t>(json, "step", where), json_get<std::uint64_t>(json, "total_steps", where)};
}

Json to_json(const Lease& lease) {
  Json json{{"holder", process_json(lease.holder)}, {"epoch", lease.epoch}};
  if (!lease.space.empty()) json["space"] = lease.space;
  if (!lease.host.empty()) json["host"] = lease.host;
  return json;
}

Lease lease_from(const Json& json, const std::string& where) {
  const auto words = [&](const char* name) {
    return json.contains(name) ? json_get<std::string>(json, name, where) : std::string();
  };
  return {process_from(json_get<Json>(json, "holder", where), where), json_get<std::uint64_t>(json, "epoch", where),
          words("space"), words("host")};
}

}  // namespace muster::control
