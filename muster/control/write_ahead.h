// A store in an SQLite file for many small commits: a study's events. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "muster/control/store.h"

namespace muster::control {

class WriteAheadStore : public Store {
 public:
  // As commit(), but the disk is not waited for: what is written survives the death of every process, and a power cut
  // may take it, never without all that was committed after it. Without a write-ahead log it is commit().
  virtual std::optional<std::uint64_t> commit_soon(const Transaction& transaction) = 0;
};

// As make_sqlite_store, but a new file on a disk of this machine alone (ext4, xfs, btrfs, f2fs, overlay, tmpfs) has
// SQLite's write-ahead log: a commit waits for the disk once instead of four times, and readers never wait. While it is
// open there are two files beside it, -wal and -shm, and other machines are refused: they would not see that memory. On
// a network file system, and for a file that is there already, the journal is what it was.
std::unique_ptr<WriteAheadStore> make_write_ahead_store(const std::filesystem::path& path,
                                                        const SqliteOptions& options = {});

}  // namespace muster::control
