// A piece is fetched by one thread at a time, whoever wants it: the others wait for that one. Hosts are asked one after
// the other, and one that fails is left alone for a while.
#include "muster/data/depot.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/data/packed_dataset.h"

namespace muster::data {
namespace {

constexpr std::chrono::seconds kOneRead{15};            // of one read from one host
constexpr std::chrono::seconds kAheadTime{30};          // of a piece that nobody waits for yet
constexpr std::chrono::seconds kShunTime{2};            // for which a host that has failed is not asked
constexpr std::chrono::milliseconds kSourcePause{100};  // between two looks for a host
constexpr std::size_t kMostExpected = 65536;            // pieces
constexpr std::chrono::seconds kKeptPatience{5};        // for hosts that know the data, of one that knows it itself
constexpr std::uint64_t kFirstRead = 4096;              // of a shard: most headers are in it
constexpr std::uint64_t kMostFronts = std::uint64_t{256} << 20;

// One host may not use up the time in which another could answer.
Deadline one_read(const Deadline& deadline) {
  return Deadline::after(std::min<std::chrono::nanoseconds>(deadline.remaining(), kOneRead));
}

std::vector<std::byte> read_front(ShardCalls& calls, const ShardCatalog& catalog, std::size_t shard,
                                  const Deadline& deadline) {
  const ShardEntry& entry = catalog.shards[shard];
  const auto first = [&](std::uint64_t bytes) {
    return calls.read(catalog.print, shard, 0, std::min(bytes, entry.bytes), one_read(deadline));
  };
  std::vector<std::byte> front;
  try {
    front = first(kFirstRead);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    front = first(kPackedPreamble);  // a host that keeps a part may not have the records behind it
  }
  const std::uint64_t bytes = kPackedPreamble + packed_json_bytes(front, entry.name);
  if (bytes > entry.bytes) throw Error(ErrorKind::kDamaged, "is cut short", entry.name);
  if (bytes > front.size()) return calls.read(catalog.print, shard, 0, bytes, one_read(deadline));
  front.resize(bytes);
  return front;
}

}  // namespace

Depot::Depot(DepotOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {
  for (int i = 0; i < options_.threads; ++i)
    threads_.emplace_back([this] { run(); });
}

Depot::~Depot() {
  end();
  for (std::thread& thread : threads_)
    thread.join();
}

std::shared_ptr<const Depot::Opened> Depot::opened() const {
  const MutexLock lock(mutex_);
  return opened_;
}

std::shared_ptr<const Depot::Opened> Depot::require_opened() const {
  std::shared_ptr<const Opened> data = opened();
  if (!data) throw Error(ErrorKind::kNotFound, "this host does not know the data yet");
  return data;
}

std::vector<ShardSource> Depot::willing_sources(const PieceId& piece) {
  std::vector<ShardSource> all = options_.sources();
  const MutexLock lock(mutex_);
  std::erase_if(all, [&](const ShardSource& source) MUSTER_REQUIRES(mutex_) {
    const auto shunned = shunned_.find(source.name);
    return foreign_.contains(source.name) || (shunned != shunned_.end() && clock_.now() < shunned->second);
  });
  if (all.size() > 1)
    std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(piece.piece % all.size()), all.end());
  order_(piece, all);
  return all;
}

void Depot::shun(const std::string& source, const Error& error) {
  bool foreign = false;
  {
    const MutexLock lock(mutex_);
    shunned_[source] = clock_.now() + kShunTime;
    foreign = error.kind() == ErrorKind::kMismatch && foreign_.insert(source).second;
  }
  if (foreign) options_.tell(fmt::format("{} has other data and is not asked for it: {}", source, error.message()));
}

template <typename Read>
void Depot::from_any(const std::string& what, const PieceId& piece, const Deadline& deadline, const Read& read) {
  std::map<std::string, std::string> said;  // by source
  for (;;) {
    for (const ShardSource& source : willing_sources(piece)) {
      try {
        return read(source);
      } catch (const Error& error) {
        said[source.name] = error.message();
        // Who does not have this piece may have the next one.
        if (error.kind() != ErrorKind::kNotFound) shun(source.name, error);
      }
    }
    const MutexLock lock(mutex_);
    if (ends_) throw Error(ErrorKind::kInterrupted, "this host ends");
    if (deadline.passed()) {
      std::string reasons;
      for (const auto& [source, reason] : said)
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", source, reason);
      throw Error(said.empty() ? ErrorKind::kNotFound : ErrorKind::kIo,
                  said.empty() ? fmt::format("no host of this job has {}", what)
                               : fmt::format("no host gives {}: {}", what, reasons),
                  {}, "Start an agent on a host that has the shards at data.path, and see that it can be reached.");
    }
    changed_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(kSourcePause, deadline.remaining()));
  }
}

