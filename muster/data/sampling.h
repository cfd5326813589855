// Sampling: epochs that a program puts together itself, instead of each sample once in a random order: rare classes
// more often, easy samples first. A function of the epoch alone, so that it does not matter who asks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "muster/base/mutex.h"
#include "muster/data/lane_order.h"

namespace muster::data {

struct Sampling {
  std::uint64_t samples = 0;  // in an epoch
  // The samples of the epoch in the order in which they are used, `samples` of them; each may come any number of times.
  // Always the same for the same epoch, in every process; called from any thread.
  std::function<std::vector<std::uint64_t>(std::uint64_t epoch)> ids{};
};

// Draws `samples` samples an epoch, with replacement: i with a probability proportional to weights[i]. Throws
// Error{kInvalidInput} unless weights are finite, not negative and not all zero.
Sampling weighted(std::span<const double> weights, std::uint64_t samples, std::uint64_t seed);

// Data anywhere, in the order of a sampling. Thread safety: any number of threads at once.
class SampledOrder final : public LaneOrder {
 public:
  // `dataset_size`: ids are below it. Throws Error{kInvalidInput} for a sampling of no samples or without a function.
  // REQUIRES: as plan_step.
  SampledOrder(Sampling sampling, std::uint64_t batch, std::uint64_t lanes, std::uint64_t dataset_size);

  StepPlan plan(const Cursor& at) const override { return plan_step(at, shape_); }
  // Throws Error{kInvalidInput} when the function gives another number of samples, or one that is not there.
  std::vector<std::uint64_t> ids(const StepPlan& plan, std::size_t lane) const override;
  std::uint64_t steps_per_epoch() const override { return data::steps_per_epoch(shape_); }
  Cursor cursor_at_step(std::uint64_t step) const override { return data::cursor_at_step(step, shape_); }

 private:
  struct Epoch {
    std::uint64_t number = 0;
    std::vector<std::uint64_t> ids;
  };
  std::vector<std::uint64_t> make(std::uint64_t epoch) const;

  const Sampling sampling_;
  const BatchShape shape_;
  const std::uint64_t dataset_size_;
  // The last two that somebody asked for: reading ahead goes over the end of an epoch.
  mutable Mutex mutex_;
  mutable std::vector<Epoch> epochs_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::data
