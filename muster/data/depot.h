// Depot: fetches pieces of packed shards for a host that has not got them, from hosts that have, into a cache of
// bounded size on this host's disk; ahead of the workers that read them, as far as these say what they will read.
//
// The first host that answers says what the data is; hosts with other data (another fingerprint) are not asked. A host
// that fails is not asked for a while, and the next one is; when none is left the depot waits for one to come, until
// the deadline. What a piece is, piece_map.h says.
// Thread safety: every method from any thread.
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
#include "muster/data/piece_cache.h"
#include "muster/data/piece_door.h"

namespace muster::data {

// A host that may have the data.
struct ShardSource {
  std::string name;  // for people; sources of the same name are the same one
  std::shared_ptr<ShardCalls> calls;
};

struct DepotOptions {
  std::filesystem::path cache{};  // folder of caches; made if it is not there
  std::uint64_t cache_bytes = 0;
  int threads = 4;  // that fetch ahead
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

  // Read from other hosts so far.
  std::uint64_t fetched_bytes() const;

 private:
  // What is known once a host has answered. Constant.
  struct Opened {
    DepotView view;
    std::vector<std::vector<std::byte>> fronts;
    std::vector<ShardPieces> pieces;
    std::unique_ptr<PieceCache> cache;
  };

  std::shared_ptr<const Opened> opened() const;
  // All but the cache.
  std::shared_ptr<Opened> open_from(const ShardSource& source, const Deadline& deadline);
  // Calls `read` with one source after the other until one does not throw. Throws kIo when the deadline has passed,
  // with what the last ones said.
  template <typename Read>
  void from_any(const std::string& what, std::uint64_t spread, const Deadline& deadline, const Read& read);
  std::vector<ShardSource> willing_sources(std::uint64_t spread);
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
  std::map<std::string, Clock::Instant> shunned_ MUSTER_GUARDED_BY(mutex_);  // until
  std::set<std::string> foreign_ MUSTER_GUARDED_BY(mutex_);                  // sources of other data
  std::uint64_t fetched_bytes_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool told_uncached_ MUSTER_GUARDED_BY(mutex_) = false;
  bool opening_ MUSTER_GUARDED_BY(mutex_) = false;
  bool ends_ MUSTER_GUARDED_BY(mutex_) = false;
  // after what they use
  std::vector<std::thread> threads_;
};

}  // namespace muster::data
