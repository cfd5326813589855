// Which figures the validations of a job have, by name, before anything is trained: so that a misspelt one is found at
// once. No torch here.
#pragma once

#include <string>
#include <vector>

#include "muster/trainer/job.h"

namespace muster::trainer {

// What rows of validations (metrics.jsonl) may tell beside epoch and step, with whatever data. Empty: only a library of
// the user's knows.
std::vector<std::string> validation_figures(const Job& job);

}  // namespace muster::trainer
