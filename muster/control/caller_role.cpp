// The table of who may call what. A new call of proto/ gets a row here, or nobody can call it from another host; the
// test of this table compares it with the services' own lists.
#include "muster/control/caller_role.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::control {
namespace {

struct CallRow {
  std::string_view call;
  bool agent = false;
  bool user = false;
  bool reader = false;
  bool client = false;
  bool noted = false;
};

constexpr std::array kCallRows = {
    // Agents look too, for the people on their hosts; commands are for people who have a certificate or token of
    // theirs.
    CallRow{.call = "Status", .agent = true, .user = true, .reader = true},
    CallRow{.call = "Scale", .user = true, .noted = true},
    CallRow{.call = "Stop", .user = true, .noted = true},
    CallRow{.call = "Set", .user = true, .noted = true},
    CallRow{.call = "Join", .agent = true, .noted = true},
    CallRow{.call = "Report", .agent = true},
    CallRow{.call = "StoreSet", .agent = true},
    CallRow{.call = "StoreGet", .agent = true},
    CallRow{.call = "Leave", .agent = true, .noted = true},
    // Commands of the user whose agent it is, typed on its host: the agent has seen whose they are. It runs what the
    // coordinator tells it, so whoever holds its certificate can do as much to the job anyway.
    CallRow{.call = "HostStatus", .agent = true},
    CallRow{.call = "HostScale", .agent = true, .noted = true},
    CallRow{.call = "HostStop", .agent = true, .noted = true},
    CallRow{.call = "HostSet", .agent = true, .noted = true},
    // Between hosts: the data that a job trains on.
    CallRow{.call = "Catalog", .agent = true, .noted = true},
    CallRow{.call = "ReadShard", .agent = true},
    // Between workers and parameter servers: one stream, which is noted once.
    CallRow{.call = "Calls", .agent = true, .noted = true},
    // Federated training: for clients alone, who are counted by their names.
    CallRow{.call = "Enrol", .client = true, .noted = true},
    CallRow{.call = "NextTask", .client = true},
    CallRow{.call = "ReadModel", .client = true},
    CallRow{.call = "SendUpdate", .client = true},
    CallRow{.call = "SecureStep", .client = true},
    CallRow{.call = "ListModels", .client = true},
    // Vertical: with the label holder, for parties that have columns.
    CallRow{.call = "Meet", .client = true},
    CallRow{.call = "ReadPoints", .client = true},
    CallRow{.call = "SendPoints", .client = true},
    CallRow{.call = "ReadPlaces", .client = true},
    CallRow{.call = "Exchange", .client = true},
    CallRow{.call = "GiveUp", .client = true},
};

bool allows(const CallRow& row, CallerRole role) {
  switch (role) {
    case CallerRole::kCoordinator:
      return row.agent || row.user;
    case CallerRole::kAgent:
      return row.agent;
    case CallerRole::kUser:
      return row.user;
    case CallerRole::kReader:
      return row.reader;
    case CallerRole::kClient:
      return row.client;
  }
  return false;
}

}  // namespace

std::string_view to_string(CallerRole role) {
  switch (role) {
    case CallerRole::kCoordinator:
      return "coordinator";
    case CallerRole::kAgent:
      return "agent";
    case CallerRole::kUser:
      return "user";
    case CallerRole::kReader:
      return "reader";
    case CallerRole::kClient:
      return "client";
  }
  return "nobody";
}

std::optional<CallerRole> caller_role_named(std::string_view name) {
  for (const CallerRole role : kCallerRoles)
    if (to_string(role) == name) return role;
  return std::nullopt;
}

CallVerdict judge_call(CallerRole role, std::string_view call) {
  const auto* const row = std::ranges::find(kCallRows, call, &CallRow::call);
  if (row == kCallRows.end()) return {false, false, fmt::format("no call \"{}\" is known", excerpt(call, 40))};
  if (allows(*row, role)) return {true, row->noted, {}};
  return {false, row->noted, fmt::format("{} is not for the role \"{}\"", call, to_string(role))};
}

std::vector<std::string> known_calls() {
  std::vector<std::string> calls;
  for (const CallRow& row : kCallRows)
    calls.emplace_back(row.call);
  return calls;
}

}  // namespace muster::control
