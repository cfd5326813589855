// BOHB's proposals: choose the resource, split its results, and let density_ratio.h do the rest.
// Results of other resources are not mixed in: a loss after one epoch says nothing beside one after nine.
#include "muster/tuning/searchers/bohb.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/tuning/encoded.h"
#include "muster/tuning/quasi_random.h"
#include "muster/tuning/searchers/density_ratio.h"

namespace muster::tuning {
namespace {

class BohbSearcher final : public Searcher {
 public:
  BohbSearcher(const SearchProblem& problem, const Bohb& options)
      : problem_(problem), options_(options), encoded_(problem_.space), even_(problem.space.size(), problem.seed) {}

  Proposal ask(const History& history, std::uint64_t number) override {
    encoded_.update(history);
    RandomStream random({.seed = problem_.seed, .purpose = Purpose::kSearch, .epoch = 7, .step = number});
    const bool by_chance = random.uniform() < options_.random;
    const std::uint64_t resource = by_chance ? 0 : resource_to_learn_from(history);
    if (resource == 0)
      return {.values = problem_.space.from_units(even_.point(number)),
              .reason = by_chance ? "spread evenly, as a part of all trials" : "spread evenly: too few results"};
    std::vector<std::pair<double, std::uint64_t>> results;
    for (const Trial& trial : history.trials()) {
      const Report* const report = trial.report_at(resource);
      if (report == nullptr || report->resource != resource) continue;
      const double value = loss(report->values[0], problem_.goals[0]);
      results.emplace_back(std::isnan(value) ? std::numeric_limits<double>::infinity() : value, trial.number);
    }
    const auto share = static_cast<std::size_t>(std::ceil(options_.good * static_cast<double>(results.size())));
    const std::size_t good = std::clamp<std::size_t>(share, 2, 25);
    std::nth_element(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(good) - 1, results.end());
    const Rows good_rows = rows_of(results, 0, good);
    const Rows bad_rows = rows_of(results, good, results.size());
    const RatioProposal proposal =
        best_ratio(problem_.space, good_rows, bad_rows, {.candidates = options_.candidates}, random);
    return {.values = proposal.values,
            .reason = fmt::format("{:.2g} times as likely among the {} best of {} at {} as among the others",
                                  std::exp(proposal.log_ratio), good, results.size(), resource)};
  }

 private:
  // The largest resource with enough reports; 0 if there is none.
  std::uint64_t resource_to_learn_from(const History& history) const {
    std::unordered_map<std::uint64_t, std::size_t> counts;
    for (const Trial& trial : history.trials()) {
      for (const Report& report : trial.reports)
        ++counts[report.resource];
    }
    const std::size_t enough = std::max<std::size_t>(
        options_.enough == 0 ? problem_.space.size() + 3 : static_cast<std::size_t>(options_.enough), 3);
    std::uint64_t largest = 0;
    for (const auto& [resource, count] : counts) {
      if (count >= enough) largest = std::max(largest, resource);
    }
    return largest;
  }

  Rows rows_of(const std::vector<std::pair<double, std::uint64_t>>& results, std::size_t begin, std::size_t end) const {
    std::vector<std::uint64_t> numbers;
    for (std::size_t i = begin; i < end; ++i)
      numbers.push_back(results[i].second);
    std::sort(numbers.begin(), numbers.end());
    Rows rows;
    for (const std::uint64_t number : numbers)
      rows.push_back(encoded_.row(number));
    return rows;
  }

  SearchProblem problem_;
  Bohb options_;
  Encoded encoded_;
  QuasiRandom even_;
};

}  // namespace

void Bohb::add_keys(Section& section) {
  section.field("random", &random, "The part of the trials that is spread evenly whatever is known.").range(0, 1);
  section.field("enough", &enough, "Results at a resource before it is learned from; 0: keys + 3.").range(0, 1e6);
  section.field("good", &good, "The share of the results that counts as good.").above(0.0).range(0.0, 0.5);
  section.field("candidates", &candidates, "Candidates of which the best is proposed.").range(1, 10000);
}

std::unique_ptr<Searcher> Bohb::make(const SearchProblem& problem) const {
  if (problem.goals.size() != 1)
    throw Error(ErrorKind::kInvalidInput, "bohb takes one objective", {}, "Use tpe for two.");
  if (problem.space.size() > 2000)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} keys are too many for bohb", problem.space.size()), {},
                "Use random.");
  return std::make_unique<BohbSearcher>(problem, *this);
}

}  // namespace muster::tuning
