// BOHB's model (Falkner et al. 2018), for schedulers that give trials different resources: TPE on the results at the
// largest resource of which there are enough, so that it learns early from short trials and later from long ones.
//
// Made for the scheduler hyperband, with which it is BOHB; asha serves as well. A part of the proposals stays random,
// as in the paper, so that a misleading short resource cannot keep the search away from what is good in the end.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/searcher.h"

namespace muster::tuning {

struct Bohb {
  static constexpr std::string_view kName = "bohb";
  static constexpr std::string_view kHelp = "TPE on the longest trials there are enough of; for hyperband and asha.";

  double random = 0.2;
  std::int64_t enough = 0;  // results at a resource; 0: keys + 3
  double good = 0.15;
  std::int64_t candidates = 64;

  void add_keys(Section& section);
  // Throws Error{kInvalidInput} for more than one objective.
  std::unique_ptr<Searcher> make(const SearchProblem& problem) const;
};

}  // namespace muster::tuning
