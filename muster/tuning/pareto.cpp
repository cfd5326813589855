// Non-dominated sorting. For two objectives by one sweep (n log n): sorted by the first, a point belongs to the first
// front whose last point has a larger second objective. For more, front by front.
#include "muster/tuning/pareto.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "muster/base/check.h"

namespace muster::tuning {
namespace {

std::vector<std::size_t> ranks_of_two(const std::vector<std::vector<double>>& losses) {
  std::vector<std::size_t> order(losses.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return losses[a] < losses[b]; });
  std::vector<std::size_t> ranks(losses.size());
  std::vector<std::size_t> last;  // of each front; their second objectives grow with the rank
  for (const std::size_t point : order) {
    // A front takes the point if its last one does not dominate it: larger second objective, or the very same point.
    const auto front = std::partition_point(last.begin(), last.end(), [&](std::size_t other) {
      return losses[other][1] <= losses[point][1] && losses[other] != losses[point];
    });
    ranks[point] = static_cast<std::size_t>(front - last.begin());
    if (front == last.end()) {
      last.push_back(point);
    } else {
      *front = point;
    }
  }
  return ranks;
}

}  // namespace

bool dominates(const std::vector<double>& a, const std::vector<double>& b) {
  bool better = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    better = better || a[i] < b[i];
  }
  return better;
}

std::vector<std::size_t> pareto_ranks(const std::vector<std::vector<double>>& losses) {
  if (losses.empty()) return {};
  if (losses.front().size() == 2) return ranks_of_two(losses);
  std::vector<std::size_t> ranks(losses.size());
  std::vector<std::size_t> left(losses.size());
  std::iota(left.begin(), left.end(), 0);
  for (std::size_t rank = 0; !left.empty(); ++rank) {
    std::vector<std::size_t> beaten;
    for (const std::size_t point : left) {
      const bool dominated = std::any_of(left.begin(), left.end(),
                                         [&](std::size_t other) { return dominates(losses[other], losses[point]); });
      if (dominated) {
        beaten.push_back(point);
      } else {
        ranks[point] = rank;
      }
    }
    left = std::move(beaten);
  }
  return ranks;
}

double hypervolume_2d(const std::vector<std::vector<double>>& losses, const std::vector<double>& reference) {
  std::vector<std::vector<double>> sorted = losses;
  std::sort(sorted.begin(), sorted.end());
  double area = 0.0;
  double lowest = reference[1];
  for (const std::vector<double>& point : sorted) {
    if (point[0] >= reference[0] || point[1] >= lowest) continue;
    area += (reference[0] - point[0]) * (lowest - point[1]);
    lowest = point[1];
  }
  return area;
}

std::vector<std::uint64_t> pareto_front(const History& history, const std::vector<Goal>& goals) {
  std::vector<std::vector<double>> losses;
  std::vector<std::uint64_t> numbers;
  for (const Trial& trial : history.trials()) {
    const std::vector<double>* const values = ended(trial.state) ? trial.outcome() : nullptr;
    if (values == nullptr) continue;
    std::vector<double> row;
    for (std::size_t i = 0; i < goals.size(); ++i)
      row.push_back(loss((*values)[i], goals[i]));
    if (!std::all_of(row.begin(), row.end(), [](double value) { return std::isfinite(value); })) continue;
    losses.push_back(std::move(row));
    numbers.push_back(trial.number);
  }
  const std::vector<std::size_t> ranks = pareto_ranks(losses);
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == 0) front.push_back(i);
  }
  std::stable_sort(front.begin(), front.end(), [&](auto a, auto b) { return losses[a] < losses[b]; });
  std::vector<std::uint64_t> on_front;
  for (const std::size_t i : front)
    on_front.push_back(numbers[i]);
  return on_front;
}

}  // namespace muster::tuning
