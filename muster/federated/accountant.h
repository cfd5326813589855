// What rounds with noise have told of any one client: an accountant of differential privacy by Renyi divergence.
//
// A round asks every client by itself with probability q, bounds what each can change by C, and adds normal noise of
// deviation sigma C to the sum. The divergence of order a of such a round is that of Mironov, Talwar, Zhang ("Renyi
// differential privacy of the sampled Gaussian mechanism", 2019); rounds add up; and an (epsilon, delta) follows from
// every order by Canonne, Kamath, Steinke ("The discrete Gaussian for differential privacy", 2020, proposition 12).
// The best order counts. Pure. No torch here.
#pragma once

#include <cstdint>

namespace muster::federated {

struct Mechanism {
  double noise = 1;  // sigma; above 0
  double part = 1;   // q, above 0 and at most 1
};

// Divergence of order `order` (above 1) of one round.
double renyi_divergence(const Mechanism& mechanism, double order);

struct Spent {
  double epsilon = 0;
  double order = 0;  // that gives it
};
// After `rounds` rounds. REQUIRES: 0 < delta < 1.
Spent spent_after(const Mechanism& mechanism, std::uint64_t rounds, double delta);

// How many steps DP-SGD takes of a client: of `samples`, with a batch of `batch` on average, each sample is in a step
// by itself with probability 1 / steps_of_epoch().
std::uint64_t steps_of_epoch(std::uint64_t samples, std::uint64_t batch);

// How many rounds stay within `epsilon`: the largest number whose spent_after() is not above it.
std::uint64_t rounds_within(const Mechanism& mechanism, double epsilon, double delta);

}  // namespace muster::federated
