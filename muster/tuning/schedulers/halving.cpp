// Successive halving: brackets of one kind, one after the other.
// How a bracket goes is brackets.h; here is only which brackets there are.
#include "muster/tuning/schedulers/halving.h"

#include <cmath>

#include "muster/tuning/schedulers/brackets.h"
#include "muster/tuning/turns.h"

namespace muster::tuning {

void SuccessiveHalving::add_keys(Section& section) {
  section.field("eta", &eta, "The best 1/eta of a rung go on, eta times as far.").above(1.0).range(1.0, 100.0);
  section.field("least", &least, "The resource (epochs) of the first rung.").range(1, 1e9);
  section.field("width", &width, "Trials that begin together; 0: all of the study.").range(0, 1e6);
}

std::unique_ptr<Scheduler> SuccessiveHalving::make(const ScheduleProblem& problem) const {
  check_rungs(kName, static_cast<std::uint64_t>(least), problem.max_resource);
  Bracket bracket{.rungs = rungs(static_cast<std::uint64_t>(least), problem.max_resource, eta)};
  if (width > 0) {
    bracket.size = static_cast<std::uint64_t>(width);
  } else if (problem.trials > 0) {
    bracket.size = problem.trials;
  } else {
    bracket.size = static_cast<std::uint64_t>(std::ceil(std::pow(eta, static_cast<double>(bracket.rungs.size() - 1))));
  }
  return std::make_unique<Brackets>(problem, eta, [bracket](std::uint64_t) { return bracket; });
}

}  // namespace muster::tuning
