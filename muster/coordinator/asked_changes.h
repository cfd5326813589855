// Changes of a job by `muster set`, between its record and its workers: what the record has acknowledged is told to the
// workers, and from which step on they count is written into the record. A crash in between loses nothing: whoever
// coordinates next tells everything again. Thread safety: every method from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "muster/base/mutex.h"
#include "muster/control/job_record.h"
#include "muster/coordinator/training.h"

namespace muster::coordinator {

// Of a host whose coordinator is elsewhere: leaves those for its workers that they have not been told of. Throws as
// Training::ask_for. REQUIRES: one thread at a time.
void pass_on_changes(const std::filesystem::path& run, const Training& training,
                     const std::vector<control::Change>& changes);

class AskedChanges {
 public:
  // Gets the newest that were asked for, whenever that is told: for the other hosts of the job.
  using Others = std::function<void(const std::vector<control::Change>&)>;

  // REQUIRES: `record` holds the lease, and outlives this object.
  AskedChanges(
      control::JobRecord& record, std::filesystem::path run, std::shared_ptr<const Training> training,
      Others others = [](const auto&) {})
      : record_(record), run_(std::move(run)), training_(std::move(training)), others_(std::move(others)) {}

  // Throws as Training::check_change, of the job with all that was asked for before.
  void check(const std::string& assignment) const;
  // A record that was lost and made anew has no changes, but the run's folder has: new ones are numbered after them.
  void keep_numbers();
  // Tells the workers what the record says.
  void tell();
  // Whether the record does not say of one from which step on it counts.
  bool waiting() const;
  // What the leader has written down of changes goes into the record.
  void mark_applied();

 private:
  control::JobRecord& record_;
  const std::filesystem::path run_;
  const std::shared_ptr<const Training> training_;
  const Others others_;
  Mutex telling_;  // before mutex_
  mutable Mutex mutex_;
  std::set<std::uint64_t> unapplied_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::coordinator
