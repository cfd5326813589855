// PieceCache: pieces of shards on this host's disk, as many as fit into a limit; the ones that were not used for the
// longest time go first. Pieces that are to be kept here (of a host that holds a part of the data) neither go nor
// count.
//
// A piece is a file of its own (SHARD/PIECE), written under another name and renamed, its bytes and a CRC-32C of them
// behind. Nothing is synced: what a crash has cut is noticed by its checksum, and fetched again. The folder is the
// user's own (0700), files are 0600; it is locked while it is in use. What an agent before has left there is used
// again. Folders of other data beside it that nobody uses are removed, so that the limit holds for the whole. Thread
// safety: every method from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/mutex.h"
#include "muster/data/piece_map.h"

namespace muster::data {

// Where a piece lies below the folder of a cache.
std::filesystem::path piece_path(const std::filesystem::path& folder, const PieceId& piece);

// Whether a piece is to be kept here. Called under a lock: it only looks.
using PieceFilter = std::function<bool(const PieceId&)>;

class PieceCache {
 public:
  // Under `above`/`name`, which is made. Throws kResource (another process uses it), kInvalidInput (another user's),
  // kIo.
  PieceCache(
      const std::filesystem::path& above, const std::string& name, std::uint64_t most_bytes,
      PieceFilter keeps = [](const PieceId&) { return false; });

  const std::filesystem::path& folder() const { return folder_; }
  bool has(const PieceId& piece) const;
  // Counts as use. Nothing: it is not there, or was damaged and is gone now, or is not of this length.
  std::optional<std::vector<std::byte>> get(const PieceId& piece, std::uint64_t bytes);
  // Counts as use, if it is there.
  bool touch(const PieceId& piece);
  // Makes room for it before. False: it is not kept (the disk is full or broken, or it is larger than the limit).
  bool put(const PieceId& piece, std::span<const std::byte> bytes);
  // These and no others are kept from now on; what was kept before and is not any more may go.
  void keep(PieceFilter keeps);
  std::uint64_t bytes() const;       // that count
  std::uint64_t kept_bytes() const;  // of the pieces that are to be kept

 private:
  struct Kept {
    PieceId piece;
    std::uint64_t bytes = 0;  // on disk
    bool stays = false;       // it is to be kept
  };
  using Place = std::list<Kept>::iterator;

  void find_kept();
  void add(const PieceId& piece, std::uint64_t bytes) MUSTER_REQUIRES(mutex_);
  void drop(Place place) MUSTER_REQUIRES(mutex_);  // from the lists, not from the disk
  void remove(const PieceId& piece) MUSTER_REQUIRES(mutex_);
  void make_room(std::uint64_t bytes) MUSTER_REQUIRES(mutex_);

  // constant after construction
  const std::filesystem::path folder_;
  const std::uint64_t most_bytes_;
  FileDescriptor lock_;
  // guarded by mutex_
  mutable Mutex mutex_;
  PieceFilter keeps_ MUSTER_GUARDED_BY(mutex_);
  std::list<Kept> kept_ MUSTER_GUARDED_BY(mutex_);     // the one that was used last is the last
  std::list<Kept> staying_ MUSTER_GUARDED_BY(mutex_);  // those that are to be kept, in any order
  std::map<PieceId, Place> places_ MUSTER_GUARDED_BY(mutex_);
  std::uint64_t bytes_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::uint64_t staying_bytes_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::uint64_t written_ MUSTER_GUARDED_BY(mutex_) = 0;  // names of files that are being written
};

}  // namespace muster::data