void Depot::add_front(Opened& opened, std::vector<std::byte> front) const {
  const ShardEntry& shard = opened.view.catalog.shards[opened.fronts.size()];
  const PackedHeader header = parse_packed_front(front, shard.bytes, shard.name);
  const ShardPieces& pieces = opened.pieces.emplace_back(header, opened.view.piece_bytes);
  opened.fronts.push_back(std::move(front));
  std::uint64_t bytes = 0;
  for (const std::vector<std::byte>& one : opened.fronts)
    bytes += one.size();
  if (bytes > kMostFronts || (pieces.pieces() > 1 && pieces.range(1).bytes > kMostShardRead))
    throw Error(ErrorKind::kUnsupported, "its headers or records are too large to be fetched", shard.name,
                "Bring the files to this host.");
}

std::shared_ptr<Depot::Opened> Depot::open_from(const ShardSource& source, const Deadline& deadline) {
  auto made = std::make_shared<Opened>();
  made->view.catalog = source.calls->catalog(one_read(deadline));
  const ShardCatalog& catalog = made->view.catalog;
  check_catalog(catalog, source.name);
  const PieceChoice choice = options_.keeps_a_part ? choose_placed_pieces(catalog.bytes())
                                                   : choose_pieces(catalog.bytes(), options_.cache_bytes);
  made->view.piece_bytes = choice.piece_bytes;
  for (std::size_t shard = 0; shard < catalog.shards.size(); ++shard)
    add_front(*made, read_front(*source.calls, catalog, shard, deadline));
  options_.tell(fmt::format("fetching data from {}, in pieces of {} KiB: {}", source.name, choice.piece_bytes >> 10,
                            choice.reason));
  return made;
}

std::shared_ptr<Depot::Opened> Depot::open_kept(const KeptCatalog& kept) const {
  auto made = std::make_shared<Opened>();
  made->view.catalog = kept.catalog;
  made->view.piece_bytes = choose_placed_pieces(kept.catalog.bytes()).piece_bytes;
  for (const std::vector<std::byte>& front : kept.fronts)
    add_front(*made, front);
  options_.tell(fmt::format("the data is what this host has kept a part of before, in {}", options_.cache.string()));
  return made;
}

std::shared_ptr<Depot::Opened> Depot::open_somewhere(const Deadline& deadline) {
  std::optional<KeptCatalog> kept;
  if (options_.keeps_a_part) kept = find_catalog(options_.cache, options_.kept_as);
  // Those who have the data know best what it is; a host that has kept a part of it needs them no more.
  const Deadline others =
      kept ? Deadline::after(std::min<std::chrono::nanoseconds>(deadline.remaining(), kKeptPatience)) : deadline;
  std::shared_ptr<Opened> made;
  try {
    from_any("the data, as packed shards at data.path", {}, others,
             [&](const ShardSource& source) { made = open_from(source, deadline); });
  } catch (const Error& error) {
    const bool nobody = error.kind() == ErrorKind::kNotFound || error.kind() == ErrorKind::kIo;
    if (!kept || !nobody) throw;
    made = open_kept(*kept);
  }
  return made;
}

DepotView Depot::open(const Deadline& deadline) {
  {
    const MutexLock lock(mutex_);
    while (opening_ && !opened_) {
      if (deadline.passed()) throw Error(ErrorKind::kTimeout, "the data was not found in time");
      changed_.wait_for(mutex_, deadline.remaining());
    }
    if (opened_) return opened_->view;
    opening_ = true;
  }
  std::shared_ptr<Opened> made;
  std::optional<Error> failure;
  try {
    made = open_somewhere(deadline);
    DepotView& view = made->view;
    // What is kept and what may go is not known before the plan is.
    made->cache = std::make_unique<PieceCache>(
        options_.cache, fmt::format("{}-{}", view.catalog.print, view.piece_bytes), options_.cache_bytes,
        [all = options_.keeps_a_part](const PieceId&) { return all; });
    view.cache = made->cache->folder();
    if (options_.keeps_a_part) {
      std::vector<std::uint64_t> pieces;
      for (const ShardPieces& shard : made->pieces)
        pieces.push_back(shard.pieces());
      made->portions.emplace(pieces);
      remember(*made);
    }
  } catch (const Error& error) {
    failure = error;
    made.reset();
  }
  const MutexLock lock(mutex_);
  opening_ = false;
  opened_ = made;
  changed_.notify_all();
  if (failure) throw *failure;
  return opened_->view;
}

