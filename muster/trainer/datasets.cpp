#include "muster/trainer/datasets.h"

#include "muster/data/lane_plan.h"
#include "muster/data/permutation.h"
#include "muster/data/subset.h"

namespace muster::trainer {

Datasets open_data(const Job& job) {
  const data::Data source = data::open_source(source_options(job));
  Datasets sets{source.train, source.test, source.test, source.description, false, source.bad_samples};
  if (source.validation) {
    sets.validation = source.validation;
    sets.held_out = true;
  } else if (job.data.validation > 0) {
    const auto parts = data::split(source.train, job.data.validation, static_cast<std::uint64_t>(job.seed));
    sets.train = parts.train;
    sets.validation = parts.validation;
    sets.held_out = true;
  }
  return sets;
}

std::vector<std::uint64_t> samples_of(const ResolvedJob& resolved, std::uint64_t step, std::size_t lane) {
  const data::BatchShape shape{open_data(resolved.job).train->size(), resolved.batch, resolved.lanes};
  const data::StepPlan plan = data::plan_step(data::cursor_at_step(step, shape), shape);
  const data::Permutation order(shape.samples, static_cast<std::uint64_t>(resolved.job.seed), plan.at.epoch);
  return order.range(plan.lanes.at(lane).begin, plan.lanes.at(lane).end);
}

}  // namespace muster::trainer
