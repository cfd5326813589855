// A random forest of regression trees over unit numbers, deterministic for a seed: what importance.h looks into.
//
// Each tree is grown on a bootstrap sample to leaves of at least three points; at each node every key is tried at every
// place where the value changes. A choice is cut by the order of its unit numbers. NaN (a key that is
// not active) lies below everything. Thread safety: constant after construction.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::tuning {

struct TreeNode {
  int key = -1;            // -1: a leaf
  double threshold = 0.0;  // left: below it
  std::size_t left = 0;
  std::size_t right = 0;
  double value = 0.0;  // of a leaf: the mean
};

struct Tree {
  std::vector<TreeNode> nodes;  // the root is the first
};

struct ForestOptions {
  std::size_t trees = 64;
  std::size_t least_in_leaf = 3;
  std::size_t deepest = 24;
};

// REQUIRES: rows and values are as many, at least one.
std::vector<Tree> grow_forest(const std::vector<std::vector<double>>& rows, const std::vector<double>& values,
                              std::uint64_t seed, const ForestOptions& options = {});

double predict(const Tree& tree, const std::vector<double>& row);

}  // namespace muster::tuning
