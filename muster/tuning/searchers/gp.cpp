// Expected improvement: the model, candidates everywhere and near the best, and a short climb from the most promising.
// Places are judged as a trial would have them: rounded, and without the keys that are not active.
#include "muster/tuning/searchers/gp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/tuning/encoded.h"
#include "muster/tuning/quasi_random.h"
#include "muster/tuning/searchers/gaussian_process.h"
#include "muster/tuning/searchers/tpe.h"

namespace muster::tuning {
namespace {

struct Data {
  std::vector<std::vector<double>> rows;
  std::vector<double> losses;
  std::vector<std::vector<double>> running;
};

struct Spot {
  std::vector<double> units;
  double log_improvement = -std::numeric_limits<double>::infinity();
};

// The logarithm of E[max(best - y, 0)], also where it is far too small for a double.
double log_expected_improvement(const GaussianProcess::Prediction& at, double best) {
  const double z = (best - at.mean) / at.deviation;
  const double log_density = -0.5 * z * z - 0.5 * std::log(2.0 * M_PI);
  if (z < -6.0) return std::log(at.deviation) + log_density - 2.0 * std::log(-z);
  const double below = 0.5 * std::erfc(-z * M_SQRT1_2);
  return std::log(at.deviation) + std::log(std::max(std::exp(log_density) + z * below, 1e-300));
}

// In medians above the best, by the logarithm; then mean 0 and deviation 1.
std::vector<double> compressed(const std::vector<double>& losses) {
  std::vector<double> sorted = losses;
  std::sort(sorted.begin(), sorted.end());
  const double range = sorted.back() - sorted.front();
  const double unit = range > 0.0 ? std::max(sorted[sorted.size() / 2] - sorted.front(), 1e-9 * range) : 1.0;
  std::vector<double> values;
  double sum = 0.0, squares = 0.0;
  for (const double one : losses) {
    values.push_back(std::log1p((one - sorted.front()) / unit));
    sum += values.back();
    squares += values.back() * values.back();
  }
  const auto n = static_cast<double>(losses.size());
  const double deviation = std::sqrt(std::max(squares / n - sum * sum / n / n, 0.0));
  for (double& value : values)
    value = (value - sum / n) / (deviation > 0.0 ? deviation : 1.0);
  return values;
}

class GpSearcher final : public Searcher {
 public:
  GpSearcher(const SearchProblem& problem, const GpSearch& options)
      : problem_(problem), options_(options), even_(problem.space.size(), problem.seed), later_(Tpe{}.make(problem)) {}

  Proposal ask(const History& history, std::uint64_t number) override {
    if (history.ended().size() + problem_.known.size() > static_cast<std::size_t>(options_.most))
      return later_->ask(history, number);
    const Data data = collect(history);
    if (data.rows.size() < static_cast<std::size_t>(options_.startup))
      return {.values = problem_.space.from_units(even_.point(number)),
              .reason = fmt::format("spread evenly: {} of {} results before there is a model", data.rows.size(),
                                    options_.startup)};
    std::vector<std::vector<double>> rows = data.rows;
    std::vector<double> values = compressed(data.losses);
    const double best = *std::min_element(values.begin(), values.end());
    GaussianProcess model(problem_.space, rows, values);
    if (!data.running.empty()) {
      for (const std::vector<double>& row : data.running) {
        rows.push_back(row);
        values.push_back(model.predict(row).mean);
      }
      model = GaussianProcess(problem_.space, rows, values);
    }
    RandomStream random({.seed = problem_.seed, .purpose = Purpose::kSearch, .epoch = 5, .step = number});
    const Spot spot = best_spot(model, rows, values, best, random);
    const GaussianProcess::Prediction at = model.predict(spot.units);
    return {.values = assigned(spot.units),
            .reason = fmt::format("expected {:.2g} deviations {} the best, uncertain by {:.2g}",
                                  std::abs(at.mean - best), at.mean < best ? "below" : "above", at.deviation)};
  }

 private:
  Data collect(const History& history) const {
    Data data;
    double worst = -std::numeric_limits<double>::infinity();
    std::vector<std::size_t> failed;
    const auto add = [&](std::vector<double> row, double value) {
      if (std::isfinite(value)) {
        value = std::clamp(value, -1e150, 1e150);  // differences must be numbers
        worst = std::max(worst, value);
      } else {
        failed.push_back(data.rows.size());
      }
      data.rows.push_back(std::move(row));
      data.losses.push_back(value);
    };
    for (const Known& known : problem_.known) {
      if (const std::optional<Assignment> fitting = problem_.space.fit(known.values))
        add(encode(problem_.space, *fitting), loss(known.result[0], problem_.goals[0]));
    }
    for (const Trial& trial : history.trials()) {
      const std::vector<double>* const outcome = trial.outcome();
      if (ended(trial.state)) {
        add(encode(problem_.space, trial.values),
            outcome == nullptr ? std::nan("") : loss((*outcome)[0], problem_.goals[0]));
      } else {
        data.running.push_back(encode(problem_.space, trial.values));
      }
    }
    for (const std::size_t i : failed)
      data.losses[i] = std::isfinite(worst) ? worst : 0.0;
    return data;
  }

