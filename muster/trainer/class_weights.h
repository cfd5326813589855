// How much samples of a class count in the loss, for data of which some classes have few. No torch here.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/dataset.h"

namespace muster::trainer {

struct ClassWeights {
  bool balanced = false;  // samples / (classes * samples of the class): the mean over the samples is 1
  std::vector<std::pair<std::string, double>> named = {};

  bool any() const { return balanced || !named.empty(); }
};

// Words as loss.class_weights has them: "balanced" alone, or CLASS=WEIGHT. Throws Error{kInvalidInput} naming the word.
ClassWeights parse_class_weights(std::span<const std::string> words);

// A weight for each class of the training set; empty if none are wanted. Balanced weights look at every label. Throws
// kInvalidInput for a class that is not there, and for one without samples where they are to be balanced.
std::vector<double> class_weights(const ClassWeights& weights, const data::Dataset& train);

}  // namespace muster::trainer
