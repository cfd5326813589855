// Over LedgerWriter: under which generation this life of the run writes, and which commits a worker that enters has to
// repeat.
#include "muster/trainer/run_ledger.h"

#include <vector>

namespace muster::trainer {

RunLedger::RunLedger(const RunLedgerOptions& options)
    : order_(options.order ? options.order : std::make_shared<data::GlobalOrder>(options.shape, 0)),
      tolerant_(options.tolerant),
      first_generation_(options.first_generation),
      writer_(options.folder, {.worker = options.worker,
                               .epoch_samples = options.shape.samples,
                               .generation = options.first_generation,
                               .apart = options.apart}) {
  // In the first generation whoever writes it: what this life has recorded since stays valid.
  if (options.resumed_at) writer_.record_resume(*options.resumed_at);
}

void RunLedger::enter(std::uint64_t generation, std::uint64_t committed_steps) {
  writer_.set_generation(first_generation_ + generation);
  if (!recorded_) recorded_ = committed_steps == 0 ? 0 : committed_steps - 1;
  steps_committed(committed_steps);
}

void RunLedger::lane_loaded(const data::Cursor& at, std::uint64_t lane, std::span<const std::uint64_t> ids) {
  const auto skipped = tolerant_ ? tolerant_->damaged(ids) : std::vector<std::uint64_t>();
  writer_.record_lane(at.epoch, at.step, lane, ids, skipped);
}

void RunLedger::steps_committed(std::uint64_t steps) {
  for (; *recorded_ < steps; ++*recorded_) {
    const data::StepPlan plan = order_->plan(order_->cursor_at_step(*recorded_));
    writer_.record_commit(plan.at.epoch, plan.at.step, plan.lanes.size());
  }
}

}  // namespace muster::trainer
