// The values of a job's record as JSON. Each `_from` throws kDamaged naming `where`.
#pragma once

#include <string>

#include "muster/base/json.h"
#include "muster/control/job_record.h"

namespace muster::control {

Json to_json(const JobIdentity& identity);
Json to_json(const Launch& launch);
Json to_json(const LedCluster& cluster);
Json to_json(const WantedState& wanted);
Json to_json(const Change& change);
Json to_json(const Membership& membership);
Json to_json(const Standing& standing);
Json to_json(const Lease& lease);

JobIdentity identity_from(const Json& json, const std::string& where);
Launch launch_from(const Json& json, const std::string& where);
LedCluster cluster_from(const Json& json, const std::string& where);
WantedState wanted_from(const Json& json, const std::string& where);
Change change_from(const Json& json, const std::string& where);
Membership membership_from(const Json& json, const std::string& where);
Standing standing_from(const Json& json, const std::string& where);
Lease lease_from(const Json& json, const std::string& where);

}  // namespace muster::control
