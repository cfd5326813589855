// What `muster status` prints for people.
#pragma once

#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/control/job_status.h"

namespace muster::cli {

// One line for each job under a line of headings; alarms below.
std::string jobs_table(const std::vector<control::JobStatus>& jobs);

// One job in full: where it stands, its members and what they wait for, alarms. `figures`: the last row of a step in
// its metrics.jsonl; null: there is none.
std::string job_page(const control::JobStatus& status, const Json& figures = {});

}  // namespace muster::cli
