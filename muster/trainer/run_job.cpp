// What counts is what the run's folder says, on several hosts what the leader says: so a worker that comes later, or
// that has missed a step, makes the same changes at the same steps.
#include "muster/trainer/run_job.h"

#include <utility>

#include <fmt/format.h>

#include "muster/trainer/shared_text.h"

namespace muster::trainer {

void RunJob::enter() {
  changes_.emplace(leader_.folder().path());
  if (session_.members().hosts() > 1) take_changes_of_leader();
  adopt_changes(session_.cursor().step);
}

// Between hosts: what the leader knows of changes is what all know, and every host has it on its disk.
void RunJob::take_changes_of_leader() {
  const strategies::Members members = session_.members();
  std::string text;
  if (members.leads()) text = changes_->to_text();
  share_text(members.group, text, members.leader);
  if (changes_->take(text) && members.host_index() == 0) changes_->write();
}

// Changes that were agreed on in the step before count from this one on.
void RunJob::agree_on_changes(std::uint64_t step) {
  const std::uint64_t agreed = leader_.known().change;
  if (session_.members().hosts() == 1) {
    if (changes_->agree(agreed, step) && parts_.leads()) changes_->write();
  } else if (!changes_->knows(agreed)) {
    // All see the same number, and that they do not know it; the leader may not know it either yet: then it is
    // proposed again.
    if (parts_.leads() && changes_->agree_on_known(agreed, step)) changes_->write();
    take_changes_of_leader();
  }
}

void RunJob::make_changes() {
  const std::uint64_t step = session_.cursor().step + 1;
  agree_on_changes(step);
  adopt_changes(step);
  for (const JobChange& change : changes_->known()) {
    if (change.step != step) continue;
    parts_.log.debug(fmt::format("change {}: {} from step {}", change.number, change.assignment, step));
    leader_.report().write(
        {{"event", "change"}, {"step", step}, {"number", change.number}, {"assignment", change.assignment}});
  }
}

std::uint64_t RunJob::proposal() {
  return changes_->proposal(session_.cursor().step + 1);
}

// Makes the job what it is in `step`.
void RunJob::adopt_changes(std::uint64_t step) {
  std::vector<std::string> assignments = changes_->assignments_at(step);
  if (assignments == adopted_) return;
  const ResolvedJob now = parse_job(parts_.resolved.text, "the run's job", assignments);
  session_.change_optimizer(optimizer_options(now), now.job.optimizer.clip_norm);
  every_steps_ = now.job.checkpoint.every_steps;
  every_epochs_ = now.job.checkpoint.every_epochs;
  adopted_ = std::move(assignments);
}

}  // namespace muster::trainer
