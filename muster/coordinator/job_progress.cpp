// The rate is that of the last seconds. Where the leader tells nothing the supervisor's own count of steps is left,
// which every job has.
#include "muster/coordinator/job_progress.h"

#include <algorithm>

namespace muster::coordinator {
namespace {

constexpr std::chrono::seconds kRateWindow{5};

}  // namespace

void JobProgress::see(const launch::SupervisorReport& report, Clock::Instant now) {
  report_ = report;
  leader_ = control::LeaderNote::read(report.note);
  step_ = std::max(report.step, leader_.step);
  steps_.emplace_back(now, step_);
  while (now - steps_.front().first > kRateWindow)
    steps_.pop_front();
}

control::Membership JobProgress::membership() const {
  control::Membership membership;
  membership.generation = report_.generation;
  for (const control::Worker& worker : report_.workers)
    membership.members.push_back(
        {.rank = worker.rank,
         .process = worker.process,
         .restarts = worker.restarts,
         .state = worker.member() ? control::WorkerState::kRunning : control::WorkerState::kStarting});
  return membership;
}

void JobProgress::describe(control::JobStatus& status) const {
  status.generation = report_.generation;
  status.step = step_;
  status.total_steps = leader_.total_steps;
  status.epoch = leader_.epoch_after(step_);
  status.samples_per_second = steps_per_second() * static_cast<double>(leader_.batch);
  status.servers = report_.servers.serving;
  status.leaving_servers = report_.servers.leaving;
  status.members = report_.workers;
  std::size_t rank = 0;  // of the generation: seats may be empty
  for (control::Worker& worker : status.members) {
    if (!worker.member()) continue;
    if (rank < leader_.stages.size()) worker.stage = leader_.stages[rank];
    ++rank;
    worker.state = control::state_of_member(state_of(worker.process));
    worker.step = step_ + 1;
  }
  if (!leader_.alarm.empty()) status.alarms.push_back(leader_.alarm);
}

double JobProgress::steps_per_second() const {
  if (steps_.size() < 2) return 0;
  const double seconds = std::chrono::duration<double>(steps_.back().first - steps_.front().first).count();
  return seconds > 0 ? static_cast<double>(steps_.back().second - steps_.front().second) / seconds : 0;
}

}  // namespace muster::coordinator
