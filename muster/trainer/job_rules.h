// Keys of a job file that mean something only beside others. A key that would do nothing is refused: whoever wrote it
// believes in it. No torch here.
#pragma once

#include <string_view>

#include "muster/base/config.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

// Whether somebody gave "section.key" a value, be it the default. Empty texts and arrays are none; in a resolved job,
// which names every key, only what differs from the default counts, and so it does in --set.
bool chosen(const Schema& schema, std::string_view key);

// Throws Error{kInvalidInput} that names the place, the key and what to change. REQUIRES: `schema` is bound to `job`,
// whose model has its name and whose parallel.consistency and data.augment can be read.
void check_rules(const Schema& schema, const Job& job);

}  // namespace muster::trainer
