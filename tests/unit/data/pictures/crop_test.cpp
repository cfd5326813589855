// Windows stay inside, keep their limits and depend on the key alone.
#include "muster/data/pictures/crop.h"

#include <cmath>

#include "support.h"

namespace muster::data {
namespace {

TEST(CentreWindow, IsTheLargestOfTheWantedProportionsInTheMiddle) {
  EXPECT_EQ(centre_window({300, 200}, {224, 224}, 1), (Window{50, 0, 200, 200}));
  EXPECT_EQ(centre_window({200, 300}, {224, 224}, 1), (Window{0, 50, 200, 200}));
  EXPECT_EQ(centre_window({400, 100}, {200, 100}, 1), (Window{100, 0, 200, 100}));
  EXPECT_EQ(centre_window({256, 256}, {224, 224}, 0.875), (Window{16, 16, 224, 224}));
  EXPECT_EQ(centre_window({1, 1}, {224, 1}, 0.01), (Window{0, 0, 1, 1}));
}

TEST(RandomWindow, StaysInsideAndKeepsItsLimits) {
  RandomStream draws({.seed = 1, .purpose = Purpose::kAugmentation});
  const Extent picture{320, 240};
  double areas = 0;
  double least = 1;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const Window window = random_window(picture, {224, 224}, {}, draws);
    ASSERT_GE(window.width, 1U);
    ASSERT_LE(window.x + window.width, picture.width);
    ASSERT_LE(window.y + window.height, picture.height);
    const double area = static_cast<double>(window.width) * window.height / (320.0 * 240.0);
    const double ratio = static_cast<double>(window.width) / window.height;
    ASSERT_GT(area, 0.078);
    ASSERT_GT(ratio, 0.72);
    ASSERT_LT(ratio, 1.37);
    areas += area / kDraws;
    least = std::min(least, area);
  }
  EXPECT_LT(least, 0.09) << "small windows are drawn";
  EXPECT_GT(areas, 0.35);
  EXPECT_LT(areas, 0.54) << "uniform up to 1 has mean 0.54; the largest do not fit";
}

TEST(RandomWindow, APictureThatNothingFitsGivesItsMiddle) {
  RandomStream draws({.seed = 1, .purpose = Purpose::kAugmentation});
  EXPECT_EQ(random_window({1000, 2}, {224, 224}, {.least_area = 0.9}, draws), (Window{499, 0, 2, 2}));
}

TEST(RandomWindow, DependsOnTheKeyAlone) {
  const StreamKey key{.seed = 9, .purpose = Purpose::kAugmentation, .epoch = 3, .sample = 77};
  RandomStream a(key);
  RandomStream b(key);
  EXPECT_EQ(random_window({100, 80}, {32, 32}, {}, a), random_window({100, 80}, {32, 32}, {}, b));
}

}  // namespace
}  // namespace muster::data