  Assignment assigned(const std::vector<double>& units) const {
    std::vector<double> whole = units;
    for (double& unit : whole)
      unit = std::isnan(unit) ? 0.5 : unit;
    return problem_.space.from_units(whole);
  }

  // As a trial would have it: rounded, and without the keys that are not active.
  Spot judged(const GaussianProcess& model, const std::vector<double>& units, double best) const {
    Spot spot{encode(problem_.space, assigned(units))};
    spot.log_improvement = log_expected_improvement(model.predict(spot.units), best);
    return spot;
  }

  std::vector<double> near(const std::vector<double>& center, double width, RandomStream& random) const {
    std::vector<double> units = center;
    const bool one = random.uniform() < 0.5;  // a single key, or all of them
    const std::size_t chosen = random.below(units.size());
    for (std::size_t key = 0; key < units.size(); ++key) {
      const double step = random.normal();
      const double anew = random.uniform();
      if (one && key != chosen) continue;
      const bool choice = problem_.space.parameters()[key].kind == Kind::kChoice;
      if (choice || std::isnan(units[key])) {
        if (one || random.uniform() < 0.2) units[key] = anew;
      } else {
        const double to = units[key] + width * step;
        units[key] = to < 0.0 ? std::min(-to, 1.0) : to > 1.0 ? std::max(2.0 - to, 0.0) : to;
      }
    }
    return units;
  }

  Spot best_spot(const GaussianProcess& model, const std::vector<std::vector<double>>& rows,
                 const std::vector<double>& values, double best, RandomStream& random) const {
    std::vector<std::size_t> order(rows.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] < values[b]; });
    std::vector<Spot> spots;
    for (std::int64_t i = 0; i < options_.candidates; ++i) {
      std::vector<double> units(problem_.space.size());
      if (i % 3 == 0) {
        units =
            near(rows[order[static_cast<std::size_t>(i / 3) % std::min<std::size_t>(5, order.size())]], 0.1, random);
      } else {
        for (double& unit : units)
          unit = random.uniform();
      }
      spots.push_back(judged(model, units, best));
    }
    constexpr std::size_t kClimbers = 5;
    const std::size_t climbers = std::min(kClimbers, spots.size());
    std::partial_sort(spots.begin(), spots.begin() + static_cast<std::ptrdiff_t>(climbers), spots.end(),
                      [](const Spot& a, const Spot& b) { return a.log_improvement > b.log_improvement; });
    for (std::size_t i = 0; i < climbers; ++i)
      climb(model, spots[i], best, random);
    return *std::max_element(spots.begin(), spots.begin() + static_cast<std::ptrdiff_t>(climbers),
                             [](const Spot& a, const Spot& b) { return a.log_improvement < b.log_improvement; });
  }

  void climb(const GaussianProcess& model, Spot& spot, double best, RandomStream& random) const {
    double width = 0.1;
    for (int step = 0; step < 100 && width > 1e-5; ++step) {
      Spot next = judged(model, near(spot.units, width, random), best);
      if (next.log_improvement > spot.log_improvement) {
        spot = std::move(next);
        width *= 1.5;
      } else {
        width *= 0.9;
      }
    }
  }

  SearchProblem problem_;
  GpSearch options_;
  QuasiRandom even_;
  std::unique_ptr<Searcher> later_;
};

}  // namespace

void GpSearch::add_keys(Section& section) {
  section.field("startup", &startup, "Results before there is a model; until then trials are spread evenly.")
      .range(2, 1000);
  section.field("candidates", &candidates, "Places that are looked at before the best of them are refined.")
      .range(10, 1e5);
  section.field("most", &most, "Results up to which the model is used; beyond, tpe proposes.").range(2, 500);
}

std::unique_ptr<Searcher> GpSearch::make(const SearchProblem& problem) const {
  if (problem.goals.size() != 1)
    throw Error(ErrorKind::kInvalidInput, "gp takes one objective", {}, "Use tpe for two.");
  if (problem.space.size() > 50 || problem.space.size() == 0)
    throw Error(ErrorKind::kInvalidInput, fmt::format("gp takes 1 to 50 keys, not {}", problem.space.size()), {},
                "Use tpe.");
  return std::make_unique<GpSearcher>(problem, *this);
}

}  // namespace muster::tuning
