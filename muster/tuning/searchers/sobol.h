// Quasi-random search: a scrambled Sobol sequence, which leaves smaller gaps than chance for the same number of trials.
#pragma once

#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/searcher.h"

namespace muster::tuning {

struct SobolSearch {
  static constexpr std::string_view kName = "sobol";
  static constexpr std::string_view kHelp = "Evenly spread values (Sobol); better than random at the same price.";

  bool scramble = true;

  void add_keys(Section& section);
  // Throws Error{kInvalidInput} for more than 2,000 keys.
  std::unique_ptr<Searcher> make(const SearchProblem& problem) const;
};

}  // namespace muster::tuning
