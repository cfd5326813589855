// Expected improvement under a Gaussian process: for trials that are expensive and few.
//
// The first trials are spread evenly. Then a model of all results (gaussian_process.h) says where the loss is expected
// to fall most below the best one; trials that still run are taken to give what the model expects of them, so that
// parallel ones keep apart. Losses are compressed (the logarithm of their distance from the best, in medians), which
// keeps a few very bad ones from hiding the valley. A failed trial counts as the worst one. The time of a question
// grows with the cube of the results: beyond `most` of them TPE with its default options takes over.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/searcher.h"

namespace muster::tuning {

struct GpSearch {
  static constexpr std::string_view kName = "gp";
  static constexpr std::string_view kHelp =
      "Expected improvement under a Gaussian process; for up to 100 expensive trials of a few keys.";

  std::int64_t startup = 8;
  std::int64_t candidates = 600;
  std::int64_t most = 150;

  void add_keys(Section& section);
  // Throws Error{kInvalidInput} for more than one objective or more than 50 keys.
  std::unique_ptr<Searcher> make(const SearchProblem& problem) const;
};

}  // namespace muster::tuning
