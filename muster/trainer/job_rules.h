// Keys of a job file that mean something only beside others. A key that would do nothing is refused: whoever wrote it
// believes in it. No torch here.
#pragma once

#include "muster/base/config.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

// Throws Error{kInvalidInput} that names the place, the key and what to change. REQUIRES: `schema` is bound to `job`,
// whose model has its name and whose strategy was checked and whose data.augment can be read.
void check_rules(const Schema& schema, const Job& job);

// The same of [vertical], and of what vertical training does not look at; of any job.
void check_vertical(const Schema& schema, const Job& job);

}  // namespace muster::trainer
