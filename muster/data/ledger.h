// The ledger: proof, from the samples really loaded, that every sample of an epoch was used exactly once.
//
// Each worker process appends to a file of its own. A lane is recorded BEFORE it is marked finished, so no committed
// step can lack a record, whoever dies when: a death before the record leaves the lane unfinished and another worker
// computes and records it; a death after it leaves the record. A lane that was computed twice is recorded twice, with
// the same ids. That a step was committed is recorded after the flip, by every worker; where a death prevents that for
// all of them, a lane of the next step says the same, because it starts from the committed one.
//
// Order between files comes from the generation alone, so it has to grow over the whole run, restarts included: take
// the coordinator's, or start at next_ledger_generation. A resumption at step S in generation G makes void what earlier
// generations recorded of steps from S on.
//
// Records survive the death of the process at once; sync_ledger makes them survive the machine's, and is to be called
// before a checkpoint is written. The format is in ledger_format.h, the proof in ledger_check.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "muster/base/files.h"
#include "muster/base/mutex.h"

namespace muster::data {

struct LedgerOptions {
  int worker = 0;                   // its rank; part of the file's name
  std::uint64_t epoch_samples = 0;  // samples of an epoch: ids are below
  std::uint64_t generation = 1;
  // Workers end a step without waiting for each other's lanes of it (local_sgd). Then a lane says nothing of the steps
  // before it, and a commit is recorded only once all lanes of the step are.
  bool apart = false;
};

// Thread safety: every method from any thread.
// Every method throws kResource (disk full) or kIo; the record is then not in the file, and the next call may succeed.
class LedgerWriter {
 public:
  // Makes a new file in `folder`, which is made if it is not there.
  LedgerWriter(const std::filesystem::path& folder, const LedgerOptions& options);
  LedgerWriter(const LedgerWriter&) = delete;
  LedgerWriter& operator=(const LedgerWriter&) = delete;
  // Closes; failures are then not told.
  ~LedgerWriter();

  const std::filesystem::path& path() const { return path_; }

  // Of the records to come. REQUIRES: not below the one before.
  void set_generation(std::uint64_t generation);

  // Before the lane is marked finished. `step` is the number of steps committed before it.
  // `skipped` are those of the ids that could not be read (tolerant.h).
  void record_lane(std::uint64_t epoch, std::uint64_t step, std::uint64_t lane, std::span<const std::uint64_t> ids,
                   std::span<const std::uint64_t> skipped = {});
  // After `step` was committed with `lanes` lanes, before anything is recorded of the next.
  void record_commit(std::uint64_t epoch, std::uint64_t step, std::uint64_t lanes);
  // Before the first lane, by every worker of a run that goes on from a checkpoint with `step` committed steps.
  void record_resume(std::uint64_t step);

  // Says that nothing is missing at the file's end. REQUIRES: no record after it.
  void close();

 private:
  struct Fields;
  void append(const Fields& fields, std::span<const std::uint64_t> ids) MUSTER_REQUIRES(mutex_);
  void write(std::span<const std::byte> bytes) MUSTER_REQUIRES(mutex_);

  std::filesystem::path path_;  // constant after construction, as apart_
  bool apart_ = false;
  Mutex mutex_;
  FileDescriptor file_ MUSTER_GUARDED_BY(mutex_);
  std::uint64_t generation_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::uint64_t length_ MUSTER_GUARDED_BY(mutex_) = 0;    // bytes of whole records
  std::uint64_t sequence_ MUSTER_GUARDED_BY(mutex_) = 0;  // of the next record
  std::uint32_t chain_ MUSTER_GUARDED_BY(mutex_) = 0;     // checksum of the record before
  bool closed_ MUSTER_GUARDED_BY(mutex_) = false;
};

// Makes what every worker has recorded so far survive the death of the machine. Throws kIo, kResource, kNotFound.
void sync_ledger(const std::filesystem::path& folder);

// One more than the highest generation in the ledger's files; 1 when there are none. What stands behind damage in a
// file is not seen: a run can go on, and it is for the check to refuse. Throws kIo. REQUIRES: no worker of the run
// writes.
std::uint64_t next_ledger_generation(const std::filesystem::path& folder);

}  // namespace muster::data
