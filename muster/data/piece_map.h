// Pieces: what is fetched and kept of packed shards at once. Piece 0 of a shard is what stands before its records;
// each of the others is a number of whole records that follow each other. Pure; no torch here.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/data/packed_format.h"
#include "muster/data/shard_calls.h"

namespace muster::data {

struct PieceId {
  std::size_t shard = 0;  // place in the catalog
  std::uint64_t piece = 0;
  auto operator<=>(const PieceId&) const = default;
};

// Pieces of one shard that follow each other.
struct PieceRun {
  std::size_t shard = 0;
  std::uint64_t first = 1;
  std::uint64_t count = 0;
  bool operator==(const PieceRun&) const = default;
};

struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool operator==(const ByteRange&) const = default;
};

// How large pieces are, about. Where all of the data fits into the cache it is read once and kept: pieces of 256 KiB
// make few requests. Where it does not, most of a piece would be thrown away before it is used, because samples come
// in random order: then pieces are hardly more than records.
struct PieceChoice {
  std::uint64_t piece_bytes = 0;
  std::string reason;
};
PieceChoice choose_pieces(std::uint64_t data_bytes, std::uint64_t cache_bytes);
// Where each host keeps a part: the same on all hosts whatever their caches are, so that one can give what another
// asks for. Small data has small pieces, so that there are enough of them to be spread.
PieceChoice choose_placed_pieces(std::uint64_t data_bytes);

// The pieces of one shard. A value.
class ShardPieces {
 public:
  // Of a shard whose header is known. REQUIRES: a header of parse_packed_front; piece_bytes > 0.
  ShardPieces(const PackedHeader& header, std::uint64_t piece_bytes);

  std::uint64_t pieces() const;  // with piece 0
  // Which has a record, and where in it. REQUIRES: record < header.count.
  std::uint64_t piece_of(std::uint64_t record) const { return 1 + record / records_; }
  ByteRange within(std::uint64_t record) const;
  // Where in the shard a piece lies. REQUIRES: piece < pieces().
  ByteRange range(std::uint64_t piece) const;
  std::uint64_t records_per_piece() const { return records_; }

 private:
  std::uint64_t data_offset_;
  std::uint64_t count_;
  std::uint64_t record_bytes_;
  std::uint64_t records_;
};

}  // namespace muster::data
