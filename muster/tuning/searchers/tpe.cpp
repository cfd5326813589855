// TPE: which trials are good, which are bad; the rest is density_ratio.h's.
// Observations are kept in their order from one question to the next, and only trials that something has happened to
// are looked at again, so that long histories stay cheap.
#include "muster/tuning/searchers/tpe.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/tuning/encoded.h"
#include "muster/tuning/pareto.h"
#include "muster/tuning/quasi_random.h"
#include "muster/tuning/searchers/density_ratio.h"

namespace muster::tuning {
namespace {

enum class Weight { kWhole, kPart, kFailed };

// A trial, or a result of an earlier study, as something to rank.
struct Observation {
  Weight weight = Weight::kWhole;
  std::uint64_t resource = 0;  // of kPart
  double loss = 0.0;           // with two objectives: the rank, and crowding behind it
  std::size_t row = 0;

  bool operator<(const Observation& other) const {
    if (weight != other.weight) return weight < other.weight;
    if (weight == Weight::kPart && resource != other.resource) return resource > other.resource;
    if (loss != other.loss) return loss < other.loss;
    return row < other.row;
  }
};

// How far apart the neighbours of each point are inside of its front: to be spread out is to be good (NSGA-II).
std::vector<double> crowding(const std::vector<std::vector<double>>& losses, const std::vector<std::size_t>& ranks) {
  std::vector<double> apart(losses.size());
  std::vector<std::size_t> order(losses.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    std::sort(order.begin(), order.end(), [&](auto a, auto b) {
      return std::pair(ranks[a], losses[a][axis]) < std::pair(ranks[b], losses[b][axis]);
    });
    const double range = std::max(losses[order.back()][axis] - losses[order.front()][axis], 1e-300);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool first = i == 0 || ranks[order[i - 1]] != ranks[order[i]];
      const bool last = i + 1 == order.size() || ranks[order[i + 1]] != ranks[order[i]];
      apart[order[i]] += first || last ? std::numeric_limits<double>::infinity()
                                       : std::abs(losses[order[i + 1]][axis] - losses[order[i - 1]][axis]) / range;
    }
  }
  return apart;
}

// Makes one number of two objectives: the rank, and a part of 1 that is smaller the more room a point has.
void rank_two(std::vector<Observation>& observations, const std::vector<std::vector<double>>& losses) {
  std::vector<std::vector<double>> finite;
  std::vector<std::size_t> whose;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    if (observations[i].weight == Weight::kFailed) continue;
    finite.push_back(losses[i]);
    for (double& one : finite.back())
      one = std::clamp(one, -1e150, 1e150);  // differences must be numbers
    whose.push_back(i);
  }
  if (finite.empty()) return;
  const std::vector<std::size_t> ranks = pareto_ranks(finite);
  const std::vector<double> apart = crowding(finite, ranks);
  for (std::size_t i = 0; i < finite.size(); ++i)
    observations[whose[i]].loss = static_cast<double>(ranks[i]) + 0.9 / (1.0 + apart[i]);
}

class TpeSearcher final : public Searcher {
 public:
  TpeSearcher(const SearchProblem& problem, const Tpe& options)
      : problem_(problem), options_(options), encoded_(problem_.space), even_(problem.space.size(), problem.seed) {
    for (std::size_t key = 0; key < problem_.space.size(); ++key) {
      const Parameter& parameter = problem_.space.parameters()[key];
      if (parameter.kind == Kind::kChoice && parameter.when.empty() && parameter.choices.size() > 1)
        choices_.push_back(key);
    }
    for (const Known& known : problem_.known) {
      if (const std::optional<Assignment> fitting = problem_.space.fit(known.values)) {
        known_rows_.push_back(encode(problem_.space, *fitting));
        known_losses_.push_back(losses_of(known.result));
      }
    }
  }

  Proposal ask(const History& history, std::uint64_t number) override {
    encoded_.update(history);
    observe(history);
    const auto startup = static_cast<std::size_t>(options_.startup);
    if (observations_.size() < startup)
      return {.values = problem_.space.from_units(even_.point(number)),
              .reason = fmt::format("spread evenly: {} of {} results before there is a model", observations_.size(),
                                    startup)};
    RandomStream random({.seed = problem_.seed, .purpose = Purpose::kSearch, .epoch = 3, .step = number});
    const std::optional<Branch> branch = curious(random);
    Rows running;
    for (const std::size_t one : running_) {
      if (fits(one, branch)) running.push_back(row(one));
    }
    const Sides sides = problem_.goals.size() == 2 ? split(by_rank(history), branch) : split(observations_, branch);
    return propose(sides, running, branch, random, number);
  }

