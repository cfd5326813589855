// The start of a run without the run: data opened, model built, files of weights compared. Every check is a function
// that the trainer calls as well.
#include "muster/trainer/job_check.h"

#include <utility>

#include "muster/comm/group.h"
#include "muster/compute/optimizer.h"
#include "muster/compute/threads.h"
#include "muster/compute/tuning.h"
#include "muster/model/net.h"
#include "muster/model/script_net.h"
#include "muster/model/sync_batch_norm.h"
#include "muster/model/torch_optimizer.h"
#include "muster/model/user_library.h"
#include "muster/trainer/build.h"
#include "muster/trainer/class_weights.h"
#include "muster/trainer/federated_check.h"
#include "muster/trainer/initial_state.h"
#include "muster/trainer/job_fit.h"
#include "muster/trainer/user_task.h"

namespace muster::trainer {

void check_optimizer_file(const ResolvedJob& resolved, const model::Net& net) {
  if (resolved.job.optimizer.init.empty()) return;
  std::vector<model::StateOwner> owners;
  for (const auto& item : net.named_parameters())
    owners.push_back({item.key(), item.value().sizes().vec()});
  about_key(resolved, "optimizer.init", [&] {
    model::read_torch_optimizer(resolved.job.optimizer.init, owners,
                                compute::make_optimizer(optimizer_options(resolved))->slot_names());
  });
}

std::shared_ptr<model::Net> build_fitting_model(const ResolvedJob& resolved, const data::SampleSpec& spec) {
  std::shared_ptr<model::Net> net =
      about_key(resolved, model_key(resolved.job), [&] { return build_model(resolved.job, spec); });
  about_key(resolved, "model.freeze", [&] {
    compute::check_tuning(tuning(resolved.job), net->named_parameters().keys(), net->named_buffers().keys());
  });
  return net;
}

std::vector<std::string> all_doubts(const ResolvedJob& resolved, const data::Dataset& train, const model::Net& net) {
  const data::SampleSpec& spec = train.spec();
  std::vector<std::string> found = doubts(resolved, {train.size(), resolved.batch, resolved.lanes},
                                          spec.target == data::TargetKind::kClass ? spec.classes : 0);
  for (const std::string& doubt : model::script_doubts(net))
    found.push_back(resolved.invalid("model.script", doubt).what());
  return found;
}

namespace {

std::vector<std::string> own_options(const Job& job) {
  std::vector<PartHelp> parts;
  if (!job.model.library.empty()) parts.push_back(model::user_model_help(model_options(job)));
  if (!job.data.library.empty()) parts.push_back(data::user_source_help(source_options(job).library));
  if (!job.loss.library.empty()) parts.push_back(user_task_help(task_of_library(job)));
  std::vector<std::string> lines;
  for (const PartHelp& part : parts)
    for (std::string& line : describe(part))
      lines.push_back(std::move(line));
  return lines;
}

}  // namespace

JobCheck check_job(const ResolvedJob& resolved, const Datasets& sets) {
  const Job& job = resolved.job;
  const data::SampleSpec& spec = sets.train->spec();
  lane_order(resolved, *sets.train);
  about_key(resolved, "loss.task", [&] {
    return build_task(job, spec, class_weights(parse_class_weights(job.loss.class_weights), *sets.train));
  });
  compute::set_threads(static_cast<int>(job.threads));
  const std::shared_ptr<model::Net> net = build_fitting_model(resolved, spec);
  about_key(resolved, "model.init", [&] { return initialize_model(job, *net); });
  check_optimizer_file(resolved, *net);
  if (job.federated.chosen()) {
    check_client_model(resolved, sets);
    check_virtual_clients(resolved, sets);
  }
  if (job.parallel.sync_batch_norm && model::synchronize_batch_norm(*net, comm::Group()) == 0)
    throw resolved.invalid("parallel.sync_batch_norm", "the model has no batch norm");
  JobCheck found{.doubts = all_doubts(resolved, *sets.train, *net), .own = own_options(job)};
  if (const auto staged = build_stages(resolved, spec, net)) {
    const std::vector<model::PieceMemory> memory =
        model::measure_pieces(*net, staged->pieces, model_options(job, spec));
    found.stages = staged->stages.describe(staged->stages.activation_bytes(
        memory, resolved.lanes, (resolved.batch + resolved.lanes - 1) / resolved.lanes));
  }
  return found;
}

}  // namespace muster::trainer
