// Random search: a stream of its own for each number, so that who asks first does not matter.
// History and order play no part.
#include "muster/tuning/searchers/random.h"

#include "muster/base/random.h"

namespace muster::tuning {
namespace {

class RandomSearcher final : public Searcher {
 public:
  explicit RandomSearcher(const SearchProblem& problem) : space_(problem.space), seed_(problem.seed) {}

  Proposal ask(const History&, std::uint64_t number) override {
    RandomStream random({.seed = seed_, .purpose = Purpose::kSearch, .epoch = 2, .step = number});
    std::vector<double> units(space_.size());
    for (double& unit : units)
      unit = random.uniform();
    return {.values = space_.from_units(units), .reason = "by chance"};
  }

 private:
  Space space_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Searcher> RandomSearch::make(const SearchProblem& problem) const {
  return std::make_unique<RandomSearcher>(problem);
}

}  // namespace muster::tuning
