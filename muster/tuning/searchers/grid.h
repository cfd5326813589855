// Every combination once, in order: the last key of the space changes fastest.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/searcher.h"

namespace muster::tuning {

struct GridSearch {
  static constexpr std::string_view kName = "grid";
  static constexpr std::string_view kHelp = "Every combination once; for two or three keys with few values.";

  std::int64_t levels = 5;  // of a real number without a step, evenly from end to end

  void add_keys(Section& section);
  // Throws Error{kInvalidInput} for a grid of more than a million points.
  std::unique_ptr<Searcher> make(const SearchProblem& problem) const;
};

}  // namespace muster::tuning
