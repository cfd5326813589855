// A floor and, above it, a mask of lanes for each step in work. The floor moves up as steps become complete, which is
// what keeps the set small however long a job lasts.
#include "muster/strategies/parameter_server/applied_set.h"

#include <algorithm>
#include <utility>

#include "muster/base/check.h"

namespace muster::strategies {

std::uint64_t AppliedSet::mask(std::uint64_t step) const {
  if (step < floor_) return ~std::uint64_t{0};
  const std::uint64_t index = step - floor_;
  return index < steps_.size() ? steps_[index].mask : 0;
}

AppliedSet::Step& AppliedSet::at(std::uint64_t step) {
  MUSTER_CHECK(step >= floor_ && step - floor_ < kFarthest, "a step too far ahead");
  if (step - floor_ >= steps_.size()) steps_.resize(step - floor_ + 1);
  return steps_[step - floor_];
}

void AppliedSet::advance() {
  while (!steps_.empty() && steps_.front().complete) {
    steps_.pop_front();
    ++floor_;
  }
}

void AppliedSet::add(std::uint64_t step, std::uint32_t lane, std::uint32_t lanes) {
  MUSTER_CHECK(lane < lanes && lanes <= 64, "no such lane");
  if (step < floor_) return;
  Step& entry = at(step);
  entry.mask |= std::uint64_t{1} << lane;
  const std::uint64_t all = lanes == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << lanes) - 1;
  entry.complete = entry.complete || entry.mask == all;
  advance();
}

void AppliedSet::close(std::uint64_t step) {
  if (step < floor_) return;
  at(step).complete = true;
  advance();
}

void AppliedSet::close_below(std::uint64_t step) {
  if (step <= floor_) return;
  const std::uint64_t known = std::min<std::uint64_t>(step - floor_, steps_.size());
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(known));
  floor_ = step;
  advance();
}

AppliedSet::Step AppliedSet::known(std::uint64_t step) const {
  if (step < floor_) return {~std::uint64_t{0}, true};
  return step < end() ? steps_[step - floor_] : Step();
}

void AppliedSet::keep_common(const AppliedSet& other) {
  AppliedSet common(std::min(floor_, other.floor_));
  for (std::uint64_t step = common.floor_; step < end(); ++step) {
    const Step own = known(step);
    const Step others = other.known(step);
    common.steps_.push_back({own.mask & others.mask, own.complete && others.complete});
  }
  common.advance();
  *this = std::move(common);
}

void AppliedSet::add_all(const AppliedSet& other) {
  AppliedSet all(std::max(floor_, other.floor_));
  for (std::uint64_t step = all.floor_; step < std::max(end(), other.end()); ++step) {
    const Step own = known(step);
    const Step others = other.known(step);
    all.steps_.push_back({own.mask | others.mask, own.complete || others.complete});
  }
  all.advance();
  *this = std::move(all);
}

void AppliedSet::save(ByteWriter& to) const {
  to.put(floor_);
  to.put(static_cast<std::uint64_t>(steps_.size()));
  for (const Step& step : steps_) {
    to.put(step.mask);
    to.put(static_cast<std::uint8_t>(step.complete));
  }
}

AppliedSet AppliedSet::load(ByteReader& from) {
  AppliedSet set(from.get<std::uint64_t>());
  const auto count = from.get<std::uint64_t>();
  if (count > kFarthest || count > from.left())
    throw Error(ErrorKind::kDamaged, "a set of applied updates is too long");
  for (std::uint64_t i = 0; i < count; ++i) {
    Step step;
    step.mask = from.get<std::uint64_t>();
    step.complete = from.get<std::uint8_t>() != 0;
    set.steps_.push_back(step);
  }
  set.advance();
  return set;
}

}  // namespace muster::strategies
