// Loader threads report here at once, so one mutex guards count and examples; the limit is judged at the moment of the
// report, by whoever reaches it.
#include "muster/data/bad_samples.h"

#include <fmt/format.h>

namespace muster::data {

void BadSamples::report(const Error& error) {
  if (!skipping()) {
    throw Error(error.kind(), error.message(), error.where(),
                error.remedy().empty() ? "Repair it, or set data.on_bad_sample = \"skip\"." : error.remedy());
  }
  const MutexLock lock(mutex_);
  ++count_;
  if (examples_.size() < options_.examples) examples_.push_back(fmt::format("{}: {}", error.where(), error.message()));
  if (count_ > options_.limit) {
    throw Error(ErrorKind::kDamaged,
                fmt::format("{} samples are bad, which is more than data.bad_sample_limit allows; the last one: {}",
                            count_, error.message()),
                error.where(), "Repair the data, or raise data.bad_sample_limit.");
  }
}

std::uint64_t BadSamples::count() const {
  const MutexLock lock(mutex_);
  return count_;
}

std::vector<std::string> BadSamples::examples() const {
  const MutexLock lock(mutex_);
  return examples_;
}

}  // namespace muster::data
