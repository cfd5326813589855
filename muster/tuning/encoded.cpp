// Rows of unit numbers: appended while the history only grows, else made again.
// A value that is not in the space (of a trial that somebody added by hand) counts as not active.
#include "muster/tuning/encoded.h"

#include <limits>

namespace muster::tuning {

std::vector<double> encode(const Space& space, const Assignment& values) {
  std::vector<double> row;
  row.reserve(space.size());
  for (const Parameter& parameter : space.parameters()) {
    const Value* const value = values.find(parameter.name);
    row.push_back(value != nullptr && parameter.contains(*value) ? parameter.to_unit(*value)
                                                                 : std::numeric_limits<double>::quiet_NaN());
  }
  return row;
}

void Encoded::update(const History& history) {
  if (history.events() < events_ || history.digest(events_) != digest_) {
    rows_.clear();
    trials_ = 0;
  }
  for (; trials_ < history.size(); ++trials_) {
    const std::vector<double> row = encode(space_, history.at(trials_).values);
    rows_.insert(rows_.end(), row.begin(), row.end());
  }
  events_ = history.events();
  digest_ = history.digest(events_);
}

}  // namespace muster::tuning
