// The grid: every combination once, under conditions too.
#include "muster/tuning/searchers/grid.h"

#include <set>

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::tuning {
namespace {

std::vector<Assignment> all_of(const SearchProblem& problem, const GridSearch& options = {}) {
  const std::unique_ptr<Searcher> grid = options.make(problem);
  std::vector<Assignment> found;
  for (std::uint64_t number = 0;; ++number) {
    const Proposal proposal = grid->ask({}, number);
    if (proposal.exhausted) return found;
    found.push_back(proposal.values);
  }
}

TEST(GridTest, TheLastKeyChangesFastest) {
  const Space space({Parameter::choice("a", {"x", "y"}), Parameter::integer("b", 1, 3)});
  std::vector<Assignment> expected;
  for (const char* a : {"x", "y"}) {
    for (std::int64_t b = 1; b <= 3; ++b)
      expected.push_back({{"a", a}, {"b", b}});
  }
  EXPECT_EQ(all_of({.space = space}), expected);
}

TEST(GridTest, RealNumbersHaveLevelsFromEndToEnd) {
  const auto found = all_of({.space = Space({Parameter::log_uniform("a", 1e-3, 1e-1)})}, {.levels = 3});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_DOUBLE_EQ(std::get<double>(*found[0].find("a")), 1e-3);
  EXPECT_NEAR(std::get<double>(*found[1].find("a")), 1e-2, 1e-12);
  EXPECT_DOUBLE_EQ(std::get<double>(*found[2].find("a")), 1e-1);
}

TEST(GridTest, KeysThatAreNotActiveMakeNoCopies) {
  const Space space({Parameter::integer("late", 1, 5).only_when("early", {true}),
                     Parameter::choice("early", {true, false}), Parameter::choice("free", {"p", "q"})});
  const auto found = all_of({.space = space});
  std::set<std::string> texts;
  for (const Assignment& one : found) {
    space.check(one);
    texts.insert(one.text());
  }
  EXPECT_EQ(found.size(), 5u * 2 + 1 * 2);
  EXPECT_EQ(texts.size(), found.size());
}

TEST(GridTest, RefusesAGridThatNobodyFinishes) {
  std::vector<Parameter> many;
  for (int i = 0; i < 12; ++i)
    many.push_back(Parameter::uniform("k" + std::to_string(i), 0, 1));
  EXPECT_THROW(GridSearch{}.make({.space = Space(many)}), Error);
}

}  // namespace
}  // namespace muster::tuning
