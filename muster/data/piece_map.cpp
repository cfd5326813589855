// Arithmetic on headers; nothing is read here. Headers were checked by parse_packed_front, so no sum overflows.
// How large pieces are is a choice with a reason.
#include "muster/data/piece_map.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kLargePiece = std::uint64_t{256} << 10;
constexpr std::uint64_t kSmallPiece = std::uint64_t{16} << 10;
constexpr std::uint64_t kLeastPlacedPiece = std::uint64_t{4} << 10;
constexpr std::uint64_t kPlacedPieces = 4096;  // that data has at least, down to the least size of a piece

}  // namespace

PieceChoice choose_pieces(std::uint64_t data_bytes, std::uint64_t cache_bytes) {
  // What is kept takes whole pages and checksums, so a little more.
  const bool fits = data_bytes / 16 * 17 < cache_bytes;
  return {fits ? kLargePiece : kSmallPiece,
          fmt::format("the data has {}, which {} a cache of {}", human_bytes(data_bytes),
                      fits ? "fits into" : "is more than", human_bytes(cache_bytes))};
}

PieceChoice choose_placed_pieces(std::uint64_t data_bytes) {
  const std::uint64_t even = std::bit_floor(std::max<std::uint64_t>(1, data_bytes / kPlacedPieces));
  return {std::clamp(even, kLeastPlacedPiece, kLargePiece),
          fmt::format("each host keeps a part of {}", human_bytes(data_bytes))};
}

ShardPieces::ShardPieces(const PackedHeader& header, std::uint64_t piece_bytes)
    : data_offset_(header.data_offset),
      count_(header.count),
      record_bytes_(header.layout.record_bytes()),
      records_(std::max<std::uint64_t>(1, piece_bytes / record_bytes_)) {
}

std::uint64_t ShardPieces::pieces() const {
  return 1 + (count_ + records_ - 1) / records_;
}

ByteRange ShardPieces::within(std::uint64_t record) const {
  return {record % records_ * record_bytes_, record_bytes_};
}

ByteRange ShardPieces::range(std::uint64_t piece) const {
  if (piece == 0) return {0, data_offset_};
  const std::uint64_t first = (piece - 1) * records_;
  return {data_offset_ + first * record_bytes_, std::min(records_, count_ - first) * record_bytes_};
}

}  // namespace muster::data
