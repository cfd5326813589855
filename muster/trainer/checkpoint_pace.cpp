// Means over the last steps and checkpoints: what steps took longer while one was being written is its cost. This only
// counts; checkpoint_interval.cpp decides.
#include "muster/trainer/checkpoint_pace.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::trainer {
namespace {

constexpr std::size_t kUsualSteps = 64;
constexpr std::size_t kCosts = 8;

}  // namespace

CheckpointPace::CheckpointPace(const IntervalLimits& limits) : limits_(limits) {
  decide();
}

void CheckpointPace::step_done(double seconds, bool writing) {
  trained_ += seconds;
  since_saved_ += seconds;
  if (saving_) {
    if (!usual_steps_.empty()) slower_ += seconds - usual_sum_ / static_cast<double>(usual_steps_.size());
    if (writing) return;
    saving_ = false;
    costs_.push_back(blocked_ + std::max(slower_, 0.0));  // below 0: steps that happened to be fast
    if (costs_.size() > kCosts) costs_.pop_front();
    decide();
    return;
  }
  usual_steps_.push_back(seconds);
  usual_sum_ += seconds;
  if (usual_steps_.size() > kUsualSteps) {
    usual_sum_ -= usual_steps_.front();
    usual_steps_.pop_front();
  }
}

void CheckpointPace::saved(double blocked_seconds) {
  // One that comes while another is being written (the best, the end of an epoch) belongs to the same disturbance.
  if (!saving_) blocked_ = slower_ = 0;
  blocked_ += blocked_seconds;
  saving_ = true;
  since_saved_ = 0;
}

void CheckpointPace::failed() {
  ++failures_;
  decide();
}

void CheckpointPace::decide() {
  IntervalInputs inputs;
  if (!costs_.empty())
    inputs.cost_seconds = std::accumulate(costs_.begin(), costs_.end(), 0.0) / static_cast<double>(costs_.size());
  if (!usual_steps_.empty()) inputs.step_seconds = usual_sum_ / static_cast<double>(usual_steps_.size());
  inputs.trained_seconds = trained_;
  inputs.failures = failures_;
  decision_ = choose_interval(inputs, limits_);
}

std::optional<std::string> CheckpointPace::news() {
  constexpr double kWorthTelling = 0.2;
  if (std::abs(decision_.seconds - told_) <= kWorthTelling * told_) return std::nullopt;
  told_ = decision_.seconds;
  return decision_.reason;
}

Json CheckpointPace::to_json() const {
  return {{"trained_seconds", trained_}, {"failures", failures_}};
}

void CheckpointPace::take(const Json& json, const std::string& where) {
  trained_ = json_get<double>(json, "trained_seconds", where);
  failures_ = json_get<std::uint64_t>(json, "failures", where);
  decide();
}

}  // namespace muster::trainer
