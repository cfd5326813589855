// Batches are of nearly equal size, so that none has a gradient of a few rows alone. The first step of a run has no
// checkpoint: it is what the seeds give.
#include "muster/federated/vertical/vertical_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/data/permutation.h"
#include "muster/federated/vertical/set_intersection.h"
#include "muster/federated/vertical/vertical_calls.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kMostEpochs = 1'000'000;
constexpr std::uint64_t kMostCheckpointSteps = 1'000'000'000'000;  // as a job may say

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

std::uint64_t VerticalPlan::epoch_train_steps() const {
  return batches(train_rows, batch);
}

std::uint64_t VerticalPlan::trained_before(std::uint64_t step) const {
  const std::uint64_t trained = batches(train_rows, batch);
  const std::uint64_t whole = trained + batches(test_rows, batch);
  return step / whole * trained + std::min(step % whole, trained);
}

std::uint64_t VerticalPlan::epochs_at(std::uint64_t step) const {
  return batches(step, batches(train_rows, batch) + batches(test_rows, batch));
}

std::string VerticalPlan::words_at(std::uint64_t step) const {
  if (predicts()) return fmt::format("predicts {} rows", test_rows);
  if (step == 0) return fmt::format("trains: {} epochs of {} steps", epochs, epoch_train_steps());
  return fmt::format("goes on after step {} of {}", trained_before(step), epochs * epoch_train_steps());
}

bool VerticalPlan::checkpoint_due(std::uint64_t step) const {
  if (step == 0 || predicts()) return false;
  const std::uint64_t trained = trained_before(step);
  const bool was_training = trained > trained_before(step - 1);
  return step == steps() || (was_training && trained % checkpoint_steps == 0);
}

void VerticalPlan::check(std::uint64_t width) const {
  const std::uint64_t most = std::min(batch, std::max(train_rows, test_rows));
  if ((predicts() && epochs != 1) || test_rows == 0 || train_rows > kMostIds || test_rows > kMostIds || batch == 0 ||
      most > kMostStepFloats / width || epochs == 0 || epochs > kMostEpochs || checkpoint_steps == 0 ||
      checkpoint_steps > kMostCheckpointSteps)
    throw Error(ErrorKind::kDamaged,
                fmt::format("the label holder's plan cannot be: {} epochs of {} and {} rows in batches of {}, {} "
                            "numbers each",
                            epochs, train_rows, test_rows, batch, width),
                "vertical training", "Both sides need the same version of Muster; if they have it, do not trust it.");
}

}  // namespace muster::federated
