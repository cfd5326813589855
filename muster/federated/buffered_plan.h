// Who fills the buffers of asynchronous training, and when (FedBuff: Nguyen et al. 2022), in virtual time.
//
// So many clients train at a time, each from the model of when it began. Whoever has answered is replaced by another
// client. When per_round updates are there a round is over, and the model changes; an update weighs 1 / sqrt(1 + rounds
// since it began), and the sum is divided by the number of updates. No client counts twice in a buffer. A pure function
// of options, split and seed; it goes on from the round that was asked for last. Thread safety: one thread. No torch
// here.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "muster/federated/client_split.h"
#include "muster/federated/options.h"
#include "muster/federated/round_plan.h"
#include "muster/federated/sample_budgets.h"

namespace muster::federated {

class Chances;

class BufferedPlan {
 public:
  // All outlive it. With `budgets` only those begin whose budget has room for a round more, and the last buffers are as
  // full as those who are left can make them. REQUIRES: options.buffered().
  BufferedPlan(const Options& options, const ClientSplit& split, std::uint64_t seed, SampleBudgets* budgets = nullptr);

  // The buffer of a round; for one before the last that was asked for it begins anew. Throws Error{kInvalidInput} when
  // there is nobody who could be asked.
  const RoundPlan& of(std::uint64_t round);
  // To where so many rounds are done, and the next one begins.
  void go_to(std::uint64_t rounds);
  // All budgets are spent: no buffer comes any more.
  bool nobody_trains() const { return flights_.empty(); }

 private:
  struct Flight {
    double ends = 0;
    std::uint64_t number = 0;  // in the order in which they began
    std::uint64_t client = 0;
    std::uint64_t version = 0;
    double began = 0;
    bool operator<(const Flight& other) const { return ends != other.ends ? ends < other.ends : number < other.number; }
  };
  void restart();
  void fill_buffer();
  // So many that concurrency clients train, or as many as can be asked now.
  void begin(std::uint64_t version);
  bool begin_one(std::uint64_t version);
  bool may_begin(std::uint64_t client, const Chances& chances) const;
  // Throws where somebody should train and nobody can be asked.
  void require_somebody() const;

  const Options& options_;
  const ClientSplit& split_;
  const std::uint64_t seed_;
  SampleBudgets* const budgets_;
  RoundPlan plan_;
  std::uint64_t next_ = 0;  // round
  double now_ = 0;
  std::uint64_t begun_ = 0;
  std::set<Flight> flights_;
  std::set<std::uint64_t> busy_;  // who is in flight, or counts in this buffer
};

}  // namespace muster::federated
