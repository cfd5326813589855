// Which lanes of which steps have been applied: how an update that is sent twice takes effect once.
//
// Steps that are complete are forgotten: everything below the floor is applied (or was dropped). An update that is not
// a lane's counts as lane 0 of a step of one lane. Memory grows with how far the steps in work lie apart.
#pragma once

#include <cstdint>
#include <deque>

#include "muster/strategies/parameter_server/bytes.h"

namespace muster::strategies {

class AppliedSet {
 public:
  static constexpr std::uint64_t kFarthest = std::uint64_t{1} << 20;  // steps above the floor

  // All steps below are complete.
  AppliedSet() = default;
  explicit AppliedSet(std::uint64_t floor) : floor_(floor) {}

  std::uint64_t floor() const { return floor_; }
  // Nothing is known of this step or any after it.
  std::uint64_t end() const { return floor_ + steps_.size(); }
  bool contains(std::uint64_t step, std::uint32_t lane) const { return (mask(step) >> lane & 1) != 0; }
  // Of a step: bit i for lane i; all bits below the floor.
  std::uint64_t mask(std::uint64_t step) const;
  // `lanes` are all that the step has. REQUIRES: lane < lanes <= 64, step < floor() + kFarthest.
  void add(std::uint64_t step, std::uint32_t lane, std::uint32_t lanes);
  // The step is complete without the lanes that are missing.
  void close(std::uint64_t step);
  // The same of all steps below.
  void close_below(std::uint64_t step);
  // What is in both; and what is in either.
  void keep_common(const AppliedSet& other);
  void add_all(const AppliedSet& other);

  void save(ByteWriter& to) const;
  static AppliedSet load(ByteReader& from);

 private:
  struct Step {
    std::uint64_t mask = 0;
    bool complete = false;
  };
  Step& at(std::uint64_t step);
  Step known(std::uint64_t step) const;
  void advance();

  std::uint64_t floor_ = 0;
  std::deque<Step> steps_;  // from the floor on
};

}  // namespace muster::strategies
