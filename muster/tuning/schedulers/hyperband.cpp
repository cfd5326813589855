// Hyperband: bracket s of s_max .. 0 begins ceil((s_max + 1) / (s + 1) * eta^s) trials at the resource R * eta^-s.
// How a bracket goes is brackets.h. After the last kind of bracket the first one comes again.
#include "muster/tuning/schedulers/hyperband.h"

#include <algorithm>
#include <cmath>

#include "muster/tuning/schedulers/brackets.h"
#include "muster/tuning/turns.h"

namespace muster::tuning {

void Hyperband::add_keys(Section& section) {
  section.field("eta", &eta, "The best 1/eta of a rung go on, eta times as far.").above(1.0).range(1.0, 100.0);
  section.field("least", &least, "The resource (epochs) of the shortest first rung.").range(1, 1e9);
}

std::unique_ptr<Scheduler> Hyperband::make(const ScheduleProblem& problem) const {
  check_rungs(kName, static_cast<std::uint64_t>(least), problem.max_resource);
  const auto most = static_cast<double>(problem.max_resource);
  const auto s_max = static_cast<std::uint64_t>(std::log(most / static_cast<double>(least)) / std::log(eta) + 1e-9);
  std::vector<Bracket> brackets;
  for (std::uint64_t s = s_max + 1; s-- > 0;) {
    Bracket& bracket = brackets.emplace_back();
    const auto depth = static_cast<double>(s);
    bracket.size = static_cast<std::uint64_t>(
        std::ceil(static_cast<double>(s_max + 1) / (depth + 1.0) * std::pow(eta, depth) - 1e-9));
    for (std::uint64_t k = s; k > 0; --k) {
      const auto rung = static_cast<std::uint64_t>(std::llround(most * std::pow(eta, -static_cast<double>(k))));
      bracket.rungs.push_back(std::max<std::uint64_t>(rung, 1));
    }
    bracket.rungs.push_back(problem.max_resource);
  }
  return std::make_unique<Brackets>(problem, eta,
                                    [brackets](std::uint64_t group) { return brackets[group % brackets.size()]; });
}

}  // namespace muster::tuning
