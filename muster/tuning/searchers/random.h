// Every value by chance, each trial for itself: the yardstick, and what needs no order of results.
#pragma once

#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/searcher.h"

namespace muster::tuning {

struct RandomSearch {
  static constexpr std::string_view kName = "random";
  static constexpr std::string_view kHelp = "Values by chance; a yardstick for the others.";

  void add_keys(Section&) {}
  std::unique_ptr<Searcher> make(const SearchProblem& problem) const;
};

}  // namespace muster::tuning
