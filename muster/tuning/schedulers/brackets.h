// Successive halving with rungs that wait: what successive halving and Hyperband share.
//
// A bracket is a number of trials that begin together and meet at rungs. When all of a rung have arrived (or failed)
// the best 1 / eta of them go on to the next, eta times as far, and the others stop. A trial that arrives early pauses.
// While a bracket waits for its last ones, free slots begin the next bracket. Trial::group is the bracket.
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/tuning/scheduler.h"

namespace muster::tuning {

struct Bracket {
  std::uint64_t size = 1;                 // trials that begin
  std::vector<std::uint64_t> rungs = {};  // resources, growing; the last one is the end of a trial
};

class Brackets final : public Scheduler {
 public:
  Brackets(const ScheduleProblem& problem, double eta, std::function<Bracket(std::uint64_t group)> plan);

  Decision after_report(const History& history, std::uint64_t number) override;
  Next next(const History& history) override;
  std::uint64_t next_decision(const Trial& trial) const override;

 private:
  // What is known of a rung: who has come there, best first, and how many of them go on.
  struct Rung {
    std::uint64_t resource = 0;
    std::vector<const Trial*> arrived = {};
    std::size_t go_on = 0;
    std::size_t missing = 0;  // of those who may still come; 0: it is decided
  };
  struct Verdict {
    bool decided = false;
    bool goes_on = false;
    std::string reason = {};
  };
  // The rungs of a bracket up to the first that is not decided; empty while trials may still join.
  std::vector<Rung> rungs_of(const History& history, std::uint64_t group) const;
  Verdict verdict(const std::vector<Rung>& rungs, const Trial& trial) const;
  std::optional<Next> next_of(const History& history, std::uint64_t group) const;

  ScheduleProblem problem_;
  double eta_;
  std::function<Bracket(std::uint64_t)> plan_;
};

// least, least * eta, ... below `most`, and `most`.
std::vector<std::uint64_t> rungs(std::uint64_t least, std::uint64_t most, double eta);

}  // namespace muster::tuning
