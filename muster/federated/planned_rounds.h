// Who takes part in each round of a simulation, one round after the other: the plans of round_plan.h or of
// buffered_plan.h and, where clients protect their samples, without those whose budget is spent.
//
// Who has a budget left follows from who has trained before. So it goes on from the round that was asked for last, and
// begins anew for an earlier one: what it answers is a pure function of options, split, seed and round, in every
// process, and also of a run that was stopped. Thread safety: one thread. No torch here.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/federated/buffered_plan.h"
#include "muster/federated/round_plan.h"
#include "muster/federated/sample_budgets.h"

namespace muster::federated {

// What clients have spent of the budgets of their samples.
struct SamplesSpent {
  std::uint64_t clients = 0;  // whose budget has no room for a round more
  double epsilon = 0;         // the most that one has spent
  bool all = false;           // too few are left for a round that changes something
};

class PlannedRounds {
 public:
  // Both outlive it; `batch` as SampleBudgets.
  PlannedRounds(const Options& options, const ClientSplit& split, std::uint64_t seed, std::uint64_t batch);
  PlannedRounds(const PlannedRounds&) = delete;
  PlannedRounds& operator=(const PlannedRounds&) = delete;

  // Valid until the next call. Throws as BufferedPlan.
  const RoundPlan& of(std::uint64_t round);
  // When so many rounds are done; nothing where samples are not protected.
  std::optional<SamplesSpent> spent_after(std::uint64_t rounds);

 private:
  void advance(std::uint64_t rounds);

  const Options& options_;
  const ClientSplit& split_;
  const std::uint64_t seed_;
  std::optional<SampleBudgets> budgets_;
  std::optional<BufferedPlan> buffered_;
  RoundPlan plan_;
  std::uint64_t next_ = 0;  // round; of plans without buffer
};

}  // namespace muster::federated
