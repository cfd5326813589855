// The JSON that `muster status --json` prints:
// names here are an interface for scripts, and only grow.
#include "muster/control/job_status.h"

namespace muster::control {

Json to_json(const JobStatus& status) {
  Json members = Json::array();
  for (const Worker& member : status.members) {
    Json row{{"rank", member.rank},         {"pid", member.process.pid},     {"state", to_string(member.state)},
             {"restarts", member.restarts}, {"waits_for", member.waits_for}, {"seconds", member.seconds}};
    row["lane"] = member.lane ? Json(*member.lane) : Json();
    row["step"] = member.step ? Json(*member.step) : Json();
    if (!member.stage.empty()) row["stage"] = member.stage;
    members.push_back(row);
  }
  Json hosts = Json::array();
  for (const HostStatus& host : status.hosts) {
    hosts.push_back({{"number", host.number},
                     {"name", host.name},
                     {"workers", host.workers},
                     {"first_lane", host.first_lane},
                     {"last_lane", host.last_lane},
                     {"step", host.step},
                     {"silent_seconds", host.silent_seconds},
                     {"folder", host.place},
                     {"checkpoint", host.checkpoint ? Json(*host.checkpoint) : Json()},
                     {"alarm", host.alarm}});
  }
  Json changes = Json::array();
  for (const Change& change : status.changes) {
    changes.push_back({{"number", change.number},
                       {"assignment", change.assignment},
                       {"step", change.applied_at_step ? Json(*change.applied_at_step) : Json()}});
  }
  Json json{{"job", status.job},
            {"run", status.run},
            {"state", status.state},
            {"reason", status.reason},
            {"generation", status.generation},
            {"step", status.step},
            {"total_steps", status.total_steps},
            {"epoch", status.epoch},
            {"samples_per_second", status.samples_per_second},
            {"workers", {{"min", status.min_workers}, {"max", status.max_workers}, {"target", status.target_workers}}},
            {"members", members},
            {"changes", changes},
            {"alarms", status.alarms},
            {"coordinator", {{"pid", status.coordinator_pid}, {"live", status.live}}}};
  if (!status.hosts.empty()) {
    json["hosts"] = hosts;
    json["job_generation"] = status.job_generation;
    json["coordinator"]["host"] = status.coordinator_host;
  }
  if (!status.started.empty()) json["started"] = status.started;
  if (status.max_servers > 0) {
    json["servers"] = {{"min", status.min_servers},
                       {"max", status.max_servers},
                       {"target", status.target_servers},
                       {"serving", status.servers},
                       {"leaving", status.leaving_servers}};
  }
  return json;
}

}  // namespace muster::control
