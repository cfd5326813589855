// Roles of those who call a job over a network, and what each of them may do: one table, asked for every call.
//
// A role is given by a certificate (certificates.h) or by a token (credentials.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::control {

enum class CallerRole {
  kCoordinator,  // decides on hosts; what is one may do all that agents and users may
  kAgent,        // of a host: joins, reports, keeps what workers put into the store
  kUser,         // commands: scale, stop, set
  kReader,       // looks
  kClient,       // of federated training: takes part in rounds; its name is its identity
};

constexpr CallerRole kCallerRoles[] = {CallerRole::kCoordinator, CallerRole::kAgent, CallerRole::kUser,
                                       CallerRole::kReader, CallerRole::kClient};

std::string_view to_string(CallerRole role);
std::optional<CallerRole> caller_role_named(std::string_view name);

struct CallVerdict {
  bool allowed = false;
  bool noted = false;  // worth a line of its own in the audit: it changes something, and is not called all the time
  std::string reason;  // why not
};

// Of the methods of proto/control.proto, cluster.proto, shards.proto, parameter_server.proto (between hosts) and
// federated.proto, by their names ("Stop"). A call that the table does not have is allowed to nobody.
CallVerdict judge_call(CallerRole role, std::string_view call);

// Every call that the table has.
std::vector<std::string> known_calls();

}  // namespace muster::control
