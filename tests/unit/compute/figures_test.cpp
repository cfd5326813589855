// Figures add up as means over samples, whoever reported them, and refuse what has no place.
#include "muster/compute/figures.h"

#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"

namespace muster::compute {
namespace {

TEST(Figures, AreMeansOverTheSamplesThatWereReportedOn) {
  Figures first;
  first.add("kl", 1.0, 3);
  first.add("kl", 2.0, 1);
  first.add("other", 5.0, 2);
  Figures second;
  second.add("new", 7.0, 1);
  second.add("kl", 4.0, 4);
  first.add(second);
  EXPECT_DOUBLE_EQ(first.mean("kl").value(), (3.0 + 2.0 + 16.0) / 8);
  EXPECT_EQ(first.mean("other"), 5.0);
  EXPECT_EQ(first.mean("new"), 7.0);
  EXPECT_FALSE(first.mean("k").has_value());
  ASSERT_EQ(first.entries().size(), 3U);
  EXPECT_EQ(first.entries()[2].name(), "new") << "in the order in which they came";
}

TEST(Figures, RefuseNamesThatDoNotFit) {
  Figures figures;
  EXPECT_THROW(figures.add("", 1, 1), Error);
  EXPECT_THROW(figures.add(std::string(Figures::kLongestName + 1, 'x'), 1, 1), Error);
  figures.add(std::string(Figures::kLongestName, 'x'), 1, 1);
  for (std::size_t i = 1; i < Figures::kMost; ++i)
    figures.add("figure " + std::to_string(i), 1, 1);
  EXPECT_THROW(figures.add("one more", 1, 1), Error);
  EXPECT_EQ(figures.entries().size(), Figures::kMost);
}

}  // namespace
}  // namespace muster::compute
