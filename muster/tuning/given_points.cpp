// Trial n of the first ones, copies of others not counted, is given point n; all others are the inner searcher's, which
// knows the history as it is. Points are brought into the types of the space once, at the start, where a bad one is
// refused.
#include "muster/tuning/given_points.h"

#include <fmt/format.h>

namespace muster::tuning {
namespace {

class GivenPoints final : public Searcher {
 public:
  GivenPoints(std::vector<Assignment> points, std::unique_ptr<Searcher> inner)
      : points_(std::move(points)), inner_(std::move(inner)) {}

  Proposal ask(const History& history, std::uint64_t number) override {
    const std::uint64_t place = history.place_of_next(number);
    if (place >= points_.size()) return inner_->ask(history, number);
    return {.values = points_[place], .reason = fmt::format("given point {} of {}", place + 1, points_.size())};
  }
  std::optional<std::uint64_t> most() const override { return inner_->most(); }

 private:
  std::vector<Assignment> points_;
  std::unique_ptr<Searcher> inner_;
};

}  // namespace

std::unique_ptr<Searcher> given_points_first(const SearchProblem& problem, std::unique_ptr<Searcher> inner) {
  if (problem.points.empty()) return inner;
  std::vector<Assignment> points;
  for (const Assignment& point : problem.points) {
    problem.space.check(point);
    points.push_back(*problem.space.fit(point));
  }
  return std::make_unique<GivenPoints>(std::move(points), std::move(inner));
}

}  // namespace muster::tuning
