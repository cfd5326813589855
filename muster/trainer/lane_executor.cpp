// Every lane starts from the committed parameters and buffers and from its own random numbers, so it does not matter
// what was computed before it, or where.
#include "muster/trainer/lane_executor.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/trainer/batch_tensors.h"
#include "muster/trainer/compute_error.h"

namespace muster::trainer {

void Lane::backward(const torch::Tensor& loss, const Backward& how) {
  if (!loss.defined() || loss.numel() != 1) {
    throw Error(ErrorKind::kInvalidInput, "backward() needs one number, the mean loss of the lane", {},
                "Reduce the loss with mean().");
  }
  if (has_backward_ && start_.single_backward) {
    throw Error(
        ErrorKind::kInvalidInput, "a second backward() of a lane whose gradients are being summed", {},
        "Add the parts of the loss and call backward() once, or set parallel.exchange_early = false (shared_sync) "
        "or parallel.overlap = false (all_reduce).");
  }
  std::vector<torch::Tensor> inputs;
  for (const std::string& part : how.parts) {
    if (start_.parts == nullptr)
      throw Error(ErrorKind::kInvalidInput, "backward() of a lane that is only measured", {},
                  "Train in session.step().");
    const std::vector<torch::Tensor> of_part = start_.parts->trainable(part);
    inputs.insert(inputs.end(), of_part.begin(), of_part.end());
  }
  if (!how.parts.empty() && inputs.empty())
    throw Error(ErrorKind::kInvalidInput, fmt::format("nothing trains in part {}", how.parts.front()), {},
                "Give it an optimizer, or name another part.");
  try {
    told_.report.loss_sum += loss.item<double>() * start_.samples;
    // The weight enters as the seed of backward: gradients come out weighted at no cost, and with one lane untouched.
    const torch::Tensor weight = torch::full_like(loss, start_.weight);
    if (inputs.empty())
      loss.backward(weight, how.retain_graph);
    else
      loss.backward(weight, how.retain_graph, /*create_graph=*/false, at::TensorList(inputs));
  } catch (const c10::Error& error) {
    throw compute_error(error, *this);
  }
  has_backward_ = true;
}

void Lane::report(std::string_view name, double value) {
  if (!start_.carries_figures)
    throw Error(ErrorKind::kUnsupported, fmt::format("parameter servers do not carry the figure \"{}\"", name), {},
                "Use another strategy, or print it.");
  told_.report.figures.add(name, value, start_.samples);
}

Error compute_error(const c10::Error& error, const Lane& lane) {
  return {ErrorKind::kCompute, error.what_without_backtrace(), fmt::format("step {}, lane {}", lane.step, lane.index)};
}

Lane& LocalExecutor::begin(LaneTask task) {
  const data::StepPlan& plan = task.plan;
  batch_ = std::move(task.batch);
  buffers_ = task.buffers;
  area_ = task.area;
  lane_ = Lane({.weight = plan.weight(task.index),
                .samples = static_cast<double>(batch_.size()),
                .single_backward = static_cast<bool>(task.ready),
                .carries_figures = model_.carries_figures,
                .parts = model_.parts});
  lane_.index = task.index;
  lane_.repeated = task.repeated;
  lane_.epoch = plan.at.epoch;
  lane_.step = plan.at.step;
  lane_.ids = batch_.ids;
  lane_.data = input_tensor(batch_);
  lane_.target = target_tensor(batch_);
  model_.binding.write_buffers(buffers_);
  model_.binding.begin_lane(area_, std::move(task.ready));
  torch::manual_seed(derive_seed({.seed = model_.seed,
                                  .purpose = Purpose::kLane,
                                  .epoch = plan.at.epoch,
                                  .step = plan.at.step,
                                  .lane = task.index}));
  active_ = true;
  return lane_;
}

data::Batch LocalExecutor::finish() {
  active_ = false;
  if (!lane_.has_backward()) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("lane {} of step {} ended without backward()", lane_.index, lane_.step), {},
                "Call lane.backward(loss) in every turn of the loop.");
  }
  model_.binding.collect();
  refuse_gradients_of_frozen();
  read_buffers();
  lane_.data = torch::Tensor();
  lane_.target = torch::Tensor();
  return std::move(batch_);
}

void LocalExecutor::abandon() {
  model_.binding.abandon_lane();
  active_ = false;
}

// What the lane made of the buffers; frozen ones are as they were committed.
void LocalExecutor::read_buffers() {
  model_.binding.read_buffers(area_.buffers);
  for (const compute::BufferSlot& slot : model_.binding.buffer_layout().slots) {
    if (!model_.frozen.holds(slot.name)) continue;
    const auto kept = buffers_.subspan(slot.offset, slot.bytes);
    std::copy(kept.begin(), kept.end(), area_.buffers.begin() + static_cast<std::ptrdiff_t>(slot.offset));
  }
}

void LocalExecutor::refuse_gradients_of_frozen() const {
  for (std::size_t tensor = 0; tensor < area_.present.size(); ++tensor) {
    if (area_.present[tensor] == 0 || model_.rules[tensor].trainable) continue;
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("parameter {} has a gradient, although SessionOptions::tuning freezes it for the whole job "
                            "or its part has no optimizer",
                            model_.binding.layout().tensors()[tensor].name),
                {},
                "Leave its requires_grad alone, say in tuning.unfreeze from which epoch on it trains, or give its part "
                "an optimizer.");
  }
}

}  // namespace muster::trainer
