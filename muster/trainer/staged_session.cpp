// The same stages as those of a job with a mesh (build.cpp), for a model whose pieces are the program's own.
// Everything else is any session's.
#include "muster/trainer/staged_session.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/model/pieces.h"
#include "muster/trainer/session_core.h"
#include "muster/trainer/worker_session.h"

namespace muster::trainer {
namespace {

using Pieces = std::function<std::vector<model::Piece>()>;

std::shared_ptr<const StagedModel> staged_model(const Worker& worker, torch::nn::Module& net, const Pieces& pieces_of,
                                                const SessionOptions& options, const StageOptions& stages) {
  const auto workers = static_cast<std::size_t>(worker.size());
  if (stages.stages == 0 || (workers > 1 && workers % stages.stages != 0))
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} workers are no rows of {} stages", workers, stages.stages),
                "StageOptions::stages", "Start a multiple of the stages, or one worker.");
  if (!stages.sample.defined() || stages.sample.dim() == 0)
    throw Error(ErrorKind::kInvalidInput, "there is no sample", "StageOptions::sample",
                "Give a tensor as the net takes it, torch::zeros({1, 784}), say.");
  pipeline::Mesh mesh;
  mesh.pipeline = stages.stages;
  mesh.data = std::max<std::size_t>(1, workers / stages.stages);
  mesh.schedule = pipeline::parse_schedule(stages.schedule);
  if (mesh.schedule == pipeline::Schedule::kInterleaved && stages.stages > 1) mesh.chunks = stages.chunks;
  const std::uint64_t lanes = check_options(options);
  if (mesh.data > lanes)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} rows of workers cannot share {} lanes", mesh.data, lanes),
                "SessionOptions::lanes");
  std::vector<model::Piece> pieces = pieces_of();
  std::vector<model::PieceProfile> profiles = model::profile_pieces(net, pieces, stages.sample);
  // Of a short last batch a lane may have one more than usual.
  const std::uint64_t lane_samples = (options.batch + lanes - 1) / lanes + 1;
  return std::make_shared<const StagedModel>(
      StagedModel{Stages(mesh, std::move(profiles), stages.cut, lane_samples), std::move(pieces)});
}

StagedSession staged_session(const Worker& worker, const std::shared_ptr<torch::nn::Module>& net,
                             const compute::OptimizerOptions& optimizer, const SessionOptions& options,
                             std::shared_ptr<const StagedModel> staged) {
  SessionParts parts;
  parts.staged = staged;
  return {worker_session(worker, ModelParts(net, optimizer), options, std::move(parts)), std::move(staged)};
}

StagedCode code_of(const StagedSession::Loss& loss) {
  return {[](Lane&) {},
          [](Lane&) {},
          [&loss](Lane& lane, const torch::Tensor& answer, const model::TensorTeam&) {
            lane.backward(loss(answer, lane.target));
          },
          {}};
}

}  // namespace

StagedSession::StagedSession(Session session, std::shared_ptr<const StagedModel> staged)
    : session_(std::move(session)), staged_(std::move(staged)) {
}

strategies::StepOutcome StagedSession::step(const std::shared_ptr<const data::Dataset>& dataset, const Loss& loss) {
  session_.core().require_going_on();
  return session_.core().step_through_losses(dataset, code_of(loss));
}

void StagedSession::train_until(std::uint64_t step, const std::shared_ptr<const data::Dataset>& dataset,
                                const Loss& loss) {
  session_.core().require_going_on();
  session_.core().train_until(step, dataset, code_of(loss));
}

std::vector<std::string> StagedSession::describe() const {
  return staged_->stages.describe();
}

StagedSession synchronize_stages(const Worker& worker, const torch::nn::Sequential& net,
                                 const compute::OptimizerOptions& optimizer, const SessionOptions& options,
                                 const StageOptions& stages) {
  const auto pieces = [&] { return model::pieces_of(net); };
  return staged_session(worker, net.ptr(), optimizer, options,
                        staged_model(worker, *net.ptr(), pieces, options, stages));
}

StagedSession synchronize_stages(const Worker& worker, const std::shared_ptr<torch::nn::Module>& net,
                                 const Blocks& blocks, const compute::OptimizerOptions& optimizer,
                                 const SessionOptions& options, const StageOptions& stages) {
  const auto pieces = [&] { return model::pieces_of(*net, blocks); };
  return staged_session(worker, net, optimizer, options, staged_model(worker, *net, pieces, options, stages));
}

}  // namespace muster::trainer
