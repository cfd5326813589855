// The order of lanes of a sampling (sampling.h): the program's epochs, cut into steps and lanes as any are.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/base/mutex.h"
#include "muster/data/lane_order.h"
#include "muster/data/sampling.h"

namespace muster::data {

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
