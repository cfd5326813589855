// The face of a session: every call goes to its core, so that what programs compile against stays small and does not
// change with what is behind it.
#include "muster/trainer/session.h"

#include <utility>

#include "muster/trainer/session_core.h"

namespace muster::trainer {

Session::Session(std::shared_ptr<torch::nn::Module> module, const compute::OptimizerOptions& optimizer,
                 const SessionOptions& options)
    : core_(std::make_unique<SessionCore>(std::move(module), optimizer, options)) {
}
Session::Session(std::vector<ModelPart> parts, const SessionOptions& options)
    : core_(std::make_unique<SessionCore>(ModelParts(std::move(parts)), options)) {
}
Session::Session(std::unique_ptr<SessionCore> core) : core_(std::move(core)) {
}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session::LaneRange Session::lanes(std::shared_ptr<const data::Dataset> dataset) {
  core_->require_going_on();
  core_->use(dataset);
  core_->abandon();
  return {this, std::move(dataset)};
}

Session::LaneRange Session::lanes(const data::Dataset& dataset) {
  if (core_->feed() && core_->feed()->dataset().get() == &dataset) return lanes(core_->feed()->dataset());
  return lanes(std::shared_ptr<const data::Dataset>(std::shared_ptr<void>(), &dataset));
}

Lane* Session::next_lane(const std::shared_ptr<const data::Dataset>& dataset) {
  return core_->next_lane(dataset);
}

strategies::StepOutcome Session::step(const std::shared_ptr<const data::Dataset>& dataset,
                                      const LaneFunction& compute) {
  core_->require_going_on();
  return core_->step_through_losses(dataset, compute);
}

strategies::StepOutcome Session::step(const std::vector<torch::Tensor>& tensors, const LaneFunction& compute) {
  core_->require_going_on();
  return core_->step(tensors, compute);
}

void Session::train_until(std::uint64_t step, const std::shared_ptr<const data::Dataset>& dataset,
                          const LaneFunction& compute) {
  core_->require_going_on();
  core_->train_until(step, dataset, compute);
}

void Session::meet(const std::shared_ptr<const data::Dataset>& dataset) {
  core_->meet(dataset);
}
void Session::meet() {
  core_->meet_for_tensors();
}
strategies::Members Session::members() const {
  return core_->members();
}
std::optional<Evaluation> Session::evaluate(const ForwardFunction& forward,
                                            const std::shared_ptr<const data::Dataset>& dataset,
                                            EvaluationOptions options) {
  return core_->evaluate(forward, dataset, std::move(options));
}
compute::Figures Session::measure(const MeasureFunction& function, const std::shared_ptr<const data::Dataset>& dataset,
                                  EvaluationOptions options) {
  return core_->measure(function, dataset, std::move(options));
}
bool Session::stop_requested() const {
  return core_->stop_requested();
}
void Session::synchronize() {
  core_->synchronize();
}

const data::Cursor& Session::cursor() const {
  return core_->cursor();
}
const strategies::StepOutcome& Session::last_outcome() const {
  return core_->last_outcome();
}

void Session::save(const std::filesystem::path& path) {
  core_->save_together(path);
}
void Session::checkpoint(const std::filesystem::path& folder) {
  core_->checkpoint(folder);
}
bool Session::resume(const std::filesystem::path& folder) {
  return core_->resume(folder);
}
std::string Session::weights_hash() const {
  return core_->weights_hash();
}

}  // namespace muster::trainer
