// A session's steps on tensors that the program makes itself: their rows are dealt out to lanes as the samples of a
// data set are, so everything behind a lane, recovery too, is the same.
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/numbered.h"
#include "muster/data/sampled_order.h"
#include "muster/trainer/session_core.h"

namespace muster::trainer {

// Tensors of one step are an epoch, their rows its samples, in order.
void SessionCore::use_rows() {
  if (feed_ && rows_) return;
  if (feed_)
    throw Error(ErrorKind::kInvalidInput, "the session trains on a data set, and not on tensors", "session",
                "Make a session for each.");
  if (options_.sampling || parts_.order)
    throw Error(ErrorKind::kInvalidInput, "of tensors all rows are used, in order", "SessionOptions::sampling",
                "Leave it out.");
  if (cursor_.position != 0)
    throw Error(ErrorKind::kMismatch, "the session goes on inside of a data set's epoch, and not with tensors",
                "session", "Resume a checkpoint of a session that was trained on tensors.");
  const auto in_order = [rows = options_.batch](std::uint64_t) {
    std::vector<std::uint64_t> ids(rows);
    std::iota(ids.begin(), ids.end(), std::uint64_t{0});
    return ids;
  };
  std::shared_ptr<const data::Dataset> rows = data::numbered(options_.batch);
  feed_from(rows, std::make_shared<data::SampledOrder>(data::Sampling{options_.batch, in_order}, options_.batch, lanes_,
                                                       options_.batch));
  rows_ = std::move(rows);
}

void SessionCore::check_rows(const std::vector<torch::Tensor>& tensors) const {
  if (tensors.empty()) throw Error(ErrorKind::kInvalidInput, "a step without tensors", "session");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || tensors[i].dim() == 0)
      throw Error(ErrorKind::kInvalidInput, fmt::format("tensor {} of the step has no rows", i), "session");
    if (tensors[i].size(0) != static_cast<std::int64_t>(options_.batch))
      throw Error(
          ErrorKind::kInvalidInput,
          fmt::format("tensor {} of the step has {} rows, and the batch is {}", i, tensors[i].size(0), options_.batch),
          "session", "Give a row for each sample, or set SessionOptions::batch.");
  }
}

void SessionCore::meet_for_tensors() {
  use_rows();
  meet();
}

strategies::StepOutcome SessionCore::step(const std::vector<torch::Tensor>& tensors,
                                          const std::function<void(Lane&)>& compute) {
  check_rows(tensors);
  const std::uint64_t made_at = cursor_.step;
  meet_for_tensors();
  if (cursor_.step != made_at)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("the others have committed {} steps, and these tensors were made before {}", cursor_.step,
                            made_at + 1),
                "session", "Call session.meet() before the first tensors are made.");
  const auto of_rows = [&](Lane& lane) {
    lane.tensors.clear();
    for (const torch::Tensor& tensor : tensors)
      lane.tensors.push_back(
          tensor.narrow(0, static_cast<std::int64_t>(lane.ids.front()), static_cast<std::int64_t>(lane.ids.size())));
    compute(lane);
  };
  train_until(made_at + 1, rows_, of_rows);
  return last_outcome();
}

}  // namespace muster::trainer
