// Batches are of nearly equal size, so that none has a gradient of a few rows alone. The first step of a run has no
// checkpoint: it is what the seeds give.
#include "muster/federated/vertical/vertical_plan.h"

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/data/permutation.h"
#include "muster/federated/vertical/set_intersection.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kMostEpochs = 1'000'000'000;  // as many as a job may ask for
constexpr std::uint64_t kMostBatch = 1'000'000'000;

std::uint64_t batches(std::uint64_t rows, std::uint64_t batch) {
  return (rows + batch - 1) / batch;
}

}  // namespace

std::uint64_t VerticalPlan::steps() const {
  return epochs * (batches(train_rows, batch) + batches(test_rows, batch));
}

VerticalPlan::Place VerticalPlan::at(std::uint64_t step) const {
  MUSTER_CHECK(step < steps(), "a step of the plan");
  const std::uint64_t trained = batches(train_rows, batch);
  const std::uint64_t tested = batches(test_rows, batch);
  const std::uint64_t within = step % (trained + tested);
  Place place{
      .epoch = step / (trained + tested), .train = within < trained, .ends_epoch = within + 1 == trained + tested};
  if (place.train) {
    const data::Permutation order(train_rows, seed, place.epoch);
    place.rows = order.range(within * train_rows / trained, (within + 1) * train_rows / trained);
    return place;
  }
  const std::uint64_t piece = within - trained;
  for (std::uint64_t i = piece * test_rows / tested; i < (piece + 1) * test_rows / tested; ++i)
    place.rows.push_back(train_rows + i);
  return place;
}

bool VerticalPlan::checkpoint_due(std::uint64_t step) const {
  return step > 0 && (step % checkpoint_steps == 0 || step == steps());
}

void VerticalPlan::check() const {
  if (train_rows == 0 || test_rows == 0 || train_rows > kMostIds || test_rows > kMostIds || batch == 0 ||
      batch > kMostBatch || epochs == 0 || epochs > kMostEpochs || checkpoint_steps == 0)
    throw Error(ErrorKind::kDamaged, "the label holder's plan cannot be", "vertical training",
                "Both sides need the same version of Muster.");
}

}  // namespace muster::federated
