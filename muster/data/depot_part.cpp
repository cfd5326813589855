// What a depot does that keeps a part of the data: what it keeps, and what it gives to others. Fetching is in
// depot.cpp.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/text.h"
#include "muster/data/depot.h"

namespace muster::data {

Portions Depot::portions() const {
  return require_opened()->portions.value();
}

void Depot::place_lane(std::size_t lane, std::size_t lanes, std::span<const PieceRun> runs) {
  const std::shared_ptr<const Opened> data = require_opened();
  if (!data->portions) return;
  std::vector<std::uint64_t> touched;
  for (const PieceRun& run : runs) {
    const bool known = run.shard < data->pieces.size() && run.first > 0 && run.count > 0 &&
                       run.first < data->pieces[run.shard].pieces() &&
                       run.count <= data->pieces[run.shard].pieces() - run.first;
    if (!known || lane >= lanes)
      throw Error(ErrorKind::kInvalidInput, fmt::format("there are no pieces {} to {} of shard {} for lane {}",
                                                        run.first, run.first + run.count, run.shard, lane));
    const std::uint64_t last = data->portions->of({run.shard, run.first + run.count - 1});
    for (std::uint64_t portion = data->portions->of({run.shard, run.first}); portion <= last; ++portion)
      touched.push_back(portion);
  }
  std::ranges::sort(touched);
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  const MutexLock lock(mutex_);
  if (std::exchange(lane_count_, lanes) != lanes) told_lanes_.clear();
  told_lanes_[lane] = std::move(touched);
  if (told_lanes_.size() < lanes) return;
  LanePortions all;
  for (const auto& [number, portions] : told_lanes_)
    all.push_back(portions);
  if (!lanes_ || *lanes_ != all) lanes_ = std::make_shared<const LanePortions>(std::move(all));
}

std::shared_ptr<const LanePortions> Depot::lane_portions() const {
  const MutexLock lock(mutex_);
  return lanes_;
}

void Depot::keep(const std::vector<bool>& portions) {
  const std::shared_ptr<const Opened> data = require_opened();
  data->cache->keep([of = *data->portions, portions](const PieceId& piece) {
    return of.has(piece) && portions[of.of(piece)];  // what else lies there is not of this data
  });
}

// A disk that does not take it costs the next start, not this one.
void Depot::remember(const Opened& opened) const {
  try {
    remember_catalog(opened.view.cache, {options_.kept_as, opened.view.catalog, opened.fronts});
  } catch (const Error& error) {
    options_.tell(
        fmt::format("data: what the data is cannot be kept here, and has to be asked of others the next "
                    "time: {}",
                    error.message()));
  }
}

void Depot::prefer(SourceOrder order) {
  const MutexLock lock(mutex_);
  order_ = std::move(order);
}

bool Depot::has(std::uint64_t portion) const {
  const std::shared_ptr<const Opened> data = require_opened();
  const PieceRun run = data->portions->pieces(portion);
  for (std::uint64_t piece = run.first; piece < run.first + run.count; ++piece)
    if (!data->cache->has({run.shard, piece})) return false;
  return true;
}

std::uint64_t Depot::kept_bytes() const {
  return require_opened()->cache->kept_bytes();
}

void Depot::end() {
  const MutexLock lock(mutex_);
  ends_ = true;
  changed_.notify_all();
}

bool Depot::idle() const {
  const MutexLock lock(mutex_);
  return expected_.empty();
}

ShardCatalog Depot::catalog() const {
  return require_opened()->view.catalog;
}

std::vector<std::byte> Depot::give(const std::string& print, std::size_t shard, std::uint64_t offset,
                                   std::uint64_t bytes) {
  const std::shared_ptr<const Opened> data = require_opened();
  const ShardCatalog& catalog = data->view.catalog;
  if (print != catalog.print)
    throw Error(ErrorKind::kMismatch, fmt::format("the data here is {}, not {}", catalog.print, excerpt(print, 20)));
  std::uint64_t end = 0;
  if (shard >= catalog.shards.size() || bytes > kMostShardRead || __builtin_add_overflow(offset, bytes, &end) ||
      end > catalog.shards[shard].bytes)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("there are no {} bytes from {} of shard {}", bytes, offset, shard));
  const std::vector<std::byte>& front = data->fronts[shard];
  if (end <= front.size())
    return {front.begin() + static_cast<std::ptrdiff_t>(offset), front.begin() + static_cast<std::ptrdiff_t>(end)};
  const ShardPieces& pieces = data->pieces[shard];
  // Others ask for whole pieces, as they are here.
  const ByteRange first = pieces.pieces() > 1 ? pieces.range(1) : ByteRange{};
  if (first.bytes > 0 && offset >= first.offset) {
    const PieceId piece{shard, 1 + (offset - first.offset) / first.bytes};
    if (piece.piece < pieces.pieces() && pieces.range(piece.piece) == ByteRange{offset, bytes})
      if (std::optional<std::vector<std::byte>> kept = data->cache->get(piece, bytes)) return *std::move(kept);
  }
  throw Error(ErrorKind::kNotFound,
              fmt::format("{} bytes from {} of {} are not on this host", bytes, offset, catalog.shards[shard].name));
}

}  // namespace muster::data
