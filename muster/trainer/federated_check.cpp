// The parts of a federated run are made as the run makes them, and thrown away: no second list of what is refused that
// could say something else.
#include "muster/trainer/federated_check.h"

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "muster/data/partition/partition.h"
#include "muster/federated/kept_parts.h"
#include "muster/federated/sample_budgets.h"
#include "muster/federated/submodel.h"
#include "muster/trainer/client_training.h"
#include "muster/trainer/job_fit.h"

namespace muster::trainer {

federated::ClientSplit make_client_split(const ResolvedJob& resolved, const data::Dataset& train) {
  const federated::Options& options = resolved.job.federated;
  return about_key(resolved, "federated.split", [&] {
    return federated::ClientSplit({.split = federated::parse_split(options.split),
                                   .clients = static_cast<std::uint64_t>(options.clients),
                                   .seed = static_cast<std::uint64_t>(resolved.job.seed),
                                   .drawn = static_cast<std::uint64_t>(options.client_samples.value_or(0))},
                                  train.size(), [&] { return data::read_labels(train); });
  });
}

std::vector<ResolvedJob> submodel_jobs(const ResolvedJob& resolved) {
  std::vector<ResolvedJob> jobs;
  for (const std::string& changes : resolved.job.federated.submodels) {
    std::vector<std::string> assignments;
    std::istringstream words(changes);
    for (std::string word; std::getline(words, word, ';');)
      assignments.push_back(word);
    // A narrower model has none of its own.
    assignments.emplace_back("federated.submodels=[]");
    jobs.push_back(about_key(resolved, "federated.submodels", [&] {
      return parse_job(resolved.text, fmt::format("the narrower model \"{}\"", changes), assignments);
    }));
  }
  return jobs;
}

void check_client_model(const ResolvedJob& resolved, const Datasets& sets) {
  const std::unique_ptr<federated::LocalTraining> whole = make_client_training(resolved, sets);
  about_key(resolved, "federated.keep", [&] {
    return federated::KeptParts(resolved.job.federated.keep, whole->tensors(), whole->size(), whole->parameters());
  });
  for (const ResolvedJob& narrower : submodel_jobs(resolved))
    about_key(resolved, "federated.submodels",
              [&] { return federated::Submodel(*whole, make_client_training(narrower, sets)).map; });
}

void check_virtual_clients(const ResolvedJob& resolved, const Datasets& sets) {
  const federated::Options& options = resolved.job.federated;
  const federated::ClientSplit split = make_client_split(resolved, *sets.train);
  if (!(options.sample_noise > 0) || !options.sample_epsilon) return;
  const federated::SampleBudgets budgets(options, split, resolved.batch);
  if (budgets.able() > 0) return;
  throw resolved.invalid("federated.sample_epsilon",
                         fmt::format("allows no client a single round: the first one spends epsilon {:.3f} at delta {}",
                                     budgets.least_of_a_round(), options.delta),
                         "Raise it, or federated.sample_noise, or have fewer federated.local_epochs.");
}

}  // namespace muster::trainer
