// Sobol search: trial n is point n of the scrambled sequence; of the plain one point n + 1, since its first is a
// corner.
#include "muster/tuning/searchers/sobol.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tuning/quasi_random.h"

namespace muster::tuning {
namespace {

class SobolSearcher final : public Searcher {
 public:
  SobolSearcher(const SearchProblem& problem, bool scramble)
      : space_(problem.space),
        points_(problem.space.size(), scramble ? std::optional(problem.seed) : std::nullopt),
        skipped_(scramble ? 0 : 1) {}

  Proposal ask(const History&, std::uint64_t number) override {
    const std::uint64_t index = number + skipped_;
    return {.values = space_.from_units(points_.point(index)), .reason = fmt::format("point {} of Sobol's", index)};
  }

 private:
  Space space_;
  QuasiRandom points_;
  std::uint64_t skipped_;
};

}  // namespace

void SobolSearch::add_keys(Section& section) {
  section.field("scramble", &scramble, "Turn the points by the seed; without it every study has the same ones.");
}

std::unique_ptr<Searcher> SobolSearch::make(const SearchProblem& problem) const {
  if (problem.space.size() > 2000)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} keys are too many for sobol", problem.space.size()), {},
                "Use random.");
  return std::make_unique<SobolSearcher>(problem, scramble);
}

}  // namespace muster::tuning
