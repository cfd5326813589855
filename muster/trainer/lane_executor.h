// A lane executor computes lanes: it stands between the session, which says which lane of which step, and the strategy,
// which has the place for its result.
//
// It runs the user's code in this process: begin() makes the model and torch's random numbers what they are at the
// start of that lane, whoever computes it; the code runs; finish() brings the gradients and buffers to where they
// belong. What a lane gives depends on the task alone. Lanes that several processes compute are begun and finished for
// many lanes at once, so they are not an executor of this kind (staged_lanes.h); the driver of steps needs the
// interface to be tested without a model.
//
// Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "muster/compute/lane_area.h"
#include "muster/compute/module_binding.h"
#include "muster/compute/slice_update.h"
#include "muster/data/lane_plan.h"
#include "muster/data/loader.h"
#include "muster/trainer/frozen_parts.h"
#include "muster/trainer/lane.h"
#include "muster/trainer/model_parts.h"

namespace muster::trainer {

struct LaneTask {
  const data::StepPlan& plan;
  std::size_t index = 0;
  bool repeated = false;
  data::Batch batch{};
  std::span<const std::byte> buffers{};  // committed
  compute::LaneArea area{};              // where the result goes
  // Where gradients are wanted while backward goes on: called with each tensor whose gradient has come.
  std::function<void(std::size_t tensor)> ready{};
};

// What lanes are computed with; all of it outlives the executor.
struct LaneModel {
  compute::ModuleBinding& binding;
  const FrozenParts& frozen;
  const std::vector<compute::TensorRule>& rules;  // may change between lanes
  std::uint64_t seed = 1;
  const ModelParts* parts = nullptr;
  bool carries_figures = true;  // as Lane::Start
};

class LaneExecutor {
 public:
  virtual ~LaneExecutor() = default;

  // What the user's code computes from here to finish() is this lane.
  virtual Lane& begin(LaneTask task) = 0;
  virtual bool active() const = 0;
  virtual Lane& lane() = 0;
  // The result is in the task's area; gives the batch back. Throws kInvalidInput when there was no backward(), and
  // kCompute. Afterwards no lane is active, whatever happens.
  virtual data::Batch finish() = 0;
  // The lane that was begun, if any, is forgotten.
  virtual void abandon() = 0;
};

class LocalExecutor final : public LaneExecutor {
 public:
  explicit LocalExecutor(const LaneModel& model) : model_(model) {}

  Lane& begin(LaneTask task) override;
  bool active() const override { return active_; }
  Lane& lane() override { return lane_; }
  data::Batch finish() override;
  void abandon() override;

 private:
  void read_buffers();
  void refuse_gradients_of_frozen() const;

  const LaneModel model_;
  // The lane in work.
  Lane lane_;
  data::Batch batch_;
  std::span<const std::byte> buffers_;
  compute::LaneArea area_;
  bool active_ = false;
};

}  // namespace muster::trainer
