// What a worker of a run leaves on disk while it trains: its part of the ledger, and checkpoints of the committed state
// by those who write them (run_leader.h).
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/trainer/lane.h"
#include "muster/trainer/run_job.h"
#include "muster/trainer/run_leader.h"
#include "muster/trainer/run_ledger.h"
#include "muster/trainer/run_parts.h"

namespace muster::trainer {

class RunSaver {
 public:
  // All outlive it.
  RunSaver(RunParts& parts, RunLeader& leader, RunJob& job) : parts_(parts), leader_(leader), job_(job) {}

  // After every meeting, before the next lane, by all workers. One that has seen no step of this run opens its part of
  // the ledger.
  void enter_ledger();
  // Before the lane is finished.
  void lane_loaded(const data::Cursor& at, const Lane& lane);
  // The state is committed, on all workers alike.
  void state_committed();

  // Makes the committed state the same on every worker and writes a checkpoint of it; all call it. `best_metric`: of a
  // validation that was better than all before.
  void save(std::optional<double> best_metric);
  // The same where the newest checkpoint is of an earlier step.
  void save_newest();
  // By those whose folder lacks the newest checkpoint, each for itself: of the committed state, which is newer.
  void write_owed();
  // By those who write, each for itself, where nobody else is left to go on with.
  void keep_committed();
  // Waits for what is being written.
  void finish();

 private:
  void write(std::optional<double> best_metric);

  RunParts& parts_;
  RunLeader& leader_;
  RunJob& job_;
  SessionCore& session_ = parts_.session;
  std::optional<RunLedger> ledger_;
};

}  // namespace muster::trainer
