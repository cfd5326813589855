// How far a job is and who trains it, from what its supervisor reports and its leader tells: no effects, and the time
// is given. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "muster/base/clock.h"
#include "muster/control/job_record.h"
#include "muster/control/job_status.h"
#include "muster/control/leader_note.h"
#include "muster/launch/supervisor.h"

namespace muster::coordinator {

class JobProgress {
 public:
  void see(const launch::SupervisorReport& report, Clock::Instant now);

  // The last report.
  const launch::SupervisorReport& report() const { return report_; }
  const control::LeaderNote& leader() const { return leader_; }
  // Committed: with parameter servers the arena counts no steps, and the leader tells.
  std::uint64_t step() const { return step_; }
  // Whether somebody has begun to train.
  bool trains() const { return report_.generation > 0 || (!report_.note.empty() && leader_.doing.empty()); }

  // For the record: who they are, and whether they train.
  control::Membership membership() const;
  // For those who ask: how far it is, the members and what they are at, alarms.
  void describe(control::JobStatus& status) const;

 private:
  double steps_per_second() const;

  launch::SupervisorReport report_;
  control::LeaderNote leader_;
  std::uint64_t step_ = 0;
  std::deque<std::pair<Clock::Instant, std::uint64_t>> steps_;  // of the last few seconds
};

}  // namespace muster::coordinator
