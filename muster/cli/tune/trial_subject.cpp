// What both kinds of trials have in common: where they lie, and how figures are found in a row.
// A figure that is null in a row was not a number when it was written.
#include "muster/cli/tune/trial_subject.h"

#include <limits>

#include "muster/tuning/study_log.h"

namespace muster::cli {

std::filesystem::path TrialSubject::folder(std::uint64_t number) const {
  return study_ / "trials" / tuning::trial_name(number);
}

std::vector<std::string> lacking_in(const Json& row, const std::vector<tuning::Objective>& objectives) {
  std::vector<std::string> names;
  for (const tuning::Objective& objective : objectives) {
    const auto found = row.find(objective.metric);
    if (found == row.end() || !(found->is_number() || found->is_null())) names.push_back(objective.metric);
  }
  return names;
}

std::optional<std::vector<double>> objectives_in(const Json& row, const std::vector<tuning::Objective>& objectives) {
  if (!lacking_in(row, objectives).empty()) return std::nullopt;
  std::vector<double> values;
  for (const tuning::Objective& objective : objectives) {
    const auto found = row.find(objective.metric);
    values.push_back(found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>());
  }
  return values;
}

}  // namespace muster::cli
