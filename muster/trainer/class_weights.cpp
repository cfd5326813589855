// Names are looked up among the data's own classes. Balanced weights have the mean 1 over the samples, so that the loss
// keeps its size.
#include "muster/trainer/class_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/number.h"
#include "muster/data/partition/partition.h"

namespace muster::trainer {
namespace {

constexpr const char* kKey = "loss.class_weights";

std::vector<std::string> names_of(const data::SampleSpec& spec) {
  if (!spec.class_names.empty()) return spec.class_names;
  std::vector<std::string> names;
  for (std::int64_t c = 0; c < spec.classes; ++c)
    names.push_back(fmt::format("{}", c));
  return names;
}

}  // namespace

ClassWeights parse_class_weights(std::span<const std::string> words) {
  ClassWeights weights;
  for (const std::string& word : words) {
    if (word == "balanced") {
      weights.balanced = true;
      continue;
    }
    // A class may have the sign in its name, a number has not.
    const std::size_t sign = word.rfind('=');
    const auto weight = sign == std::string::npos ? std::nullopt : data::parse_float(word.substr(sign + 1));
    if (!weight || *weight < 0) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no weight of a class", excerpt(word, 60)), {},
                  "Write CLASS=WEIGHT with a number from 0, as \"cat=2\", or \"balanced\" alone.");
    }
    weights.named.emplace_back(word.substr(0, sign), *weight);
  }
  if (weights.balanced && words.size() > 1)
    throw Error(ErrorKind::kInvalidInput, "\"balanced\" says the weights of all classes", {},
                "Leave the others out, or give each class its own.");
  return weights;
}

std::vector<double> class_weights(const ClassWeights& weights, const data::Dataset& train) {
  if (!weights.any()) return {};
  const std::vector<std::string> names = names_of(train.spec());
  std::vector<double> values(names.size(), 1.0);
  for (const auto& [name, weight] : weights.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("there is no class \"{}\"{}", excerpt(name, 60), did_you_mean(name, names)), kKey,
                  fmt::format("Classes are {}.", excerpt(join_words(names), 1000)));
    values[static_cast<std::size_t>(found - names.begin())] = weight;
  }
  if (std::all_of(values.begin(), values.end(), [](double value) { return value == 0; }))
    throw Error(ErrorKind::kInvalidInput, "all classes have the weight 0: there is nothing to learn", kKey);
  if (!weights.balanced) return values;
  std::vector<std::uint64_t> counts(names.size());
  for (const std::int64_t label : data::read_labels(train))
    ++counts[static_cast<std::size_t>(label)];
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0)
      throw Error(
          ErrorKind::kInvalidInput,
          fmt::format("the class \"{}\" has no training sample, so that nothing balances it", excerpt(names[c], 60)),
          kKey, "Give the classes weights by name.");
    values[c] =
        static_cast<double>(train.size()) / (static_cast<double>(counts.size()) * static_cast<double>(counts[c]));
  }
  return values;
}

}  // namespace muster::trainer
