// Importance against the variances of functions that are known in closed form.
#include "muster/tuning/importance.h"

#include <gtest/gtest.h>

#include "muster/tuning/quasi_random.h"

namespace muster::tuning {
namespace {

History tried(const Space& space, std::size_t count, const std::function<double(const Assignment&)>& value) {
  const QuasiRandom sobol(space.size(), 4);
  History history;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Assignment values = space.from_units(sobol.point(i));
    history.add({.number = i, .values = values});
    history.finish(i, {value(values)});
  }
  return history;
}

// a + 2 b + 0 c on the unit cube: variances 1/12 and 4/12, shares 0.2 and 0.8.
TEST(ImportanceTest, SharesOfASumAreThoseOfItsVariances) {
  const Space space({Parameter::uniform("a", 0, 1), Parameter::uniform("b", 0, 1), Parameter::uniform("c", 0, 1)});
  const History history = tried(space, 400, [](const Assignment& values) {
    return std::get<double>(*values.find("a")) + 2 * std::get<double>(*values.find("b"));
  });
  const auto shares = importance(space, history, 0, Goal::kMinimise);
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[1].name, "b");
  EXPECT_NEAR(shares[0].share, 0.2, 0.05);
  EXPECT_NEAR(shares[1].share, 0.8, 0.05);
  EXPECT_LT(shares[2].share, 0.01);
}

// An exclusive or: neither key alone explains anything.
TEST(ImportanceTest, AnInteractionBelongsToNobodyAlone) {
  const Space space({Parameter::choice("a", {false, true}), Parameter::choice("b", {false, true})});
  const History history = tried(space, 64, [](const Assignment& values) {
    return std::get<bool>(*values.find("a")) != std::get<bool>(*values.find("b")) ? 1.0 : 0.0;
  });
  for (const Importance& one : importance(space, history, 0, Goal::kMinimise))
    EXPECT_LT(one.share, 0.1) << one.name;
}

// Weights 1/3 a choice: the mean of (0, 0, 3) has the variance 2, all of it by the choice.
TEST(ImportanceTest, AChoiceCounts) {
  const Space space({Parameter::uniform("a", 0, 1), Parameter::choice("c", {"x", "y", "z"})});
  const History history = tried(
      space, 120, [](const Assignment& values) { return std::get<std::string>(*values.find("c")) == "y" ? 3.0 : 0.0; });
  const auto shares = importance(space, history, 0, Goal::kMaximise);
  EXPECT_GT(shares[1].share, 0.95);
  EXPECT_LT(shares[0].share, 0.02);
}

TEST(ImportanceTest, SaysNothingOfTooLittle) {
  const Space space({Parameter::uniform("a", 0, 1)});
  const auto slope = [](const Assignment& values) { return std::get<double>(*values.find("a")); };
  EXPECT_TRUE(importance(space, tried(space, 9, slope), 0, Goal::kMinimise).empty());
  EXPECT_GT(importance(space, tried(space, 10, slope), 0, Goal::kMinimise).at(0).share, 0.99);
  EXPECT_TRUE(importance(space, tried(space, 30, [](const Assignment&) { return 1.0; }), 0, Goal::kMinimise).empty());
}

}  // namespace
}  // namespace muster::tuning
