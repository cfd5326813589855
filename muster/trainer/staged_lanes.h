// Lanes through stages: this worker's parts of the lanes of a step, in the order of the pipeline's schedule.
//
// What a part gives lies in the lane's own memory, which all workers of the host see: its output for the next part, the
// gradient of its input for the one before (stages.h), its tensors' gradients and its buffers in the lane's area.
// A message between neighbours says that it is there. The first stage of a row claims the row's lanes, tells the others
// which they are, and finishes each when its gradient has come back: then every part of the lane is done.
//
// Where a stage is a team (model/tensor_team.h) its members compute each part of a lane together. What goes from part
// to part is whole, so all have it; the first member writes it and speaks for the team, when all have done their part.
//
//   lane list   first stage -> second -> ...        which lanes the row computes in this step; from first members to
//   the others of the team, too
//   forward     stage of part i -> of part i + 1    the output of part i is there; its shape; whether it wants a
//   gradient backward    stage of part i + 1 -> of part i    the gradient is there, if one is wanted; and what the lane
//   tells
//
// A part of a lane starts from committed parameters and buffers and from random numbers of its first block's own, so
// the lane has the bits of one process. Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "muster/base/clock.h"
#include "muster/data/lane_plan.h"
#include "muster/data/loader.h"
#include "muster/model/divisible.h"
#include "muster/model/net.h"
#include "muster/pipeline/mesh.h"
#include "muster/strategies/strategy.h"
#include "muster/trainer/lane_executor.h"
#include "muster/trainer/phase_times.h"
#include "muster/trainer/stages.h"

namespace muster::trainer {

// What is computed beside the model: the pieces are its own.
struct StagedCode {
  std::function<void(Lane&)> begin{};   // by every worker, before its part of a lane
  std::function<void(Lane&)> loaded{};  // by the one that gives the samples to the first part
  // By those with the last part: calls backward(). `split`: among whom the classes of the answer are divided; of one:
  // it is whole.
  std::function<void(Lane&, const torch::Tensor& answer, const model::TensorTeam& split)> end{};
  // Told what this worker has computed of each part of each lane, and when; may be empty.
  struct Computed {
    std::size_t lane = 0;
    std::size_t part = 0;
    bool forward = true;
    Clock::Instant begin{};
    Clock::Instant end{};
  };
  std::function<void(const Computed&)> computed{};
};

struct StagedModel {
  Stages stages;
  std::vector<model::Piece> pieces;
  std::shared_ptr<model::Divisible> divisible{};  // the same model, where stages are teams
};

class StagedLanes {
 public:
  // Gives the samples of a lane.
  using Take = std::function<data::Batch(std::size_t lane)>;
  using GiveBack = std::function<void(data::Batch)>;

  // All outlive it.
  StagedLanes(const LaneModel& model, std::shared_ptr<const StagedModel> staged, strategies::Strategy& strategy,
              std::chrono::seconds step_timeout);
  ~StagedLanes();

  // Computes what is this worker's of the step that the strategy has begun. Throws Error{kPeerLost | kTimeout |
  // kCompute | kUnsupported} and what `code` throws; then abandon() it.
  void compute(const data::StepPlan& plan, const Take& take, const GiveBack& give_back, const StagedCode& code,
               PhaseTimes& times);
  // What was begun is forgotten.
  void abandon();

 private:
  struct Step;
  struct Flight;
  class Joined;

  void arrange();
  void form_team(const strategies::Members& members);
  compute::ModuleBinding::Shards shards_of(const std::vector<model::TensorSlot>& tensors,
                                           const std::vector<compute::BufferSlot>& buffers) const;
  std::vector<std::size_t> agree_on_lanes(const Step& step);
  void forward(Step& step, std::size_t lane, std::size_t part);
  void backward(Step& step, std::size_t lane, std::size_t part);
  torch::Tensor receive_input(const Step& step, std::size_t lane, std::size_t part);
  void pass_output(const Step& step, std::size_t lane, std::size_t part, const torch::Tensor& output);
  strategies::LaneResult receive_gradient(Step& step, std::size_t lane, std::size_t part, Flight& flight);
  void pass_gradient(const Step& step, std::size_t lane, std::size_t part, const torch::Tensor& input,
                     const strategies::LaneResult& told);
  torch::Tensor run(const Step& step, std::size_t lane, std::size_t part, const torch::Tensor& input);
  void keep_buffers(const compute::LaneArea& area, const compute::ModuleBinding::Uses& uses);
  template <typename Work>
  void computed(Step& step, std::size_t lane, std::size_t part, bool is_forward, const Work& work);
  // In which `count` elements of fp32 lie; throws when there is no room.
  float* place(std::size_t lane, std::size_t piece, std::size_t count);
  template <typename Message>
  Message receive(const Step& step, std::size_t lane, std::size_t from_part, std::size_t part, bool is_forward);
  // To all of the other part's team.
  template <typename Message>
  void send(const Step& step, std::size_t lane, std::size_t to_part, bool is_forward, const Message& message);

  const LaneModel model_;
  const std::shared_ptr<const StagedModel> staged_;
  strategies::Strategy& strategy_;
  const std::chrono::seconds step_timeout_;
  // Of the present members.
  std::uint64_t generation_ = 0;
  pipeline::Arrangement arrangement_;
  std::vector<compute::ModuleBinding::Uses> uses_;  // by part
  model::TensorTeam team_;
  // Of the step in work, by lane and part.
  std::map<std::pair<std::size_t, std::size_t>, Flight> flights_;
};

}  // namespace muster::trainer
