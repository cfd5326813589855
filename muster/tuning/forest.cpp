// Trees by the largest drop of the sum of squares over all keys and places; the bootstrap samples make them differ.
// Places are cut half-way between two values that differ; equal gains leave the first one.
#include "muster/tuning/forest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/random.h"

namespace muster::tuning {
namespace {

// Where a value lies on its axis: what is not active lies below everything.
double place(double unit) {
  return std::isnan(unit) ? -1.0 : unit;
}

struct Cut {
  int key = -1;
  double threshold = 0.0;
  double gain = 0.0;
};

class Grower {
 public:
  Grower(const std::vector<std::vector<double>>& rows, const std::vector<double>& values, const ForestOptions& options,
         RandomStream random)
      : rows_(rows), values_(values), options_(options), random_(random) {}

  Tree grow() {
    std::vector<std::size_t> sample(rows_.size());
    for (std::size_t& one : sample)
      one = random_.below(rows_.size());
    grow_node(std::move(sample), 0);
    return std::move(tree_);
  }

 private:
  std::size_t grow_node(std::vector<std::size_t> sample, std::size_t depth) {
    const std::size_t number = tree_.nodes.size();
    tree_.nodes.emplace_back();
    double sum = 0.0;
    for (const std::size_t one : sample)
      sum += values_[one];
    tree_.nodes[number].value = sum / static_cast<double>(sample.size());
    const Cut cut = depth < options_.deepest ? best_cut(sample, sum) : Cut{};
    if (cut.key < 0) return number;
    const auto middle = std::stable_partition(sample.begin(), sample.end(), [&](std::size_t one) {
      return place(rows_[one][static_cast<std::size_t>(cut.key)]) < cut.threshold;
    });
    std::vector<std::size_t> above(middle, sample.end());
    sample.erase(middle, sample.end());
    const std::size_t left = grow_node(std::move(sample), depth + 1);
    const std::size_t right = grow_node(std::move(above), depth + 1);
    TreeNode& node = tree_.nodes[number];
    node.key = cut.key;
    node.threshold = cut.threshold;
    node.left = left;
    node.right = right;
    return number;
  }

  Cut best_cut(std::vector<std::size_t>& sample, double sum) const {
    Cut best;
    for (std::size_t key = 0; key < rows_.front().size(); ++key)
      try_key(sample, key, sum, best);
    return best;
  }

  void try_key(std::vector<std::size_t>& sample, std::size_t key, double sum, Cut& best) const {
    const auto at = [&](std::size_t i) { return place(rows_[sample[i]][key]); };
    std::sort(sample.begin(), sample.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(place(rows_[a][key]), a) < std::pair(place(rows_[b][key]), b);
    });
    const auto count = static_cast<double>(sample.size());
    double below = 0.0;
    for (std::size_t i = 0; i + 1 < sample.size(); ++i) {
      below += values_[sample[i]];
      const std::size_t left = i + 1;
      if (left < options_.least_in_leaf || sample.size() - left < options_.least_in_leaf || at(i) == at(i + 1))
        continue;
      const auto l = static_cast<double>(left);
      const double gain = below * below / l + (sum - below) * (sum - below) / (count - l) - sum * sum / count;
      if (gain > best.gain + 1e-12 * std::abs(best.gain))
        best = {static_cast<int>(key), 0.5 * (at(i) + at(i + 1)), gain};
    }
  }

  const std::vector<std::vector<double>>& rows_;
  const std::vector<double>& values_;
  const ForestOptions& options_;
  RandomStream random_;
  Tree tree_;
};

}  // namespace

std::vector<Tree> grow_forest(const std::vector<std::vector<double>>& rows, const std::vector<double>& values,
                              std::uint64_t seed, const ForestOptions& options) {
  std::vector<Tree> forest;
  for (std::size_t tree = 0; tree < options.trees; ++tree) {
    RandomStream random({.seed = seed, .purpose = Purpose::kSearch, .epoch = 6, .step = tree});
    forest.push_back(Grower(rows, values, options, random).grow());
  }
  return forest;
}

double predict(const Tree& tree, const std::vector<double>& row) {
  const TreeNode* node = &tree.nodes.front();
  while (node->key >= 0)
    node = &tree.nodes[place(row[static_cast<std::size_t>(node->key)]) < node->threshold ? node->left : node->right];
  return node->value;
}

}  // namespace muster::tuning
