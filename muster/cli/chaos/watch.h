// Looks at a job from outside, again and again, and keeps what the invariants need to know of it.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/cli/chaos/checks.h"
#include "muster/cli/chaos/footprints.h"
#include "muster/control/control_client.h"

namespace muster::cli {

// The weights that a run has stored at `step`. Throws as CheckpointStore::load.
StoredWeights stored_weights(const std::filesystem::path& run, std::uint64_t step);
// Whether there is a checkpoint of that step, unverified.
bool has_checkpoint(const std::filesystem::path& run, std::uint64_t step);

// What the files of a run tell: rows of metrics behind the first bytes; the newest checkpoint that is whole, and what
// is wrong with newer ones; whether the ledger is exact up to that step.
void read_metrics(const std::filesystem::path& run, Observations& seen, std::uintmax_t from = 0);
void read_checkpoints(const std::filesystem::path& run, Observations& seen);
data::LedgerReport read_ledger(const std::filesystem::path& run, std::optional<std::uint64_t> step);

class JobWatch {
 public:
  // Throws as ControlClient.
  explicit JobWatch(std::filesystem::path run);

  // One look. A status that cannot be had is one more sample that is not live; never an error.
  const control::JobStatus& look();
  // Seconds since the first look might have come.
  double now() const;
  // Nothing of the job runs any more, as of the last look.
  bool over() const { return over_; }
  // When a new step was last seen.
  double last_commit() const { return last_commit_; }

  const std::filesystem::path& run() const { return run_; }
  const control::ControlClient& client() const { return client_; }
  const std::vector<ChaosSample>& samples() const { return samples_; }

  // All that this object and the run's files tell; what is left is looked for as long as it takes, up to a few seconds.
  Observations conclude(bool ledger);

 private:
  const std::filesystem::path run_;
  const control::ControlClient client_;
  const Clock::Instant start_;
  const std::uintmax_t metrics_before_;  // bytes
  Footprints footprints_;
  control::JobStatus status_;
  std::vector<ChaosSample> samples_;
  std::optional<std::uint64_t> acknowledged_;
  double looked_at_footprints_ = 0;
  std::uint64_t last_step_ = 0;
  double last_commit_ = 0;
  bool over_ = false;
};

}  // namespace muster::cli
