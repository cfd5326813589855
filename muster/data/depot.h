// Depot: fetches pieces of packed shards for a host that has not got them, from hosts that have, into a cache of
// bounded size on this host's disk; ahead of the workers that read them, as far as these say what they will read.
//
// The first host that answers says what the data is; hosts with other data (another fingerprint) are not asked. A host
// that fails is not asked for a while, and the next one is; when none is left the depot waits for one to come, until
// the deadline. What a piece is, piece_map.h says.
//
// A depot that *keeps a part* (data.access = "copy") has pieces that neither go nor count, which copy_keeper.h chooses
// and fetches; remembers on its disk what the data is (kept_catalog.h), so that it needs no other host for that the
// next time; and gives what it has to others. Thread safety: every method from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/data/copy_plan.h"
#include "muster/data/kept_catalog.h"
#include "muster/data/piece_cache.h"
#include "muster/data/piece_door.h"

namespace muster::data {

// A host that may have the data.
struct ShardSource {
  std::string name;  // for people; sources of the same name are the same one
  std::shared_ptr<ShardCalls> calls;
};

// Who is asked first for a piece: brings them into that order.
using SourceOrder = std::function<void(const PieceId&, std::vector<ShardSource>&)>;

struct DepotOptions {
  std::filesystem::path cache{};  // folder of caches; made if it is not there
  std::uint64_t cache_bytes = 0;
  int threads = 4;            // that fetch ahead
  bool keeps_a_part = false;  // see above
  std::string kept_as{};      // of such a one: by what name its disk remembers the data
  // Who has the data now. From any thread; may block for a moment only.
  std::function<std::vector<ShardSource>()> sources;
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

class Depot final : public PieceDoor {
 public:
  // `clock` outlives it.
  explicit Depot(DepotOptions options, const Clock& clock = system_clock());
  Depot(const Depot&) = delete;
  Depot& operator=(const Depot&) = delete;
  // Waits for the reads that are under way.
  ~Depot() override;

  // Throws as PieceDoor, and as PieceCache.
  DepotView open(const Deadline& deadline) override;
  std::vector<std::byte> fetch(const PieceId& piece, const Deadline& deadline) override;
  void expect(std::span<const PieceId> pieces) override;
  void place_lane(std::size_t lane, std::size_t lanes, std::span<const PieceRun> runs) override;

  // Read from other hosts so far.
  std::uint64_t fetched_bytes() const;

  // Of one that keeps a part. REQUIRES of these: open() has returned once, but for give() and catalog().
  Portions portions() const;
  // Of all lanes, another object when it has changed. Null: no worker has said yet, or any lane reads any.
  std::shared_ptr<const LanePortions> lane_portions() const;
  // These portions are kept from now on, and no others.
  void keep(const std::vector<bool>& portions);
  void prefer(SourceOrder order);
  // Whether all pieces of it are on the disk.
  bool has(std::uint64_t portion) const;
  std::uint64_t kept_bytes() const;
  // Whoever waits for a piece is told that this host ends; what is here is still given.
  void end();
  // Nobody reads ahead at this moment.
  bool idle() const;
  // For other hosts: what this one has on its disk, and nothing is fetched for it. Throw kNotFound (not here), and as
  // ShardCalls.
  ShardCatalog catalog() const;
  std::vector<std::byte> give(const std::string& print, std::size_t shard, std::uint64_t offset, std::uint64_t bytes);

 private:
  // What is known once a host has answered. Constant.
  struct Opened {
    DepotView view;
    std::vector<std::vector<std::byte>> fronts;
    std::vector<ShardPieces> pieces;
    std::unique_ptr<PieceCache> cache;
    std::optional<Portions> portions;
  };

  std::shared_ptr<const Opened> opened() const;
  // Throws kNotFound.
  std::shared_ptr<const Opened> require_opened() const;
  // These make all but the cache.
  std::shared_ptr<Opened> open_from(const ShardSource& source, const Deadline& deadline);
  std::shared_ptr<Opened> open_kept(const KeptCatalog& kept) const;
  std::shared_ptr<Opened> open_somewhere(const Deadline& deadline);
  void add_front(Opened& opened, std::vector<std::byte> front) const;
  void remember(const Opened& opened) const;
  // Calls `read` with one source after the other until one does not throw. Throws kIo when the deadline has passed,
  // with what the last ones said.
  template <typename Read>
  void from_any(const std::string& what, const PieceId& piece, const Deadline& deadline, const Read& read);
  std::vector<ShardSource> willing_sources(const PieceId& piece);
  void shun(const std::string& source, const Error& error);
  std::vector<std::byte> read_piece(const Opened& opened, const PieceId& piece, const Deadline& deadline);
  void run();

  // constant after construction
  const DepotOptions options_;
  const Clock& clock_;
  // guarded by mutex_
  mutable Mutex mutex_;
  Condition changed_;
  std::shared_ptr<const Opened> opened_ MUSTER_GUARDED_BY(mutex_);
  std::deque<PieceId> expected_ MUSTER_GUARDED_BY(mutex_);
  std::set<PieceId> under_way_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::string, Clock::Instant> shunned_ MUSTER_GUARDED_BY(mutex_);                 // until
  std::set<std::string> foreign_ MUSTER_GUARDED_BY(mutex_);                                 // sources of other data
  std::map<std::size_t, std::vector<std::uint64_t>> told_lanes_ MUSTER_GUARDED_BY(mutex_);  // portions of each
  std::size_t lane_count_ MUSTER_GUARDED_BY(mutex_) = 0;                                    // of the job; 0: not told
  std::shared_ptr<const LanePortions> lanes_ MUSTER_GUARDED_BY(mutex_);
  SourceOrder order_ MUSTER_GUARDED_BY(mutex_) = [](const PieceId&, std::vector<ShardSource>&) {};
  std::uint64_t fetched_bytes_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool told_uncached_ MUSTER_GUARDED_BY(mutex_) = false;
  bool opening_ MUSTER_GUARDED_BY(mutex_) = false;
  bool ends_ MUSTER_GUARDED_BY(mutex_) = false;
  // after what they use
  std::vector<std::thread> threads_;
};

}  // namespace muster::data
