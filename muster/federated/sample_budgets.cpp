// Clients are looked through once, to know how many have a budget at all; what they can train follows from how many
// steps an epoch of theirs has, so that a million of them need the accountant a few times only.
#include "muster/federated/sample_budgets.h"

#include <algorithm>
#include <limits>

namespace muster::federated {

SampleBudgets::SampleBudgets(const Options& options, const ClientSplit& split, std::uint64_t batch)
    : options_(options), split_(split), batch_(batch) {
  for (std::uint64_t client = 0; client < split_.clients(); ++client) {
    const std::uint64_t steps = steps_of(client);
    if (steps == 0) continue;
    ++with_samples_;
    auto known = kinds_.find(steps);
    if (known == kinds_.end()) {
      const RoundCosts costs({options_.sample_noise, 1 / static_cast<double>(steps)});
      const std::uint64_t allowed = options_.sample_epsilon
                                        ? costs.rounds_within(*options_.sample_epsilon, options_.delta) /
                                              (steps * static_cast<std::uint64_t>(options_.local_epochs))
                                        : std::numeric_limits<std::uint64_t>::max();
      known = kinds_.emplace(steps, Kind{.costs = costs, .allowed = allowed}).first;
    }
    able_at_first_ += known->second.allowed > 0 ? 1 : 0;
  }
  able_ = able_at_first_;
}

void SampleBudgets::restart() {
  rounds_.clear();
  able_ = able_at_first_;
  for (auto& [steps, kind] : kinds_) {
    kind.most = kind.counted = 0;
    kind.epsilon = 0;
  }
}

std::uint64_t SampleBudgets::steps_of(std::uint64_t client) const {
  const std::uint64_t samples = split_.size(client);
  return steps_of_epoch(samples - options_.held_out(samples), batch_);
}

std::uint64_t SampleBudgets::rounds_of(std::uint64_t client) const {
  const auto found = rounds_.find(client);
  return found == rounds_.end() ? 0 : found->second;
}

bool SampleBudgets::allows(std::uint64_t client) const {
  const std::uint64_t steps = steps_of(client);
  return steps == 0 || rounds_of(client) < kinds_.at(steps).allowed;
}

void SampleBudgets::spend(std::uint64_t client) {
  const std::uint64_t steps = steps_of(client);
  if (steps == 0) return;
  Kind& kind = kinds_.at(steps);
  const std::uint64_t rounds = ++rounds_[client];
  kind.most = std::max(kind.most, rounds);
  if (rounds == kind.allowed) --able_;
}

double SampleBudgets::epsilon_of(std::uint64_t steps_an_epoch, const Kind& kind, std::uint64_t rounds) const {
  const std::uint64_t steps = rounds * steps_an_epoch * static_cast<std::uint64_t>(options_.local_epochs);
  return kind.costs.spent_after(steps, options_.delta).epsilon;
}

double SampleBudgets::epsilon() {
  double most = 0;
  for (auto& [steps, kind] : kinds_) {
    if (kind.counted != kind.most) kind.epsilon = epsilon_of(steps, kind, kind.most);
    kind.counted = kind.most;
    most = std::max(most, kind.epsilon);
  }
  return most;
}

double SampleBudgets::least_of_a_round() const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [steps, kind] : kinds_)
    least = std::min(least, epsilon_of(steps, kind, 1));
  return kinds_.empty() ? 0 : least;
}

}  // namespace muster::federated
