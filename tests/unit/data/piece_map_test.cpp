// Every byte of a shard is in exactly one piece, and every record in one.
#include "muster/data/piece_map.h"

#include <gtest/gtest.h>

namespace muster::data {
namespace {

PackedHeader header(std::uint64_t count, std::int64_t floats) {
  PackedHeader made;
  made.layout.spec.shape = {floats};
  made.layout.spec.classes = 3;
  made.count = count;
  made.data_offset = 4096;
  return made;
}

TEST(PieceMap, PiecesCoverAShardOnce) {
  for (const std::uint64_t count : {0, 1, 2, 7, 8, 9, 100}) {
    for (const std::uint64_t piece_bytes : {1, 100, 200, 4096}) {
      const PackedHeader shard = header(count, 10);  // records of 8 + 40 + 4 bytes
      const ShardPieces pieces(shard, piece_bytes);
      std::uint64_t next = 0;
      for (std::uint64_t piece = 0; piece < pieces.pieces(); ++piece) {
        EXPECT_EQ(pieces.range(piece).offset, next);
        EXPECT_GT(pieces.range(piece).bytes, 0U);
        next += pieces.range(piece).bytes;
      }
      EXPECT_EQ(next, 4096 + count * 52) << count << " records, pieces of " << piece_bytes;
      for (std::uint64_t record = 0; record < count; ++record) {
        const ByteRange piece = pieces.range(pieces.piece_of(record));
        EXPECT_EQ(piece.offset + pieces.within(record).offset, 4096 + record * 52);
        EXPECT_LE(pieces.within(record).offset + pieces.within(record).bytes, piece.bytes);
      }
    }
  }
}

TEST(PieceMap, ARecordThatIsLargerThanAPieceIsOne) {
  const ShardPieces pieces(header(5, 1000), 100);
  EXPECT_EQ(pieces.records_per_piece(), 1U);
  EXPECT_EQ(pieces.pieces(), 6U);
}

TEST(PieceMap, PiecesAreSmallWhereTheCacheCannotKeepAll) {
  const PieceChoice all = choose_pieces(1 << 20, 2 << 20);
  const PieceChoice some = choose_pieces(3 << 20, 2 << 20);
  EXPECT_GT(all.piece_bytes, some.piece_bytes);
  EXPECT_NE(all.reason, some.reason);
  EXPECT_GT(some.piece_bytes, 0U);
}

}  // namespace
}  // namespace muster::data