 private:
  // One value of one choice, of which the best is looked for apart from all others.
  struct Branch {
    std::size_t key = 0;
    double unit = 0.0;
    Assignment fixed = {};
  };

  // Without this a choice that looked bad in its first trials would not be tried again.
  std::optional<Branch> curious(RandomStream& random) const {
    const double whether = random.uniform();
    const double which = random.uniform();
    const double value = random.uniform();
    if (whether >= options_.curiosity || choices_.empty()) return std::nullopt;
    const std::size_t key = choices_[static_cast<std::size_t>(which * static_cast<double>(choices_.size()))];
    const Parameter& parameter = problem_.space.parameters()[key];
    const Value chosen = parameter.from_unit(value);
    return Branch{key, parameter.to_unit(chosen), {{parameter.name, chosen}}};
  }

  bool fits(std::size_t number, const std::optional<Branch>& branch) const {
    return !branch || row(number)[branch->key] == branch->unit;
  }

  // Rows of good observations and of the others, each from the oldest on.
  struct Sides {
    std::vector<std::size_t> good;
    std::vector<std::size_t> bad;
  };

  // `order`: all observations, the best first.
  template <typename Order>
  Sides split(const Order& order, const std::optional<Branch>& branch) const {
    std::vector<std::size_t> told;
    for (std::size_t number = 0; number < known_rows_.size() + of_trial_.size(); ++number) {
      const bool known = number < known_rows_.size() || of_trial_[number - known_rows_.size()];
      if (known && fits(number, branch)) told.push_back(number);
    }
    const auto wanted = static_cast<std::size_t>(std::ceil(options_.good * static_cast<double>(told.size())));
    const std::size_t good = std::min(wanted, static_cast<std::size_t>(options_.most_good));
    Sides sides;
    for (const Observation& one : order) {
      if (sides.good.size() == good) break;
      if (fits(one.row, branch)) sides.good.push_back(one.row);
    }
    std::sort(sides.good.begin(), sides.good.end());
    std::set_difference(told.begin(), told.end(), sides.good.begin(), sides.good.end(), std::back_inserter(sides.bad));
    return sides;
  }

  Proposal propose(const Sides& sides, const Rows& running, const std::optional<Branch>& branch, RandomStream& random,
                   std::uint64_t number) const {
    const std::size_t good = sides.good.size();
    const Rows good_rows = rows_of(sides.good);
    Rows bad_rows = rows_of(sides.bad);
    bad_rows.insert(bad_rows.end(), running.begin(), running.end());
    const bool refines = number % 2 == 1;
    const RatioProposal proposal =
        best_ratio(problem_.space, good_rows, bad_rows,
                   {.candidates = refines ? (options_.candidates + 2) / 3 : options_.candidates,
                    .multivariate = options_.multivariate,
                    .kernels = static_cast<std::size_t>(options_.kernels),
                    .parzen = {.sharpness = refines ? options_.sharpness : 1.0}},
                   random, branch ? branch->fixed : Assignment());
    return {.values = proposal.values,
            .reason = fmt::format("{:.2g} times as likely among the {} best of {}{} as among the others",
                                  std::exp(proposal.log_ratio), good, good + sides.bad.size(),
                                  branch ? " with " + branch->fixed.text() : "")};
  }

  std::vector<double> losses_of(const std::vector<double>& values) const {
    std::vector<double> losses;
    for (std::size_t i = 0; i < problem_.goals.size(); ++i)
      losses.push_back(loss(values[i], problem_.goals[i]));
    return losses;
  }

  // Rows are numbered: those of earlier studies first, then the trials.
  std::span<const double> row(std::size_t number) const {
    if (number < known_rows_.size()) return known_rows_[number];
    return encoded_.row(number - known_rows_.size());
  }

  Rows rows_of(const std::vector<std::size_t>& numbers) const {
    Rows rows;
    rows.reserve(numbers.size());
    for (const std::size_t number : numbers)
      rows.push_back(row(number));
    return rows;
  }

  // What a trial, or a result of an earlier study, has to tell; nothing if that is not known yet.
  std::optional<Observation> observed(const Trial& trial, std::size_t number) const {
    const std::vector<double>* const outcome = trial.outcome();
    if (trial.state == State::kFailed) return Observation{.weight = Weight::kFailed, .row = number};
    if (outcome == nullptr || !(ended(trial.state) || trial.state == State::kPaused)) return std::nullopt;
    return weighed({.weight = trial.state == State::kFinished ? Weight::kWhole : Weight::kPart,
                    .resource = trial.resource(),
                    .row = number},
                   losses_of(*outcome));
  }

