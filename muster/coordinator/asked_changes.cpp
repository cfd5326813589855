// Both ways may be gone through again: what was told before is told once more, and what the record knows to be applied
// is not marked again.
#include "muster/coordinator/asked_changes.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace muster::coordinator {
namespace {

constexpr std::size_t kMostPassedOn = 64;  // changes, to the other hosts

}  // namespace

void pass_on_changes(const std::filesystem::path& run, const Training& training,
                     const std::vector<control::Change>& changes) {
  if (changes.empty()) return;
  // Workers look again when the file has grown: what it has stays, whatever the coordinator has ticked off.
  std::vector<control::Change> asked = training.asked(run);
  const std::size_t before = asked.size();
  for (const control::Change& change : changes)
    if (asked.empty() || change.number > asked.back().number) asked.push_back(change);
  if (asked.size() > before) training.ask_for(run, asked);
}

void AskedChanges::check(const std::string& assignment) const {
  std::vector<std::string> earlier;
  for (const control::Change& change : record_.changes())
    earlier.push_back(change.assignment);
  training_->check_change(earlier, assignment);
}

void AskedChanges::keep_numbers() {
  const std::vector<control::Change> known = record_.changes();
  const std::uint64_t recorded = known.empty() ? 0 : known.back().number;
  // By their own numbers: a host that has come late was told of the newest only.
  for (const control::Change& change : training_->asked(run_))
    if (change.number > recorded) record_.keep_change(change);
}

void AskedChanges::tell() {
  const MutexLock one_at_a_time(telling_);
  const std::vector<control::Change> changes = record_.changes();
  std::set<std::uint64_t> waiting;
  for (const control::Change& change : changes) {
    if (!change.applied_at_step) waiting.insert(change.number);
  }
  if (!changes.empty()) training_->ask_for(run_, changes);
  {
    const MutexLock lock(mutex_);
    unapplied_ = std::move(waiting);
  }
  // Those that are made, too: a leader that has written a step down may be lost before other hosts have heard of it.
  const auto newest = changes.end() - static_cast<std::ptrdiff_t>(std::min(changes.size(), kMostPassedOn));
  others_({newest, changes.end()});
}

bool AskedChanges::waiting() const {
  const MutexLock lock(mutex_);
  return !unapplied_.empty();
}

void AskedChanges::mark_applied() {
  for (const control::Change& change : training_->applied(run_)) {
    {
      const MutexLock lock(mutex_);
      if (!unapplied_.contains(change.number)) continue;
    }
    record_.mark_applied(change.number, *change.applied_at_step);
    const MutexLock lock(mutex_);
    unapplied_.erase(change.number);
  }
}

}  // namespace muster::coordinator
