// What a worker of a training run writes into the run's ledger (data/ledger.h): the lanes it loads and the steps it
// knows to be committed, in generations that go on where an earlier life of the run ended.
//
// Who saw a commit may die before writing it down. So whoever enters, as a newcomer or after a loss, first records the
// last step that it finds committed. No torch here. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "muster/data/lane_order.h"
#include "muster/data/lane_plan.h"
#include "muster/data/ledger.h"
#include "muster/data/tolerant.h"

namespace muster::trainer {

struct RunLedgerOptions {
  std::filesystem::path folder;
  int worker = 0;
  data::BatchShape shape;
  std::shared_ptr<const data::LaneOrder> order{};    // of data that is local to lanes; empty: any
  std::shared_ptr<const data::Tolerant> tolerant{};  // the training set where bad samples are skipped; else empty
  // data::next_ledger_generation when this life of the run began; the same for all workers, those who come later too.
  std::uint64_t first_generation = 1;
  std::optional<std::uint64_t> resumed_at{};  // the step at which it began, if it went on from another life
  bool apart = false;                         // data::LedgerOptions
};

// Every method throws as data::LedgerWriter: a run that promised a ledger ends rather than go on with a gap in it.
class RunLedger {
 public:
  explicit RunLedger(const RunLedgerOptions& options);

  // After every meeting of the members, before the next lane. `generation` counts meetings in this life.
  void enter(std::uint64_t generation, std::uint64_t committed_steps);
  // Before the lane is finished. REQUIRES: its samples were read by this process.
  void lane_loaded(const data::Cursor& at, std::uint64_t lane, std::span<const std::uint64_t> ids);
  // Before anything of the next step; where workers go apart: once they have met.
  void steps_committed(std::uint64_t steps);

 private:
  const std::shared_ptr<const data::LaneOrder> order_;
  const std::shared_ptr<const data::Tolerant> tolerant_;
  const std::uint64_t first_generation_;
  data::LedgerWriter writer_;
  std::optional<std::uint64_t> recorded_;  // steps whose commit needs no record any more
};

}  // namespace muster::trainer