  static Observation weighed(Observation observation, const std::vector<double>& losses) {
    for (const double one : losses) {
      if (!std::isfinite(one)) observation.weight = Weight::kFailed;
    }
    observation.loss = observation.weight == Weight::kFailed ? 0 : losses[0];
    return observation;
  }

  // Takes in what has happened since the last question, or all of it, where that was about another history.
  void observe(const History& history) {
    if (history.events() < events_ || history.digest(events_) != digest_) {
      observations_.clear();
      running_.clear();
      of_trial_.clear();
      events_ = 0;
    }
    if (events_ == 0 && observations_.empty()) {
      for (std::size_t i = 0; i < known_rows_.size(); ++i)
        observations_.insert(weighed({.row = i}, known_losses_[i]));
    }
    std::set<std::uint64_t> changed;
    for (; events_ < history.events(); ++events_)
      changed.insert(history.subject(events_));
    digest_ = history.digest(events_);
    of_trial_.resize(history.size());
    for (const std::uint64_t trial : changed) {
      const std::size_t number = known_rows_.size() + trial;
      if (of_trial_[trial]) observations_.erase(*of_trial_[trial]);
      running_.erase(number);
      of_trial_[trial] = observed(history.at(trial), number);
      if (of_trial_[trial]) observations_.insert(*of_trial_[trial]);
      if (!of_trial_[trial] && !ended(history.at(trial).state)) running_.insert(number);
    }
  }

  // Of two objectives: all observations by rank and room.
  std::vector<Observation> by_rank(const History& history) const {
    std::vector<Observation> observations(observations_.begin(), observations_.end());
    std::vector<std::vector<double>> losses;
    for (const Observation& one : observations) {
      if (one.weight == Weight::kFailed)
        losses.emplace_back();
      else if (one.row < known_losses_.size())
        losses.push_back(known_losses_[one.row]);
      else
        losses.push_back(losses_of(*history.at(one.row - known_rows_.size()).outcome()));
    }
    rank_two(observations, losses);
    std::sort(observations.begin(), observations.end());
    return observations;
  }

  SearchProblem problem_;
  Tpe options_;
  Encoded encoded_;
  QuasiRandom even_;
  std::vector<std::size_t> choices_;  // keys that are a choice in every trial, with something to choose
  std::vector<std::vector<double>> known_rows_;
  std::vector<std::vector<double>> known_losses_;
  // What is kept from question to question.
  std::uint64_t events_ = 0;  // of the history that are in it
  std::uint64_t digest_ = 0;
  std::set<Observation> observations_;                // the best first
  std::vector<std::optional<Observation>> of_trial_;  // what each trial has there
  std::set<std::size_t> running_;                     // rows of trials that have nothing to tell yet
};

}  // namespace

void Tpe::add_keys(Section& section) {
  section.field("startup", &startup, "Results before there is a model; until then trials are spread evenly.")
      .range(1, 1e6);
  section.field("candidates", &candidates, "Candidates of which the best is proposed.").range(1, 10000);
  section.field("multivariate", &multivariate, "Choose all keys together; false: each for itself.");
  section.field("good", &good, "The share of the trials that counts as good.").above(0.0).range(0.0, 0.5);
  section.field("most_good", &most_good, "At most so many count as good.").range(1, 1000);
  section.field("kernels", &kernels, "Of the other trials at most so many are looked at.").range(10, 100000);
  section.field("sharpness", &sharpness, "How narrow the kernels of every other proposal may become; 1: as the others.")
      .range(0, 2);
  section.field("curiosity", &curiosity, "The part of the proposals that look for the best with one value of a choice.")
      .range(0, 1);
}

std::unique_ptr<Searcher> Tpe::make(const SearchProblem& problem) const {
  if (problem.goals.size() > 2)
    throw Error(ErrorKind::kInvalidInput, fmt::format("tpe takes one or two objectives, not {}", problem.goals.size()),
                {}, "Give two, or use random or sobol.");
  if (problem.space.size() > 2000)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} keys are too many for tpe", problem.space.size()), {},
                "Use random.");
  return std::make_unique<TpeSearcher>(problem, *this);
}

}  // namespace muster::tuning
