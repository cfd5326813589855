// For those who give a key of the job as a flag, or a command by a name that it had once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

// What to write instead of the first flag among `arguments` that is named like a key of a job; empty when there is none
// or when the command takes no --set.
std::string flag_hint(const std::vector<std::string>& arguments);

// What to write instead of a command that has another name now; empty for any other word.
std::string renamed_command_hint(std::string_view word);

}  // namespace muster::cli
