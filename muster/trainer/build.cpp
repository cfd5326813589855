#include "muster/trainer/build.h"

#include <new>
#include <utility>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/augment/augmentation.h"
#include "muster/model/make_model.h"

namespace muster::trainer {

std::shared_ptr<const Task> build_task(const Job& job, const data::SampleSpec& spec,
                                       std::vector<double> class_weights) {
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
    return Error(ErrorKind::kInvalidInput, fmt::format("the model cannot be made: {}", why.substr(0, why.find('\n'))),
                 {}, "A smaller one takes less memory: model.hidden, model.width, model.depth.");
  };
  try {
    return model::make_model(model_options(job, spec), static_cast<std::uint64_t>(job.seed));
  } catch (const c10::Error& error) {
    throw refuse(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    throw refuse("the system has not so much memory");
  }
}

SessionOptions session_options(const ResolvedJob& resolved, const data::BatchShape& shape,
                               std::shared_ptr<const data::LaneOrder> order, const TrainingOptions& training) {
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
  options.strategy = job.parallel.strategy;
  options.loader_threads = static_cast<int>(job.data.loader_threads);
  options.prefetch = static_cast<std::size_t>(job.data.prefetch);
  options.order = std::move(order);
  options.mixup_alpha = data::parse_augmentation(job.data.augment).mixup_alpha;
  options.group = training.group;
  options.supervised = training.supervised;
  options.verify_rate = training.verify_rate;
  options.all_reduce.bucket_bytes = static_cast<std::size_t>(job.parallel.bucket_kb) << 10;
  options.all_reduce.overlap = job.parallel.overlap;
  options.all_reduce.overlap_timeout = options.step_timeout;
  options.local_sgd.period = static_cast<std::uint64_t>(job.parallel.period);
  options.local_sgd.averaged_steps = static_cast<std::uint64_t>(job.parallel.averaged_steps);
  options.local_sgd.outer_lr = job.parallel.outer_lr;
  options.local_sgd.outer_momentum = job.parallel.outer_momentum;
  options.local_sgd.average_state = job.parallel.average_state;
  strategies::ParameterServerOptions& servers = options.parameter_server;
  servers.phases = strategies::parse_phases(job.parallel.consistency);
  servers.servers = static_cast<int>(job.parallel.servers);
  servers.copies = static_cast<int>(job.parallel.copies);
  servers.staleness = static_cast<std::uint64_t>(job.parallel.staleness);
  servers.backups = static_cast<int>(job.parallel.backups);
  servers.staleness_rate = job.parallel.staleness_rate;
  servers.chunk_bytes = static_cast<std::size_t>(job.parallel.chunk_kb) << 10;
  servers.grpc = job.parallel.transport == "grpc";
  servers.snapshot_seconds = job.parallel.snapshot_seconds;
  if (training.supervised) servers.folder = training.supervised->folder;
  servers.event_log = job.parallel.event_log;
  options.claims = job.parallel.claims == "static" ? strategies::Claims::kStatic : strategies::Claims::kDynamic;
  return options;
}

}  // namespace muster::trainer
