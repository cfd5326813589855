// The ledger comes before the checkpoint: what a checkpoint counts as trained is written down. Everybody saves, so that
// all know which step has a checkpoint; who writes it is another question.
#include "muster/trainer/run_saver.h"

#include "muster/strategies/strategy_traits.h"

namespace muster::trainer {

void RunSaver::enter_ledger() {
  if (!parts_.job.ledger || leader_.known().finished) return;
  const strategies::Members members = session_.members();
  if (parts_.records && members.hosts() > 1) parts_.records->settle(leader_.folder().ledger(), members);
  if (!ledger_) {
    RunLedgerOptions options;
    options.folder = leader_.folder().ledger();
    options.worker = parts_.seat();
    options.shape = parts_.shape;
    options.order = parts_.order;
    options.tolerant = parts_.sets.tolerant;
    options.first_generation = leader_.known().ledger_generation;
    if (parts_.options.resume) options.resumed_at = leader_.known().first_step;
    options.apart = parts_.job.parallel.chosen().traits().goes_apart;
    ledger_.emplace(options);
  }
  ledger_->enter(members.generation, session_.cursor().step);
}

void RunSaver::lane_loaded(const data::Cursor& at, const Lane& lane) {
  if (ledger_ && !lane.repeated) ledger_->lane_loaded(at, lane.index, lane.ids);
}

void RunSaver::state_committed() {
  if (ledger_) ledger_->steps_committed(session_.cursor().step);
}

void RunSaver::save(std::optional<double> best_metric) {
  session_.synchronize();
  state_committed();
  leader_.known().checkpointed_step = session_.cursor().step;
  // Where steps do not carry what hosts have recorded, a checkpoint is where it has to be everywhere.
  if (parts_.records && session_.members().hosts() > 1 && !session_.membership().replaces())
    parts_.records->settle(leader_.folder().ledger(), session_.members());
  if (leader_.writes()) write(best_metric);
}

void RunSaver::save_newest() {
  if (leader_.known().checkpointed_step != session_.cursor().step) save(std::nullopt);
}

void RunSaver::write_owed() {
  if (!leader_.owes_checkpoint()) return;
  if (parts_.leads()) leader_.known().checkpointed_step = session_.cursor().step;
  write(std::nullopt);
}

void RunSaver::keep_committed() {
  // Where only a meeting tells whether the step in work was committed, its state may have no progress.
  const bool known_step = session_.committed().cursor.step == session_.cursor().step;
  if (known_step && leader_.known().checkpointed_step != session_.cursor().step && leader_.writes()) {
    state_committed();
    leader_.known().checkpointed_step = session_.cursor().step;
    write(std::nullopt);
  }
  finish();
}

void RunSaver::finish() {
  if (leader_.finish_writing()) write(std::nullopt);
}

void RunSaver::write(std::optional<double> best_metric) {
  leader_.write_checkpoint(best_metric, job_.change_at(session_.cursor().step));
}

}  // namespace muster::trainer
