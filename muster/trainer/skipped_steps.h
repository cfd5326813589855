// How many steps were skipped, because no gradient was finite: counted by a session, and kept by a run over all its
// lives (progress.h). No torch here.
#pragma once

#include <cstdint>

namespace muster::trainer {

struct SkippedSteps {
  std::uint64_t total = 0;
  std::uint64_t in_a_row = 0;  // up to the last committed step

  // Of each committed step, once.
  void count(bool applied) {
    if (!applied) ++total;
    in_a_row = applied ? 0 : in_a_row + 1;
  }
  bool operator==(const SkippedSteps&) const = default;
};

}  // namespace muster::trainer
