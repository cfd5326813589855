// One function a part: task, model options, model, session options. No other file turns keys of a job into objects with
// torch in them.
#include "muster/trainer/build.h"

#include <new>
#include <utility>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/augment/augmentation.h"
#include "muster/model/divisible.h"
#include "muster/model/make_model.h"
#include "muster/model/profile.h"
#include "muster/trainer/job_fit.h"
#include "muster/trainer/user_task.h"

namespace muster::trainer {

std::shared_ptr<const Task> build_task(const Job& job, const data::SampleSpec& spec,
                                       std::vector<double> class_weights) {
  if (job.loss.task == "library") return make_user_task(task_of_library(job), job.loss.options, spec);
  return make_task({job.loss.task, job.loss.label_smoothing, job.loss.error.value_or("mse"), std::move(class_weights)},
                   spec);
}

model::ModelOptions model_options(const Job& job, const data::SampleSpec& spec) {
  model::ModelOptions options = model_options(job);
  options.input_shape = spec.shape;
  options.columns = spec.columns;
  options.classes =
      spec.target == data::TargetKind::kValues ? static_cast<std::int64_t>(spec.target_elements()) : spec.classes;
  options.each_position = spec.target == data::TargetKind::kTokens;
  if (spec.input == data::InputKind::kTokens) options.vocabulary = spec.vocabulary;
  return options;
}

std::shared_ptr<model::Net> build_model(const Job& job, const data::SampleSpec& spec) {
  const auto refuse = [](const std::string& why) {
    return Error(
        ErrorKind::kInvalidInput, fmt::format("the model cannot be made: {}", why.substr(0, why.find('\n'))), {},
        "A smaller one takes less memory: model.hidden, model.width, model.depth. With a mesh of several workers "
        "none of them needs memory of its own for it: docs/model-parallel.md.");
  };
  try {
    return model::make_model(model_options(job, spec), static_cast<std::uint64_t>(job.seed));
  } catch (const c10::Error& error) {
    throw refuse(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    throw refuse("the system has not so much memory");
  }
}

bool may_be_hollow(const Job& job) {
  // Others are refused (build_stages), and what a file or a library makes is not known to be made alike each time.
  return job.parallel.pipeline_mesh().shares_lanes() && job.model.script.empty() && job.model.library.empty();
}

namespace {

// The model as one piece, which every model is.
model::Piece whole_piece(const std::shared_ptr<model::Net>& net) {
  model::Piece piece{.name = "model"};
  for (const auto& item : net->named_parameters())
    piece.holds.push_back(item.key());
  for (const auto& item : net->named_buffers())
    piece.holds.push_back(item.key());
  piece.forward = [&model = *net](const torch::Tensor& x) { return model.forward(x); };
  return piece;
}

// Throws for a model of which a member of a team would have nothing.
std::shared_ptr<model::Divisible> divisible(const std::shared_ptr<model::Net>& net, std::size_t team) {
  if (team == 1) return nullptr;
  auto found = std::dynamic_pointer_cast<model::Divisible>(net);
  if (!found || found->splits().empty())
    throw Error(ErrorKind::kUnsupported, "this model's layers cannot be divided", {},
                "Models of the zoo that can are transformer, mlp with hidden layers and wrn-D-K.");
  const auto members = static_cast<std::int64_t>(team);
  const auto parameters = net->named_parameters();
  const auto buffers = net->named_buffers();
  for (const model::Split& split : found->splits()) {
    const torch::Tensor* tensor = parameters.find(split.name);
    if (tensor == nullptr) tensor = buffers.find(split.name);
    if (tensor == nullptr) continue;  // of a norm without statistics
    const std::int64_t units = tensor->size(split.dimension) / split.groups / split.unit;
    if (units < members)
      throw Error(
          ErrorKind::kUnsupported,
          fmt::format("{} members of a team cannot share {}: it can be divided into {}", team, split.name, units), {},
          "Lower tensor, or take a model with more heads, channels or words.");
  }
  return found;
}

}  // namespace

std::shared_ptr<const StagedModel> build_stages(const ResolvedJob& resolved, const data::SampleSpec& spec,
                                                const std::shared_ptr<model::Net>& net) {
  const Job& job = resolved.job;
  const pipeline::Mesh mesh = job.parallel.pipeline_mesh();
  if (!mesh.shares_lanes()) return nullptr;
  // Of a short last batch a lane may have one more than usual.
  const std::uint64_t lane_samples = (resolved.batch + resolved.lanes - 1) / resolved.lanes + 1;
  return about_key(resolved, job.parallel.cut.empty() ? "parallel.mesh" : "parallel.cut", [&] {
    std::shared_ptr<model::Divisible> divided = divisible(net, mesh.tensor);
    std::vector<model::Piece> pieces = mesh.pipeline == 1 ? std::vector{whole_piece(net)} : net->pieces();
    std::vector<model::PieceProfile> profiles = model::profile_pieces(*net, pieces, model_options(job, spec));
    if (pieces.empty())
      throw Error(
          ErrorKind::kUnsupported, "this model cannot be cut into stages", {},
          "Models of the zoo that can are transformer, resnet18 and the like, wrn-D-K, lstm, gru, cnn and mlp.");
    return std::make_shared<const StagedModel>(
        StagedModel{Stages(mesh, std::move(profiles), job.parallel.cut, lane_samples), std::move(pieces), divided});
  });
}

SessionOptions session_options(const ResolvedJob& resolved, const data::BatchShape& shape,
                               const TrainingOptions& training) {
  const Job& job = resolved.job;
  SessionOptions options;
  options.batch = resolved.batch;
  options.lanes = resolved.lanes;
  options.threads = static_cast<int>(job.threads);
  options.seed = static_cast<std::uint64_t>(job.seed);
  options.schedule = schedule(job, shape);
  options.clip_norm = job.optimizer.clip_norm;
  options.exempt = compute::parse_exemption(job.optimizer.exempt);
  options.tuning = tuning(job);
  options.strategy = job.parallel.chosen();
  options.loader_threads = static_cast<int>(job.data.loader_threads);
  options.prefetch = static_cast<std::size_t>(job.data.prefetch);
  options.mixup_alpha = data::parse_augmentation(job.data.augment).mixup_alpha;
  options.group = training.group;
  options.verify_rate = training.verify_rate;
  options.claims = job.parallel.claims == "static" ? strategies::Claims::kStatic : strategies::Claims::kDynamic;
  return options;
}

}  // namespace muster::trainer
