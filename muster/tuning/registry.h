// The searchers and schedulers there are. A new one is a file and a line in registry.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/tuning/choice.h"

namespace muster::tuning {

// Each with its default options; the first one is what is used where nobody chooses.
std::vector<SearcherChoice> all_searchers();
std::vector<SchedulerChoice> all_schedulers();

std::vector<std::string> searcher_names();
std::vector<std::string> scheduler_names();
// With its default options. Throws Error{kInvalidInput} for an unknown name, with the nearest one.
SearcherChoice searcher_named(std::string_view name);
SchedulerChoice scheduler_named(std::string_view name);

}  // namespace muster::tuning
