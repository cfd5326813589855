// What the clients of a simulation have spent of the budgets of their samples (DP-SGD: federated.sample_noise): who may
// still train, and the most that anybody has spent.
//
// A client's round is as many steps as its epochs have, and all clients with equally many steps an epoch can take part
// in equally many rounds. A pure function of options, split and of who was spent on. Thread safety: one thread. No
// torch here.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "muster/federated/client_split.h"
#include "muster/federated/options.h"
#include "muster/federated/round_costs.h"

namespace muster::federated {

class SampleBudgets {
 public:
  // Both outlive it; `batch` is the mean size of a step. REQUIRES: options.sample_noise > 0.
  SampleBudgets(const Options& options, const ClientSplit& split, std::uint64_t batch);

  // As if nobody had trained yet.
  void restart();
  // Whether its budget has room for a round more; also of one that has no samples, and spends nothing.
  bool allows(std::uint64_t client) const;
  // It trains a round. REQUIRES: allows(client).
  void spend(std::uint64_t client);

  // Clients with samples whose budget has room for a round more; and those for whom it has none (any more).
  std::uint64_t able() const { return able_; }
  std::uint64_t spent() const { return with_samples_ - able_; }
  // The most that any client has spent.
  double epsilon();
  // What its first round takes of the client that this takes least of; 0 if nobody has samples.
  double least_of_a_round() const;

 private:
  // Of clients with so many steps an epoch.
  struct Kind {
    RoundCosts costs;           // of a step
    std::uint64_t allowed = 0;  // rounds
    std::uint64_t most = 0;     // that one of them has trained
    std::uint64_t counted = 0;  // of `most`, in `epsilon`
    double epsilon = 0;
  };
  std::uint64_t steps_of(std::uint64_t client) const;
  std::uint64_t rounds_of(std::uint64_t client) const;
  double epsilon_of(std::uint64_t steps_an_epoch, const Kind& kind, std::uint64_t rounds) const;

  const Options& options_;
  const ClientSplit& split_;
  const std::uint64_t batch_;
  std::map<std::uint64_t, Kind> kinds_;  // by steps an epoch
  std::unordered_map<std::uint64_t, std::uint64_t> rounds_;
  std::uint64_t with_samples_ = 0;
  std::uint64_t able_at_first_ = 0;
  std::uint64_t able_ = 0;
};

}  // namespace muster::federated
