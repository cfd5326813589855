// Who takes part in a round of a simulation, and when: pure, keyed by (seed, round, client).
//
// A round asks clients, some of which answer in time. Time is virtual: a client trains 1,000 samples a second times its
// speed, which is its own and a little another one each round. Who would not count is not computed at all.
// No torch here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/federated/client_split.h"
#include "muster/federated/options.h"

namespace muster::federated {

class SampleBudgets;

struct Participant {
  std::uint64_t client = 0;
  std::uint64_t samples = 0;  // that it trains on
  double weight = 0;          // in the mean: its samples, 1 where noise hides who took part, or by its age (fedbuff)
  double seconds = 0;         // virtual, from the beginning of the round to its answer
  bool false_one = false;
  std::uint64_t version = 0;   // rounds that were done when it began: the model that it trains from
  std::uint64_t submodel = 0;  // of federated.submodels, from 1; 0: the whole model
};

struct RoundPlan {
  std::uint64_t round = 0;
  std::vector<Participant> counts{};  // whose updates make the round, in the order in which they were asked
  std::uint64_t asked = 0;
  std::uint64_t empty = 0;    // of those: have no samples
  std::uint64_t dropped = 0;  // began and never answered
  std::uint64_t late = 0;     // answered after enough others had, or after the deadline
  double seconds = 0;         // virtual, of the round
  double denominator = 0;     // of the mean: the weights' sum, or with noise the expected number of clients
  std::string reason{};       // in words; why nothing changes, where counts is empty
};

// With noise every client is asked by itself with probability per_round / clients (Poisson sampling), which is what the
// accountant of privacy counts on; else as many as per_round and over_select say are asked. Whose budget of its samples
// is spent is not asked or, with noise, does not answer. REQUIRES: options that passed Options::check().
RoundPlan plan_round(const Options& options, const ClientSplit& split, std::uint64_t seed, std::uint64_t round,
                     const SampleBudgets* budgets = nullptr);

// Who is asked in a round of real clients: as a simulation asks, but only who is there. `samples` of a client; 0: it is
// not there. With noise whoever is drawn is asked, there or not, and `seed` must be a secret.
std::vector<std::uint64_t> ask_present(const Options& options, std::uint64_t seed, std::uint64_t round,
                                       const std::function<std::uint64_t(std::uint64_t client)>& samples);

}  // namespace muster::federated
