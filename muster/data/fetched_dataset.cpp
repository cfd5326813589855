// A file of the cache may vanish at any moment, or be damaged: then the door is asked, and what it gives counts. Where
// shards begin and end is checked as for files (PackedChain).
#include "muster/data/fetched_dataset.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/data/piece_cache.h"

namespace muster::data {
namespace {

constexpr std::chrono::seconds kOpenTime{60};
// Less than what the trainer waits for a lane, so that the reason is told and not that time has passed.
constexpr std::chrono::seconds kFetchTime{50};

std::vector<std::size_t> places_of(const DepotView& view, const std::string& set) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < view.catalog.shards.size(); ++i)
    if (view.catalog.shards[i].name.starts_with(set + "-")) places.push_back(i);
  return places;
}

// Nothing: it is not there as it should be.
bool read_from_cache(const std::filesystem::path& path, const ByteRange& within, std::span<std::byte> record) {
  try {
    read_exactly(open_for_reading(path), within.offset, record, path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool FetchedDataset::exists(const DepotView& view, const std::string& set) {
  return !places_of(view, set).empty();
}

FetchedDataset::FetchedDataset(std::shared_ptr<PieceDoor> door, const DepotView& view, const std::string& set)
    : door_(std::move(door)), cache_(view.cache) {
  const std::vector<std::size_t> places = places_of(view, set);
  if (places.empty())
    throw Error(ErrorKind::kNotFound, fmt::format("no host has a shard of the set \"{}\"", set), {},
                "Write it with: muster data pack SOURCE FOLDER.");
  for (const std::size_t place : places) {
    const ShardEntry& shard = view.catalog.shards[place];
    const std::vector<std::byte> front = door_->fetch({place, 0}, Deadline::after(kOpenTime));
    const PackedHeader header = parse_packed_front(front, shard.bytes, shard.name);
    // Of the name, too: the order of the catalog is that of names.
    if (shard_name(set, header.shard, header.shards) != shard.name)
      throw Error(ErrorKind::kDamaged, "its header is that of another shard", shard.name);
    chain_.add(header, places.size(), shard.name);
    shards_.push_back({place, shard.name, ShardPieces(header, view.piece_bytes)});
  }
}

FetchedDataset::Spot FetchedDataset::spot_of(std::uint64_t id) const {
  const std::size_t shard = chain_.shard_of(id);
  const std::uint64_t record = id - chain_.first(shard);
  const ShardPieces& pieces = shards_[shard].pieces;
  return {{shards_[shard].place, pieces.piece_of(record)}, pieces.within(record)};
}

std::int64_t FetchedDataset::read(std::uint64_t id, std::span<float> features) const {
  std::int64_t label = 0;
  MUSTER_CHECK(spec().input == InputKind::kFloats && spec().target == TargetKind::kClass, "not floats with a class");
  read_sample(id, {.features = features, .labels = std::span(&label, 1)});
  return label;
}

void FetchedDataset::read_sample(std::uint64_t id, const SampleRoom& room) const {
  // As in PackedDataset: to allocate it for every sample would cost more than to read it.
  thread_local std::vector<std::byte> record;
  const Spot spot = spot_of(id);
  record.resize(spot.within.bytes);
  if (read_from_cache(piece_path(cache_, spot.piece), spot.within, record)) {
    try {
      return decode_record(chain_.layout(), record, room, {});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kDamaged) throw;  // in the cache, or where it came from: the door knows
    }
  }
  const std::vector<std::byte> piece = door_->fetch(spot.piece, Deadline::after(kFetchTime));
  if (piece.size() < spot.within.offset + spot.within.bytes)
    throw Error(ErrorKind::kDamaged, fmt::format("a piece of {} bytes is too short", piece.size()), name(id));
  decode_record(chain_.layout(), std::span(piece).subspan(spot.within.offset, spot.within.bytes), room, name(id));
}

std::string FetchedDataset::name(std::uint64_t id) const {
  const std::size_t shard = chain_.shard_of(id);
  return fmt::format("{}: record {}", shards_[shard].name, id - chain_.first(shard));
}

std::vector<PieceRun> FetchedDataset::pieces_of(std::span<const std::uint64_t> ids) const {
  std::vector<PieceId> pieces;
  for (const std::uint64_t id : ids) {
    const PieceId piece = spot_of(id).piece;
    if (pieces.empty() || pieces.back() != piece) pieces.push_back(piece);
  }
  std::ranges::sort(pieces);
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  std::vector<PieceRun> runs;
  for (const PieceId& piece : pieces) {
    if (runs.empty() || runs.back().shard != piece.shard || runs.back().first + runs.back().count != piece.piece)
      runs.push_back({piece.shard, piece.piece, 0});
    ++runs.back().count;
  }
  return runs;
}

void FetchedDataset::will_read(std::span<const std::uint64_t> ids) const {
  std::vector<PieceId> pieces;
  for (const std::uint64_t id : ids) {
    const PieceId piece = spot_of(id).piece;
    if (std::ranges::find(pieces, piece) == pieces.end()) pieces.push_back(piece);
  }
  door_->expect(pieces);
}

}  // namespace muster::data
