// CMA-ES: a normal distribution that learns the shape of a valley, for numbers that depend on each other and for
// hundreds of trials.
//
// - Real numbers and their logarithms are moved in the unit box. Integers and steps are moved as real numbers and
// rounded;
//   their deviation is kept at a third of a step, so that the search does not freeze between two values.
// - Choices have probabilities of their own, moved towards the choices of the better half of each batch and never below
//   a floor. A key that is not active in a trial is not moved by it.
// - Results count in the order in which they come: every lambda of them move the distribution, whichever trial they
//   are of. So parallel trials need not wait for each other, and failed ones count as worst.
// - Steps are drawn from a Sobol sequence (Teytaud and Gelly 2007), which spoils fewer of them than chance does.
// - When the distribution has shrunk to a point it begins anew elsewhere with twice as large batches (IPOP).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/searcher.h"

namespace muster::tuning {

struct CmaEs {
  static constexpr std::string_view kName = "cma_es";
  static constexpr std::string_view kHelp =
      "Learns the shape of a valley (CMA-ES); for numbers, few choices and 100 trials or more.";

  double sigma = 0.15;
  std::int64_t batch = 0;    // 0: 4 + 3 ln(keys)
  std::int64_t startup = 0;  // evenly spread trials, of which the best is the first mean

  void add_keys(Section& section);
  // Throws Error{kInvalidInput} for more than one objective, or no number in the space.
  std::unique_ptr<Searcher> make(const SearchProblem& problem) const;
};

}  // namespace muster::tuning
