// Without budgets a plan depends on no other, and any round is made at once; with them rounds are gone through in their
// order.
#include "muster/federated/planned_rounds.h"

#include <algorithm>

namespace muster::federated {

PlannedRounds::PlannedRounds(const Options& options, const ClientSplit& split, std::uint64_t seed, std::uint64_t batch)
    : options_(options), split_(split), seed_(seed) {
  if (options_.sample_noise > 0) budgets_.emplace(options_, split_, batch);
  if (options_.buffered()) buffered_.emplace(options_, split_, seed_, budgets_ ? &*budgets_ : nullptr);
}

const RoundPlan& PlannedRounds::of(std::uint64_t round) {
  if (buffered_) return buffered_->of(round);
  if (budgets_) {
    advance(round + 1);
  } else if (next_ != round + 1) {
    plan_ = plan_round(options_, split_, seed_, round);
    next_ = round + 1;
  }
  return plan_;
}

void PlannedRounds::advance(std::uint64_t rounds) {
  if (next_ > rounds) {
    budgets_->restart();
    next_ = 0;
  }
  for (; next_ < rounds; ++next_) {
    plan_ = plan_round(options_, split_, seed_, next_, &*budgets_);
    for (const Participant& who : plan_.counts)
      budgets_->spend(who.client);
  }
}

std::optional<SamplesSpent> PlannedRounds::spent_after(std::uint64_t rounds) {
  if (!budgets_) return std::nullopt;
  buffered_ ? buffered_->go_to(rounds) : advance(rounds);
  // Noise counts on nobody's coming; a round without anybody would be noise alone.
  const std::uint64_t least = options_.noise > 0 ? 1 : std::max<std::uint64_t>(1, options_.least_updates());
  const bool all = buffered_ ? buffered_->nobody_trains() : budgets_->able() < least;
  return SamplesSpent{.clients = budgets_->spent(), .epsilon = budgets_->epsilon(), .all = all};
}

}  // namespace muster::federated
