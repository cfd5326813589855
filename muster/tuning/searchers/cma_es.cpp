// CMA-ES over trials: the distribution is a fold over the results in their order, kept while the history only grows.
// A history that is not the one before is folded from its beginning, so nothing depends on what was asked earlier.
#include "muster/tuning/searchers/cma_es.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/tuning/encoded.h"
#include "muster/tuning/quasi_random.h"
#include "muster/tuning/searchers/evolution.h"

namespace muster::tuning {
namespace {

struct Result {
  double loss = 0.0;
  std::vector<double> row;
};

// All that results have led to.
struct Fold {
  Evolution evolution;
  std::vector<std::vector<double>> choices;  // of each choice key, the probabilities
  std::vector<Result> batch;
  std::uint64_t results = 0;
  std::uint64_t restarts = 0;
};

class CmaEsSearcher final : public Searcher {
 public:
  CmaEsSearcher(const SearchProblem& problem, const CmaEs& options)
      : problem_(problem), options_(options), even_(problem.space.size(), problem.seed) {
    for (std::size_t key = 0; key < problem_.space.size(); ++key) {
      const Parameter& parameter = problem_.space.parameters()[key];
      if (parameter.kind == Kind::kChoice) {
        choices_.push_back(key);
      } else {
        numbers_.push_back(key);
      }
    }
    steps_ = QuasiRandom(numbers_.size(), problem.seed + 1);
    begin();
  }

  Proposal ask(const History& history, std::uint64_t number) override {
    if (history.events() < events_ || history.digest(events_) != digest_) begin();
    for (; seen_ < history.ended().size(); ++seen_)
      take(history.at(history.ended()[seen_]));
    events_ = history.events();
    digest_ = history.digest(events_);
    if (number < static_cast<std::uint64_t>(options_.startup))
      return {.values = problem_.space.from_units(even_.point(number)),
              .reason = "spread evenly before the first batch"};
    RandomStream random({.seed = problem_.seed, .purpose = Purpose::kSearch, .epoch = 4, .step = number});
    std::vector<double> units(problem_.space.size(), 0.5);
    const std::vector<double> point = fold_->evolution.sample(steps_.point(number), random);
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      units[numbers_[i]] = point[i];
    for (std::size_t i = 0; i < choices_.size(); ++i)
      units[choices_[i]] = drawn(fold_->choices[i], random);
    return {.values = problem_.space.from_units(units),
            .reason = fmt::format("from the distribution after {} results{}", fold_->results,
                                  fold_->restarts > 0 ? fmt::format(", begun anew {} times", fold_->restarts) : "")};
  }

 private:
  static double drawn(const std::vector<double>& probabilities, RandomStream& random) {
    double rest = random.uniform();
    std::size_t choice = 0;
    while (choice + 1 < probabilities.size() && rest >= probabilities[choice])
      rest -= probabilities[choice++];
    return (static_cast<double>(choice) + 0.5) / static_cast<double>(probabilities.size());
  }

  // The first distribution: around the middle, or around the best tenth of what is known from before.
  void begin() {
    seen_ = events_ = digest_ = 0;
    startup_.clear();
    std::vector<Result> known;
    for (const Known& one : problem_.known) {
      const std::optional<Assignment> fitting = problem_.space.fit(one.values);
      const double value = loss(one.result[0], problem_.goals[0]);
      if (fitting && std::isfinite(value)) known.push_back({value, encode(problem_.space, *fitting)});
    }
    std::vector<double> mean(numbers_.size(), 0.5);
    double sigma = options_.sigma;
    if (!known.empty()) {
      std::stable_sort(known.begin(), known.end(), [](const Result& a, const Result& b) { return a.loss < b.loss; });
      known.resize(std::max<std::size_t>(1, known.size() / 10));
      mean = mean_of(known);
      sigma *= 0.5;
    }
    start(std::move(mean), sigma, 0);
  }

  std::vector<double> mean_of(const std::vector<Result>& results) const {
    std::vector<double> mean;
    for (const std::size_t key : numbers_) {
      double sum = 0.0;
      double count = 0.0;
      for (const Result& result : results) {
        if (std::isnan(result.row[key])) continue;
        sum += result.row[key];
        count += 1.0;
      }
      mean.push_back(count > 0.0 ? sum / count : 0.5);
    }
    return mean;
  }

  void start(std::vector<double> mean, double sigma, std::uint64_t restarts) {
    auto lambda = static_cast<std::size_t>(options_.batch);
    if (lambda == 0) lambda = 4 + static_cast<std::size_t>(3.0 * std::log(static_cast<double>(problem_.space.size())));
    lambda <<= std::min<std::uint64_t>(restarts, 6);
    std::vector<double> floors;
    for (const std::size_t key : numbers_) {
      const std::optional<std::uint64_t> count = problem_.space.parameters()[key].count();
      floors.push_back(count ? std::min(0.3 / static_cast<double>(*count), 0.3) : 0.0);
    }
    std::vector<std::vector<double>> even;
    for (const std::size_t key : choices_) {
      const std::size_t count = problem_.space.parameters()[key].choices.size();
      even.emplace_back(count, 1.0 / static_cast<double>(count));
    }
    fold_.emplace(Fold{Evolution(std::move(mean), sigma, lambda, std::move(floors)),
                       std::move(even),
                       {},
                       fold_ && restarts > 0 ? fold_->results : 0,
                       restarts});
  }

