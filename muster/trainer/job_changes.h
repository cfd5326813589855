// Which keys of a job may change while it runs, and whether a change is one that the job could have been started with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::trainer {

// "section.key", sorted.
const std::vector<std::string>& changeable_keys();

// Throws kInvalidInput when `assignment` ("optimizer.lr=0.01") is no key=value, names a key that is fixed for a run
// (with the reason), or would make the job, as `job_text` and `earlier` changes say it, one that is refused.
void check_change(std::string_view job_text, const std::vector<std::string>& earlier, const std::string& assignment);

}  // namespace muster::trainer
