// TPE, the tree-structured Parzen estimator (Bergstra et al. 2011): values that are likely among the good trials and
// unlikely among the others.
//
// The first trials are spread evenly (Sobol). Then the trials that have something to tell are split into good and bad
// ones; each side becomes a density (parzen.h), candidates are drawn from the good one, and the one with the largest
// ratio good : bad is proposed. multivariate: the keys of a trial are one thing; else each key is chosen for itself.
//
// Two things are ours: every other proposal has narrower kernels and a third of the candidates, so that one half looks
// around and the other refines; and a part of the proposals fixes one value of one choice and looks for the best there,
// so that a choice that began badly is not lost.
//
// Order of trials: finished ones by loss; then those that ended or pause at an earlier resource, by resource and then
// by loss; failed ones last. Two objectives: by non-dominated rank and, inside of a rank, by crowding. Trials that
// still run count as bad, so that parallel ones keep apart. At most `kernels` bad trials are looked at: the newest half
// of them and an even choice of the rest; that bounds the time of a question at any number of trials.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/searcher.h"

namespace muster::tuning {

struct Tpe {
  static constexpr std::string_view kName = "tpe";
  static constexpr std::string_view kHelp =
      "Learns which values good trials have (TPE); for choices, conditions and 30 trials or more.";

  std::int64_t startup = 10;
  std::int64_t candidates = 128;
  bool multivariate = true;
  double good = 0.1;
  std::int64_t most_good = 25;
  std::int64_t kernels = 500;
  double sharpness = 1.2;  // of every other proposal
  double curiosity = 0.4;  // part of the proposals that try one value of one choice

  void add_keys(Section& section);
  // Throws Error{kInvalidInput} for more than two objectives.
  std::unique_ptr<Searcher> make(const SearchProblem& problem) const;
};

}  // namespace muster::tuning
