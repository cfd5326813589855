// Walks on from a damaged sample to the next good one. The damaged are remembered under a mutex, so that each is
// reported once however many threads meet it.
#include "muster/data/tolerant.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::data {

Tolerant::Tolerant(std::shared_ptr<const Dataset> dataset, std::shared_ptr<BadSamples> bad)
    : dataset_(std::move(dataset)), bad_(std::move(bad)) {
}

template <typename Read>
void Tolerant::read_first_good(std::uint64_t id, const Read& read) const {
  const std::uint64_t size = dataset_->size();
  for (std::uint64_t tried = 0; tried < size; ++tried) {
    const std::uint64_t candidate = id < size - tried ? id + tried : id - (size - tried);
    try {
      return read(candidate);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kDamaged) throw;
      bool first = false;
      {
        const MutexLock lock(mutex_);
        first = reported_.insert(candidate).second;
      }
      if (first) bad_->report(error);
    }
  }
  throw Error(ErrorKind::kDamaged, fmt::format("none of the {} samples can be read", size));
}

std::int64_t Tolerant::read(std::uint64_t id, std::span<float> features) const {
  std::int64_t label = 0;
  read_first_good(id, [&](std::uint64_t candidate) { label = dataset_->read(candidate, features); });
  return label;
}

std::int64_t Tolerant::read_in_epoch(std::uint64_t id, std::uint64_t epoch, std::span<float> features) const {
  std::int64_t label = 0;
  read_first_good(id, [&](std::uint64_t candidate) { label = dataset_->read_in_epoch(candidate, epoch, features); });
  return label;
}

void Tolerant::read_sample(std::uint64_t id, const SampleRoom& room) const {
  read_first_good(id, [&](std::uint64_t candidate) { dataset_->read_sample(candidate, room); });
}

std::vector<std::uint64_t> Tolerant::damaged(std::span<const std::uint64_t> ids) const {
  std::vector<std::uint64_t> found;
  const MutexLock lock(mutex_);
  if (reported_.empty()) return found;
  for (const std::uint64_t id : ids) {  // no algorithm: the analysis of locks does not see into lambdas
    if (reported_.contains(id)) found.push_back(id);
  }
  return found;
}

}  // namespace muster::data
