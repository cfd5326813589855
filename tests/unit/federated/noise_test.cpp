// Noise: normal, of the deviation asked for, another one for another key.
#include "muster/federated/noise.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace muster::federated {
namespace {

TEST(Noise, IsNormalAndOfTheDeviationAskedFor) {
  std::vector<float> values(200'001);
  add_noise(random_key(), 3, values);
  double sum = 0;
  double squares = 0;
  std::size_t within = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
    within += std::abs(value) < 3 ? 1 : 0;
  }
  const auto count = static_cast<double>(values.size());
  // Six deviations of each figure.
  EXPECT_NEAR(sum / count, 0, 6 * 3 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 9, 6 * 9 * std::sqrt(2 / count));
  EXPECT_NEAR(static_cast<double>(within) / count, 0.682689, 6 * 0.466 / std::sqrt(count));
}

TEST(Noise, IsAddedAndFollowsFromTheKey) {
  std::vector<float> once{10, 20, 30};
  std::vector<float> again{10, 20, 30};
  std::vector<float> other{10, 20, 30};
  add_noise(simulated_key(1, 2), 0.001, once);
  add_noise(simulated_key(1, 2), 0.001, again);
  add_noise(simulated_key(1, 3), 0.001, other);
  EXPECT_EQ(once, again);
  EXPECT_NE(once, other);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(once[i], 10 * static_cast<float>(i + 1), 0.01);
  EXPECT_NE(random_key(), random_key());
}

// A step after the other of one stream: no number comes twice.
TEST(Noise, AStreamGoesOnAndItsUniformNumbersAreEven) {
  SecretStream stream(simulated_key(1, 2));
  std::vector<float> first(7);
  std::vector<float> second(7);
  stream.add_normal(1, first);
  stream.add_normal(1, second);
  std::vector<float> anew(7);
  add_noise(simulated_key(1, 2), 1, anew);
  EXPECT_EQ(first, anew);
  EXPECT_NE(first, second);
  constexpr int kCount = 100'000;
  double sum = 0;
  int tenths = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = stream.uniform();
    ASSERT_GT(value, 0);
    ASSERT_LE(value, 1);
    sum += value;
    tenths += value <= 0.1 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 6 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(tenths, kCount / 10, 6 * std::sqrt(0.09 * kCount));
}

}  // namespace
}  // namespace muster::federated
