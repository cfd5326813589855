// Proves from a run's ledger that every sample of every epoch was used exactly once in the committed steps: loaded, or
// skipped by name because it is bad.
//
// Fails on a record that was altered, dropped, doubled or moved, on a lane of a committed step that nobody recorded, on
// a lane that was computed twice with different samples or different ones skipped, on a sample used twice or never, on
// a skipped sample that its lane did not ask for, and on a ledger that ends before the newest checkpoint. A run may be
// checked while it trains: steps committed so far are proved.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace muster::data {

struct LedgerReport {
  // The first thing that is wrong, with file, record, epoch, step and sample as far as they are known.
  std::optional<std::string> violation = {};
  std::uint64_t files = 0;
  std::uint64_t epoch_samples = 0;
  std::uint64_t steps = 0;           // committed
  std::uint64_t whole_epochs = 0;    // every sample exactly once
  std::uint64_t samples_so_far = 0;  // of the epoch in work, none twice; 0 between epochs
  std::uint64_t skipped = 0;         // of the samples of all epochs, those that were not loaded because they are bad
  std::vector<std::uint64_t> skipped_ids =
      {};                            // which they are, each once, rising; the first kMostNamedSkips that were met
  std::uint64_t lanes = 0;           // records that count
  std::uint64_t repeated_lanes = 0;  // further records of the same lanes, with the same samples
  std::uint64_t void_records = 0;    // past a checkpoint that the run went back to
  std::uint64_t resumptions = 0;
  std::uint64_t unclosed_files = 0;  // of workers that were killed or still run
};

inline constexpr std::size_t kMostNamedSkips = 1000;

// `checkpoint_step`: committed steps of the run's newest checkpoint, which the ledger must reach.
// Throws kNotFound (no ledger), kIo, kResource (no memory for a bit for each sample).
LedgerReport check_ledger(const std::filesystem::path& folder, std::optional<std::uint64_t> checkpoint_step = {});

}  // namespace muster::data
