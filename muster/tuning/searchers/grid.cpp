// A grid under conditions: a key that is not active has no levels, so combinations that differ in it alone are one.
// Point i is found by counting the points below each branch, without listing them.
#include "muster/tuning/searchers/grid.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::tuning {
namespace {

constexpr std::uint64_t kMost = 1'000'000;

class GridSearcher final : public Searcher {
 public:
  GridSearcher(const SearchProblem& problem, std::uint64_t levels)
      : space_(problem.space), given_(problem.points.size()) {
    for (const Parameter& parameter : space_.parameters()) {
      std::vector<Value>& values = values_.emplace_back();
      const std::uint64_t count = parameter.count().value_or(levels);
      if (count > kMost) throw too_many();
      for (std::uint64_t i = 0; i < count; ++i) {
        const double unit = count == 1 ? 0.5 : static_cast<double>(i) / static_cast<double>(count - 1);
        values.push_back(parameter.count() ? parameter.at(i) : parameter.from_unit(unit));
      }
      decides_.push_back(std::any_of(space_.parameters().begin(), space_.parameters().end(), [&](const Parameter& p) {
        return std::any_of(p.when.begin(), p.when.end(), [&](const Condition& c) { return c.key == parameter.name; });
      }));
    }
    Assignment none;
    count_ = below(0, none);
  }

  Proposal ask(const History& history, std::uint64_t number) override {
    const std::uint64_t place = history.place_of_next(number);
    const std::uint64_t index = place - std::min(place, given_);
    if (index >= count_)
      return {.exhausted = true, .reason = fmt::format("all {} points of the grid were tried", count_)};
    Assignment by_order;
    find(0, index, by_order);
    return {.values = *space_.fit(by_order), .reason = fmt::format("point {} of {}", index + 1, count_)};
  }
  std::optional<std::uint64_t> most() const override { return given_ + count_; }

 private:
  static Error too_many() {
    return Error(ErrorKind::kInvalidInput, fmt::format("a grid of more than {} points", kMost), {},
                 "Give fewer levels or steps, or use sobol, which spreads any number of trials evenly.");
  }

  // Points below depth `depth` of the order, given what is chosen above.
  std::uint64_t below(std::size_t depth, Assignment& chosen) const {
    if (depth == space_.size()) return 1;
    const std::size_t key = space_.order()[depth];
    if (!space_.active(key, chosen)) return below(depth + 1, chosen);
    std::uint64_t count = 0;
    if (decides_[key]) {
      for (const Value& value : values_[key]) {
        Assignment longer = chosen;
        longer.set(space_.parameters()[key].name, value);
        count += below(depth + 1, longer);
      }
    } else {
      count = values_[key].size() * below(depth + 1, chosen);
    }
    if (count > kMost) throw too_many();
    return count;
  }

  void find(std::size_t depth, std::uint64_t index, Assignment& chosen) const {
    if (depth == space_.size()) return;
    const std::size_t key = space_.order()[depth];
    if (space_.active(key, chosen)) {
      for (const Value& value : values_[key]) {
        chosen.set(space_.parameters()[key].name, value);
        const std::uint64_t inside = below(depth + 1, chosen);
        if (index < inside) break;
        index -= inside;
      }
    }
    find(depth + 1, index, chosen);
  }

  Space space_;
  std::uint64_t given_;
  std::vector<std::vector<Value>> values_;
  std::vector<bool> decides_;  // whether a condition asks for this key
  std::uint64_t count_ = 0;
};

}  // namespace

void GridSearch::add_keys(Section& section) {
  section.field("levels", &levels, "Values of a real number that has no step, evenly from end to end.").range(1, 1000);
}

std::unique_ptr<Searcher> GridSearch::make(const SearchProblem& problem) const {
  return std::make_unique<GridSearcher>(problem, static_cast<std::uint64_t>(levels));
}

}  // namespace muster::tuning
