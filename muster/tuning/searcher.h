// Where to look next. A searcher is pure: what it proposes is a function of (problem, options, history, number), so
// that a study replays: the same seed and the same order of events give the same proposals, in every process.
//
// It may keep what it computed from a history (History::digest tells whether that still holds); an answer never depends
// on which calls were made before. So a resumed study needs no state of a searcher. Which there are: registry.h.
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/tuning/space.h"
#include "muster/tuning/trial.h"

namespace muster::tuning {

// What was found before this study, for a warm start. Values are in the terms of this study's objectives.
struct Known {
  Assignment values;
  std::vector<double> result;
};

struct SearchProblem {
  Space space = {};
  std::vector<Goal> goals = {Goal::kMinimise};
  std::uint64_t seed = 0;
  std::vector<Assignment> points = {};  // tried first, in this order, by every searcher
  std::vector<Known> known = {};        // finished trials of earlier studies; who does not fit the space is left out
  std::uint64_t trials = 0;             // how many there will be; 0: not known
};

struct Proposal {
  Assignment values = {};
  bool exhausted = false;   // nothing is left to try (a grid that is used up); `values` is empty then
  std::string reason = {};  // "random: trial 3 of 10 before the model", "expected improvement 0.02": in words
};

class Searcher {
 public:
  virtual ~Searcher() = default;
  // For trial `number`, which is not in `history` yet. REQUIRES: number >= history.size().
  // Never throws but for memory: what cannot be searched was refused when it was made.
  virtual Proposal ask(const History& history, std::uint64_t number) = 0;
  // How many it has to propose; empty: as many as one asks for.
  virtual std::optional<std::uint64_t> most() const { return std::nullopt; }
};

}  // namespace muster::tuning