std::vector<std::byte> Depot::read_piece(const Opened& opened, const PieceId& piece, const Deadline& deadline) {
  const ByteRange range = opened.pieces[piece.shard].range(piece.piece);
  const std::string& name = opened.view.catalog.shards[piece.shard].name;
  std::vector<std::byte> data;
  from_any(fmt::format("bytes {} to {} of {}", range.offset, range.offset + range.bytes, name), piece, deadline,
           [&](const ShardSource& source) {
             data = source.calls->read(opened.view.catalog.print, piece.shard, range.offset, range.bytes,
                                       one_read(deadline));
             if (data.size() != range.bytes)
               throw Error(ErrorKind::kDamaged, fmt::format("gave {} bytes of {}", data.size(), range.bytes), name);
           });
  const MutexLock lock(mutex_);
  fetched_bytes_ += data.size();
  return data;
}

std::vector<std::byte> Depot::fetch(const PieceId& piece, const Deadline& deadline) {
  std::shared_ptr<const Opened> data = opened();
  if (!data) {
    open(deadline);
    data = opened();
  }
  if (piece.shard >= data->pieces.size() || piece.piece >= data->pieces[piece.shard].pieces())
    throw Error(ErrorKind::kInvalidInput, fmt::format("there is no piece {} of shard {}", piece.piece, piece.shard));
  if (piece.piece == 0) return data->fronts[piece.shard];
  const std::uint64_t bytes = data->pieces[piece.shard].range(piece.piece).bytes;
  for (;;) {
    if (std::optional<std::vector<std::byte>> kept = data->cache->get(piece, bytes)) return *std::move(kept);
    const MutexLock lock(mutex_);
    if (under_way_.insert(piece).second) break;
    if (ends_) throw Error(ErrorKind::kInterrupted, "this host ends");
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout,
                  fmt::format("{} was not fetched in time", data->view.catalog.shards[piece.shard].name));
    changed_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(kSourcePause, deadline.remaining()));
  }
  const auto done = [&] {
    const MutexLock lock(mutex_);
    under_way_.erase(piece);
    changed_.notify_all();
  };
  std::vector<std::byte> fetched;
  try {
    fetched = read_piece(*data, piece, deadline);
  } catch (...) {
    done();
    throw;
  }
  bool tell = false;
  if (!data->cache->put(piece, fetched)) {
    const MutexLock lock(mutex_);
    tell = !std::exchange(told_uncached_, true);
  }
  done();
  if (tell)
    options_.tell(
        fmt::format("what is fetched cannot be kept in {}: it is fetched whenever it is read. Make room there, "
                    "or name another place in data.cache.",
                    data->view.cache.string()));
  return fetched;
}

void Depot::expect(std::span<const PieceId> pieces) {
  const std::shared_ptr<const Opened> data = opened();
  if (!data) return;
  const MutexLock lock(mutex_);
  for (const PieceId& piece : pieces) {
    if (piece.shard >= data->pieces.size() || piece.piece >= data->pieces[piece.shard].pieces()) continue;
    if (data->cache->touch(piece) || under_way_.contains(piece)) continue;
    if (expected_.size() < kMostExpected) expected_.push_back(piece);
  }
  changed_.notify_all();
}

std::uint64_t Depot::fetched_bytes() const {
  const MutexLock lock(mutex_);
  return fetched_bytes_;
}

void Depot::run() {
  for (;;) {
    PieceId piece;
    std::shared_ptr<const Opened> data;
    {
      const MutexLock lock(mutex_);
      while (expected_.empty() && !ends_)
        changed_.wait(mutex_);
      if (ends_) return;
      piece = expected_.front();
      expected_.pop_front();
      if (under_way_.contains(piece)) continue;
      data = opened_;
    }
    if (data->cache->has(piece)) continue;
    try {
      fetch(piece, Deadline::after(kAheadTime));
    } catch (const Error&) {
      // Who reads it finds out, and says so.
    }
  }
}

}  // namespace muster::data
