#include "muster/strategies/shared_sync/shared_sync.h"

#include <algorithm>
#include <numeric>

#include "muster/base/check.h"
#include "muster/strategies/shared_sync/host_memory.h"

namespace muster::strategies {
namespace {

class SharedSync final : public Strategy {
 public:
  explicit SharedSync(StrategyOptions options)
      : options_(std::move(options)),
        memory_(std::make_shared<HostMemory>(options_)),
        reports_(options_.lanes),
        finished_(options_.lanes, false),
        records_(options_.layout.blocks().size()),
        norms_(options_.layout.blocks().size()) {}

  std::array<std::span<float>, 2> parameter_versions() override {
    return {memory_->version(0).parameters, memory_->version(1).parameters};
  }
  std::shared_ptr<void> memory() override { return memory_; }
  int committed_version() const override { return committed_; }

  CommittedState committed() const override {
    const compute::Version version = memory_->version(committed_);
    return {version.parameters,
            {version.state[0], version.state[1]},
            version.updates,
            memory_->buffers(committed_),
            cursor_};
  }

  void restore(const CommittedState& state) override {
    MUSTER_CHECK(state.parameters.size() == options_.layout.size() && state.buffers.size() == options_.buffers.bytes,
                 "state of another model");
    // Both versions: what no step ever changes (frozen tensors) must be right in either.
    for (int index = 0; index < 2; ++index) {
      const compute::Version version = memory_->version(index);
      std::ranges::copy(state.parameters, version.parameters.begin());
      for (std::size_t slot = 0; slot < version.state.size(); ++slot) {
        std::ranges::copy(state.state[slot], version.state[slot].begin());
      }
      std::ranges::copy(state.updates, version.updates.begin());
      std::ranges::copy(state.buffers, memory_->buffers(index).begin());
    }
    cursor_ = state.cursor;
    step_.reset();
  }

  void begin_step(const data::StepPlan& plan) override {
    MUSTER_CHECK(plan.at == cursor_, "a plan for another step");
    MUSTER_CHECK(plan.lanes.size() <= options_.lanes, "more lanes than there are areas");
    step_ = plan;
    claimed_ = 0;
    std::fill(finished_.begin(), finished_.end(), false);
  }

  std::vector<std::size_t> expected_lanes(const data::StepPlan& plan) const override {
    std::vector<std::size_t> lanes(plan.lanes.size());
    std::iota(lanes.begin(), lanes.end(), std::size_t{0});
    return lanes;
  }

  std::optional<std::size_t> claim() override {
    MUSTER_CHECK(step_.has_value(), "begin_step() comes before claim()");
    if (claimed_ == step_->lanes.size()) return std::nullopt;
    return claimed_++;
  }

  compute::LaneArea area(std::size_t lane) override { return memory_->lane(lane); }

  void finish(std::size_t lane, const compute::LaneReport& report) override {
    reports_[lane] = report;
    finished_[lane] = true;
  }

  StepOutcome commit(const compute::UpdateRule& rule, Deadline) override {
    MUSTER_CHECK(step_.has_value(), "begin_step() comes before commit()");
    const std::size_t count = step_->lanes.size();
    MUSTER_CHECK(std::all_of(finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(count),
                             [](bool finished) { return finished; }),
                 "commit() with a lane that is not finished");

    const compute::Version current = memory_->version(committed_);
    const compute::Version next = memory_->version(1 - committed_);
    std::vector<compute::LaneGradient> lanes;
    for (std::size_t lane = 0; lane < count; ++lane) {
      lanes.push_back({memory_->lane(lane).gradient.data(), memory_->lane(lane).present.data()});
    }
    const compute::BlockRange slice{0, options_.layout.blocks().size()};
    compute::reduce_slice(options_.layout, lanes, slice, next, records_);
    const compute::Verdict verdict = compute::judge_step(records_, rule.clip_norm);
    if (verdict.apply) {
      if (rule.optimizer->needs_norms()) {
        compute::measure_slice(options_.layout, lanes, rule, verdict, slice, current, next, norms_);
      }
      compute::update_slice(options_.layout, lanes, rule, verdict, slice, current, next, norms_);
      merge(count);
      committed_ = 1 - committed_;
    }
    StepOutcome outcome = summarize(verdict, count);
    cursor_ = step_->next;
    step_.reset();
    return outcome;
  }

 private:
  void merge(std::size_t count) {
    std::vector<std::span<const std::byte>> buffers;
    std::vector<double> weights;
    for (std::size_t lane = 0; lane < count; ++lane) {
      buffers.push_back(memory_->lane(lane).buffers);
      weights.push_back(step_->weight(lane));
    }
    compute::merge_buffers(options_.buffers, buffers, weights, memory_->buffers(1 - committed_));
  }

  StepOutcome summarize(const compute::Verdict& verdict, std::size_t count) const {
    StepOutcome outcome;
    outcome.applied = verdict.apply;
    outcome.gradient_norm = verdict.gradient_norm;
    outcome.samples = step_->samples();
    for (std::size_t lane = 0; lane < count; ++lane) {
      outcome.loss += reports_[lane].loss_sum;
      outcome.correct += reports_[lane].correct;
    }
    outcome.loss /= static_cast<double>(outcome.samples);
    return outcome;
  }

  const StrategyOptions options_;
  const std::shared_ptr<HostMemory> memory_;
  int committed_ = 0;
  data::Cursor cursor_;
  std::optional<data::StepPlan> step_;
  std::size_t claimed_ = 0;
  std::vector<compute::LaneReport> reports_;
  std::vector<bool> finished_;
  std::vector<compute::BlockSum> records_;
  std::vector<compute::Norms> norms_;
};

}  // namespace

std::unique_ptr<Strategy> make_shared_sync(StrategyOptions options) {
  return std::make_unique<SharedSync>(std::move(options));
}

}  // namespace muster::strategies