  void take(const Trial& trial) {
    const std::vector<double>* const outcome = trial.outcome();
    double value =
        outcome == nullptr ? std::numeric_limits<double>::infinity() : loss((*outcome)[0], problem_.goals[0]);
    if (std::isnan(value)) value = std::numeric_limits<double>::infinity();
    ++fold_->results;
    Result result{value, encode(problem_.space, trial.values)};
    if (startup_.size() < static_cast<std::size_t>(options_.startup)) {
      startup_.push_back(std::move(result));
      if (startup_.size() < static_cast<std::size_t>(options_.startup)) return;
      const auto best = std::min_element(startup_.begin(), startup_.end(),
                                         [](const Result& a, const Result& b) { return a.loss < b.loss; });
      const std::uint64_t results = fold_->results;
      start(mean_of({*best}), options_.sigma, 0);
      fold_->results = results;
      return;
    }
    fold_->batch.push_back(std::move(result));
    if (fold_->batch.size() == fold_->evolution.lambda()) move();
  }

  void move() {
    std::vector<Result> batch = std::move(fold_->batch);
    fold_->batch.clear();
    std::stable_sort(batch.begin(), batch.end(), [](const Result& a, const Result& b) { return a.loss < b.loss; });
    std::vector<std::vector<double>> points;
    for (const Result& result : batch) {
      std::vector<double>& point = points.emplace_back();
      for (const std::size_t key : numbers_)
        point.push_back(result.row[key]);
    }
    fold_->evolution.update(points);
    for (std::size_t i = 0; i < choices_.size(); ++i)
      move_choice(fold_->choices[i], choices_[i], batch);
    const bool flat = batch.front().loss == batch.back().loss && batch.size() > 1;
    if (!fold_->evolution.converged() && !flat) return;
    const std::uint64_t again = fold_->restarts + 1;
    const std::vector<double> place = even_.point(again);
    std::vector<double> mean;
    for (const std::size_t key : numbers_)
      mean.push_back(place[key]);
    start(std::move(mean), options_.sigma, again);
  }

  void move_choice(std::vector<double>& probabilities, std::size_t key, const std::vector<Result>& batch) const {
    constexpr double kRate = 0.3;
    const auto count = static_cast<double>(probabilities.size());
    if (probabilities.size() < 2) return;
    std::vector<double> seen(probabilities.size());
    double sum = 0.0;
    for (std::size_t place = 0; place < batch.size() && fold_->evolution.weight(place) > 0.0; ++place) {
      if (std::isnan(batch[place].row[key])) continue;
      seen[static_cast<std::size_t>(batch[place].row[key] * count)] += fold_->evolution.weight(place);
      sum += fold_->evolution.weight(place);
    }
    if (sum == 0.0) return;
    const double floor = 0.2 / (static_cast<double>(fold_->evolution.lambda()) * (count - 1.0));
    double total = 0.0;
    for (std::size_t i = 0; i < probabilities.size(); ++i) {
      probabilities[i] = std::max((1.0 - kRate) * probabilities[i] + kRate * seen[i] / sum, floor);
      total += probabilities[i];
    }
    for (double& probability : probabilities)
      probability /= total;
  }

  SearchProblem problem_;
  CmaEs options_;
  QuasiRandom even_;                    // places to begin
  QuasiRandom steps_{0, std::nullopt};  // of each number, before they become steps of the distribution
  std::vector<std::size_t> numbers_;
  std::vector<std::size_t> choices_;
  // Kept between questions, while the history begins with the events that led to it.
  std::optional<Fold> fold_;
  std::vector<Result> startup_;
  std::size_t seen_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace

void CmaEs::add_keys(Section& section) {
  section.field("sigma", &sigma, "The first standard deviation, as a part of each key's range.").above(0.0).range(0, 1);
  section.field("batch", &batch, "Results that move the distribution together; 0: by the number of keys.")
      .range(0, 10000);
  section.field("startup", &startup, "Evenly spread trials, of which the best is the first middle.").range(0, 10000);
}

std::unique_ptr<Searcher> CmaEs::make(const SearchProblem& problem) const {
  if (problem.goals.size() != 1)
    throw Error(ErrorKind::kInvalidInput, "cma_es takes one objective", {}, "Use tpe for two.");
  const auto& parameters = problem.space.parameters();
  if (std::none_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.kind != Kind::kChoice; }))
    throw Error(ErrorKind::kInvalidInput, "cma_es needs a number in the space", {}, "Use tpe for choices alone.");
  if (batch == 1 || batch == 2)
    throw Error(ErrorKind::kInvalidInput, "a batch of cma_es has at least 3 results", "batch");
  return std::make_unique<CmaEsSearcher>(problem, *this);
}

}  // namespace muster::tuning
