// fANOVA on the forest. A tree cuts the box of all values into leaves, each a box with a constant value, so the mean
// over all other keys, given one key, is a step function that is computed exactly: its variance over that key, divided
// by the variance of the tree over the box, is the key's share. Every key is weighed evenly over its unit interval; a
// key with conditions also has the place "not active" (below 0), weighed by how many of the trials lie there.
#include "muster/tuning/importance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/tuning/encoded.h"
#include "muster/tuning/forest.h"

namespace muster::tuning {
namespace {

constexpr double kInactive = -1.0;
constexpr std::size_t kFewest = 10;  // trials

// How much of a key's values lie in [low, high): the unit interval evenly, and what is not active at kInactive.
struct AxisMeasure {
  double inactive = 0.0;
  std::size_t cells = 0;  // of a choice or few steps: its values are points, in the middles of so many parts

  double operator()(double low, double high) const {
    const double outside = low <= kInactive && kInactive < high ? inactive : 0.0;
    const double from = std::clamp(low, 0.0, 1.0);
    const double to = std::clamp(high, 0.0, 1.0);
    if (cells == 0) return outside + (1.0 - inactive) * (to - from);
    const auto count = static_cast<double>(cells);
    const double points = std::ceil(to * count - 0.5) - std::ceil(from * count - 0.5);
    return outside + (1.0 - inactive) * points / count;
  }
};

struct Box {
  std::vector<double> low;
  std::vector<double> high;
  double value = 0.0;
};

void collect(const Tree& tree, std::size_t number, Box box, std::vector<Box>& leaves) {
  const TreeNode& node = tree.nodes[number];
  if (node.key < 0) {
    box.value = node.value;
    leaves.push_back(std::move(box));
    return;
  }
  const auto key = static_cast<std::size_t>(node.key);
  Box left = box;
  left.high[key] = std::min(left.high[key], node.threshold);
  collect(tree, node.left, std::move(left), leaves);
  box.low[key] = std::max(box.low[key], node.threshold);
  collect(tree, node.right, std::move(box), leaves);
}

class TreeVariance {
 public:
  TreeVariance(const Tree& tree, const std::vector<AxisMeasure>& axes) : axes_(axes) {
    collect(tree, 0, {std::vector<double>(axes.size(), -2.0), std::vector<double>(axes.size(), 2.0)}, leaves_);
    for (const Box& leaf : leaves_) {
      double weight = 1.0;
      for (std::size_t key = 0; key < axes.size(); ++key)
        weight *= axes[key](leaf.low[key], leaf.high[key]);
      weights_.push_back(weight);
      mean_ += weight * leaf.value;
    }
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      total_ += weights_[i] * (leaves_[i].value - mean_) * (leaves_[i].value - mean_);
  }

  double total() const { return total_; }

  // The variance of the mean over all other keys.
  double of_key(std::size_t key) const {
    std::vector<double> edges;
    for (const Box& leaf : leaves_) {
      edges.push_back(leaf.low[key]);
      edges.push_back(leaf.high[key]);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::vector<double> means(edges.size());
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const double own = axes_[key](leaves_[i].low[key], leaves_[i].high[key]);
      if (own <= 0.0) continue;
      const auto from = std::lower_bound(edges.begin(), edges.end(), leaves_[i].low[key]) - edges.begin();
      for (auto part = static_cast<std::size_t>(from); edges[part] < leaves_[i].high[key]; ++part)
        means[part] += weights_[i] / own * leaves_[i].value;
    }
    double variance = 0.0;
    for (std::size_t part = 0; part + 1 < edges.size(); ++part)
      variance += axes_[key](edges[part], edges[part + 1]) * (means[part] - mean_) * (means[part] - mean_);
    return variance;
  }

 private:
  const std::vector<AxisMeasure>& axes_;
  std::vector<Box> leaves_;
  std::vector<double> weights_;
  double mean_ = 0.0;
  double total_ = 0.0;
};

std::vector<AxisMeasure> measures(const Space& space, const std::vector<std::vector<double>>& rows) {
  constexpr std::uint64_t kMostCells = 64;
  std::vector<AxisMeasure> axes;
  for (std::size_t key = 0; key < space.size(); ++key) {
    const Parameter& parameter = space.parameters()[key];
    const auto inactive = static_cast<double>(
        std::count_if(rows.begin(), rows.end(), [&](const auto& row) { return std::isnan(row[key]); }));
    const std::uint64_t count = parameter.count().value_or(0);
    axes.push_back({inactive / static_cast<double>(rows.size()),
                    !parameter.log && count <= kMostCells ? static_cast<std::size_t>(count) : 0});
  }
  return axes;
}

}  // namespace

std::vector<Importance> importance(const Space& space, const History& history, std::size_t objective, Goal goal,
                                   std::uint64_t seed) {
  std::vector<std::vector<double>> rows;
  std::vector<double> losses;
  for (const Trial& trial : history.trials()) {
    const std::vector<double>* const outcome = ended(trial.state) ? trial.outcome() : nullptr;
    if (outcome == nullptr || !std::isfinite((*outcome)[objective])) continue;
    rows.push_back(encode(space, trial.values));
    losses.push_back(loss((*outcome)[objective], goal));
  }
  if (rows.size() < kFewest || std::all_of(losses.begin(), losses.end(), [&](double l) { return l == losses[0]; }))
    return {};
  const std::vector<AxisMeasure> axes = measures(space, rows);
  std::vector<double> shares(space.size());
  double counted = 0.0;
  for (const Tree& tree : grow_forest(rows, losses, seed)) {
    const TreeVariance variance(tree, axes);
    if (!(variance.total() > 0.0)) continue;
    counted += 1.0;
    for (std::size_t key = 0; key < space.size(); ++key)
      shares[key] += variance.of_key(key) / variance.total();
  }
  if (counted == 0.0) return {};  // too few for a tree to be cut anywhere
  std::vector<Importance> result;
  for (std::size_t key = 0; key < space.size(); ++key)
    result.push_back({space.parameters()[key].name, shares[key] / counted});
  return result;
}

}  // namespace muster::tuning
