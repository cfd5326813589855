// Samples by number alone, their statistics, and that a class can be learnt from them.
#include "muster/data/synthetic.h"

#include <cmath>
#include <limits>

#include "support.h"

namespace muster::data {
namespace {

std::vector<float> sample(const Dataset& dataset, std::uint64_t id, std::int64_t* label = nullptr) {
  std::vector<float> features(dataset.spec().elements());
  const std::int64_t read = dataset.read(id, features);
  if (label != nullptr) *label = read;
  return features;
}

TEST(Synthetic, ASampleDependsOnSeedAndNumberAlone) {
  const SyntheticOptions options{.shape = {2, 3}, .classes = 4, .samples = 50, .seed = 8};
  const Synthetic one(options);
  const Synthetic two(options);
  for (std::uint64_t id = 50; id-- > 0;)
    EXPECT_EQ(sample(one, id), sample(two, id));
  SyntheticOptions other = options;
  other.seed = 9;
  EXPECT_NE(sample(one, 0), sample(Synthetic(other), 0));
  EXPECT_NE(sample(one, 0), sample(one, 1));
}

TEST(Synthetic, ALaterStartContinuesTheSameSequence) {
  const Synthetic all(SyntheticOptions{.shape = {5}, .classes = 3, .samples = 20, .seed = 1});
  const Synthetic rest(SyntheticOptions{.shape = {5}, .classes = 3, .samples = 8, .seed = 1, .first_sample = 12});
  for (std::uint64_t id = 0; id < 8; ++id)
    EXPECT_EQ(sample(rest, id), sample(all, 12 + id));
}

TEST(Synthetic, NoiseHasMeanZeroAndVarianceOne) {
  const Synthetic noise(SyntheticOptions{.shape = {1, 100, 100}, .classes = 2, .samples = 100, .seed = 2, .signal = 0});
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  double neighbours = 0;
  const double n = 1e6;
  for (std::uint64_t id = 0; id < 100; ++id) {
    const auto features = sample(noise, id);
    for (std::size_t i = 0; i < features.size(); ++i) {
      const double x = features[i];
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
      if (i > 0) neighbours += x * features[i - 1];
    }
  }
  // Five standard errors of each estimate over a million draws.
  EXPECT_NEAR(sum / n, 0, 0.005);
  EXPECT_NEAR(squares / n, 1, 0.007);
  EXPECT_NEAR(fourths / n, 2.7, 0.03);
  EXPECT_NEAR(neighbours / n, 0, 0.005);
}

TEST(Synthetic, LabelsAreUniform) {
  const Synthetic dataset(SyntheticOptions{.shape = {1}, .classes = 10, .samples = 20000, .seed = 3});
  std::vector<int> counts(10, 0);
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    std::int64_t label = 0;
    sample(dataset, id, &label);
    ++counts.at(static_cast<std::size_t>(label));
  }
  for (const int count : counts)
    EXPECT_NEAR(count, 2000, 5 * std::sqrt(2000 * 0.9));
}

// The mean of many samples of a class estimates its prototype; the nearest one must then name the class of
// samples that did not take part.
TEST(Synthetic, ClassesCanBeLearnt) {
  const Synthetic dataset(SyntheticOptions{.shape = {16}, .classes = 5, .samples = 3000, .seed = 4});
  std::vector<std::vector<double>> means(5, std::vector<double>(16, 0));
  std::vector<double> counts(5, 0);
  int right = 0;
  for (std::uint64_t id = 0; id < 3000; ++id) {
    std::int64_t label = 0;
    const auto features = sample(dataset, id, &label);
    if (id < 2000) {
      counts[static_cast<std::size_t>(label)] += 1;
      for (std::size_t i = 0; i < 16; ++i)
        means[static_cast<std::size_t>(label)][i] += features[i];
      continue;
    }
    std::size_t best = 0;
    double best_distance = std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < 5; ++c) {
      double distance = 0;
      for (std::size_t i = 0; i < 16; ++i)
        distance += std::pow(features[i] - means[c][i] / counts[c], 2);
      if (distance < best_distance) {
        best_distance = distance;
        best = c;
      }
    }
    right += static_cast<std::int64_t>(best) == label ? 1 : 0;
  }
  EXPECT_GT(right, 900);
}

TEST(Synthetic, RefusesImpossibleOptions) {
  const auto refused = [](const SyntheticOptions& options) {
    const auto error = error_of([&] { Synthetic dataset(options); });
    return error && error->kind() == ErrorKind::kInvalidInput;
  };
  EXPECT_FALSE(refused({.shape = {1}, .classes = 2, .samples = 0}));
  EXPECT_TRUE(refused({.shape = {}}));
  EXPECT_TRUE(refused({.shape = {3, 0}}));
  EXPECT_TRUE(refused({.shape = {3, -1, -1}}));
  EXPECT_TRUE(refused({.shape = {1}, .classes = 1}));
  EXPECT_TRUE(refused({.shape = {std::int64_t{1} << 40}}));
  EXPECT_TRUE(refused({.shape = {std::int64_t{1} << 32, std::int64_t{1} << 32}}));
  EXPECT_TRUE(refused({.shape = {1}, .samples = 2, .first_sample = ~std::uint64_t{0}}));
  EXPECT_TRUE(refused({.shape = {1}, .signal = std::numeric_limits<float>::quiet_NaN()}));
}

}  // namespace
}  // namespace muster::data
