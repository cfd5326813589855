// For those who give a key of the job as a flag.
#pragma once

#include <string>
#include <vector>

namespace muster::cli {

// What to write instead of the first flag among `arguments` that is named like a key of a job; empty when there is none
// or when the command takes no --set.
std::string flag_hint(const std::vector<std::string>& arguments);

}  // namespace muster::cli
