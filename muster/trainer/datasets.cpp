// Opens the sources by the job's keys and cuts off what validates. All workers do the same and get the same samples
// under the same numbers.
#include "muster/trainer/datasets.h"

#include "muster/base/error.h"
#include "muster/data/partition/partition.h"

namespace muster::trainer {

Datasets open_data(const Job& job, const std::shared_ptr<data::PieceDoor>& remote) {
  if (job.is_vertical())
    throw Error(ErrorKind::kInvalidInput, "a party alone has only its own columns", "data.partition",
                "Train with the others: muster federated vertical.");
  data::SourceOptions options = source_options(job);
  options.remote = remote;
  const data::Data source = data::open_source(options);
  Datasets sets{source.train, source.test, source.test, source.description, false, source.bad_samples};
  sets.form = source.form;
  sets.notes = source.notes;
  if (source.validation) {
    sets.validation = source.validation;
    sets.held_out = true;
  }
  sets.tolerant = std::dynamic_pointer_cast<const data::Tolerant>(sets.train);
  return sets;
}

std::shared_ptr<const data::LaneOrder> lane_order(const Job& job, const data::Dataset& train,
                                                  const data::BatchShape& shape) {
  const auto seed = static_cast<std::uint64_t>(job.seed);
  if (job.data.placement != "local") return std::make_shared<data::GlobalOrder>(shape, seed);
  data::LaneShards cut = data::partition_lanes(data::parse_partition(job.data.partition), shape.samples, shape.lanes,
                                               seed, [&] { return data::read_labels(train); });
  return std::make_shared<data::LocalOrder>(std::move(cut.shards), cut.lane_of, shape, seed);
}

std::vector<std::uint64_t> samples_of(const ResolvedJob& resolved, std::uint64_t step, std::size_t lane) {
  const std::shared_ptr<const data::Dataset> train = open_data(resolved.job).train;
  const auto order = lane_order(resolved.job, *train, {train->size(), resolved.batch, resolved.lanes});
  return order->ids(order->plan(order->cursor_at_step(step)), lane);
}

}  // namespace muster::trainer
