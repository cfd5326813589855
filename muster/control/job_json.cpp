#include "muster/control/job_json.h"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::control {
namespace {

constexpr std::array kMemberStates{MemberState::kStarting, MemberState::kRunning, MemberState::kLost,
                                   MemberState::kQuarantined, MemberState::kDone};
constexpr std::array kPhases{JobPhase::kStarting, JobPhase::kRunning, JobPhase::kStopping,
                             JobPhase::kFinished, JobPhase::kStopped, JobPhase::kFailed};

int small_number(const Json& json, const std::string& name, const std::string& where) {
  const auto value = json_get<std::int64_t>(json, name, where);
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorKind::kDamaged, fmt::format("\"{}\" is {}", name, value), where);
  return static_cast<int>(value);
}

// The enumerator with the name that stands in `json`.
template <typename Values>
auto named(const Values& values, const Json& json, const std::string& name, const std::string& where) {
  const auto text = json_get<std::string>(json, name, where);
  for (const auto value : values)
    if (to_string(value) == text) return value;
  throw Error(ErrorKind::kDamaged, fmt::format("\"{}\" has a value that this version does not know", name), where);
}

Json process_json(const ProcessId& process) {
  return {{"pid", process.pid}, {"start_time", process.start_time}};
}

ProcessId process_from(const Json& json, const std::string& where) {
  return {small_number(json, "pid", where), json_get<std::uint64_t>(json, "start_time", where)};
}

}  // namespace

std::string_view to_string(MemberState state) {
  switch (state) {
    case MemberState::kStarting:
      return "starting";
    case MemberState::kRunning:
      return "running";
    case MemberState::kLost:
      return "lost";
    case MemberState::kQuarantined:
      return "quarantined";
    case MemberState::kDone:
      return "done";
  }
  MUSTER_CHECK(false, "a MemberState without a name");
}

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
  return {{"name", identity.name}, {"run", identity.run}, {"created", identity.created}};
}

JobIdentity identity_from(const Json& json, const std::string& where) {
  return {json_get<std::string>(json, "name", where), json_get<std::string>(json, "run", where),
          json_get<std::string>(json, "created", where)};
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
  for (const Member& member : membership.members)
    members.push_back({{"rank", member.rank},
                       {"process", process_json(member.process)},
                       {"restarts", member.restarts},
                       {"state", to_string(member.state)}});
  Json arenas = Json::array();
  for (const auto& [rank, address] : membership.arenas)
    arenas.push_back({{"rank", rank}, {"address", address}});
  return {{"generation", membership.generation}, {"members", members}, {"arenas", arenas}};
}

Membership membership_from(const Json& json, const std::string& where) {
  Membership membership{.generation = json_get<std::uint64_t>(json, "generation", where)};
  for (const char* list : {"members", "arenas"})
    if (!json.contains(list) || !json.at(list).is_array())
      throw Error(ErrorKind::kDamaged, fmt::format("\"{}\" is no list", list), where);
  for (const Json& entry : json.at("members"))
    membership.members.push_back({small_number(entry, "rank", where),
                                  process_from(json_get<Json>(entry, "process", where), where),
                                  small_number(entry, "restarts", where), named(kMemberStates, entry, "state", where)});
  for (const Json& entry : json.at("arenas"))
    membership.arenas[small_number(entry, "rank", where)] = json_get<std::string>(entry, "address", where);
  return membership;
}

Json to_json(const Standing& standing) {
  return {{"phase", to_string(standing.phase)},
          {"reason", standing.reason},
          {"step", standing.step},
          {"total_steps", standing.total_steps}};
}

Standing standing_from(const Json& json, const std::string& where) {
  return {named(kPhases, json, "phase", where), json_get<std::string>(json, "reason", where),
          json_get<std::uint64_t>(json, "step", where), json_get<std::uint64_t>(json, "total_steps", where)};
}

Json to_json(const Lease& lease) {
  return {{"holder", process_json(lease.holder)}, {"epoch", lease.epoch}};
}

Lease lease_from(const Json& json, const std::string& where) {
  return {process_from(json_get<Json>(json, "holder", where), where), json_get<std::uint64_t>(json, "epoch", where)};
}

}  // namespace muster::control
