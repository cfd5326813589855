// What a host that has data answers one that has not (proto/shards.proto): catalogs and bytes as protobuf gives them,
// and the pieces of a shard whose header came from there. The first byte says which; of bytes, the second says whether
// the checksum is made right. What is taken says the same when it is sent again, and no piece lies outside of its
// shard.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/control/shard_wire.h"
#include "muster/data/piece_map.h"

namespace {

using namespace muster;

void take_catalog(const std::uint8_t* input, int size) {
  control::v1::OpenDepotReply reply;
  if (!reply.ParseFromArray(input, size)) return;
  const data::DepotView view = control::from_wire(reply, "fuzz");
  control::v1::OpenDepotReply again;
  control::to_wire(view, again);
  if (control::from_wire(again, "fuzz").catalog != view.catalog || view.catalog.shards.empty()) std::abort();
}

void take_bytes(const std::uint8_t* input, int size) {
  control::v1::ReadShardReply reply;
  if (size < 2 || !reply.ParseFromArray(input + 1, size - 1)) return;
  if ((input[0] & 1) == 0) reply.set_crc32c(muster::crc32c(std::as_bytes(std::span(reply.data()))));
  const std::vector<std::byte> bytes = control::from_wire(reply, input[0] >> 1, "fuzz");
  if (bytes.size() != static_cast<std::size_t>(input[0] >> 1)) std::abort();
}

// The size of the shard and that of a piece in eight bytes each, then the header, with its checksum made right.
void take_pieces(std::span<const std::uint8_t> input) {
  if (input.size() < 16 + data::kPackedPreamble) return;
  const auto number = [&](std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i)
      value |= std::uint64_t{input[at + i]} << (8 * i);
    return value;
  };
  const std::uint64_t shard_bytes = number(0);
  std::vector<std::byte> front;
  for (const std::uint8_t byte : input.subspan(16))
    front.push_back(static_cast<std::byte>(byte));
  const std::uint32_t checksum = muster::crc32c(std::span(front).subspan(data::kPackedPreamble));
  for (std::size_t i = 0; i < 4; ++i)
    front[16 + i] = static_cast<std::byte>(checksum >> (8 * i));
  const data::PackedHeader header = data::parse_packed_front(front, shard_bytes, "fuzz");
  const data::ShardPieces pieces(header, std::max<std::uint64_t>(1, number(8)));
  const std::uint64_t last = pieces.pieces() - 1;
  const data::ByteRange range = pieces.range(last);
  if (range.offset + range.bytes != shard_bytes || range.offset > shard_bytes) std::abort();
  if (header.count > 0 && pieces.piece_of(header.count - 1) != last) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0 || size > (std::size_t{1} << 20)) return 0;
  try {
    if (input[0] % 3 == 0)
      take_catalog(input + 1, static_cast<int>(size) - 1);
    else if (input[0] % 3 == 1)
      take_bytes(input + 1, static_cast<int>(size) - 1);
    else
      take_pieces(std::span(input + 1, size - 1));
  } catch (const muster::Error&) {
    // Refused, with a reason.
  }
  return 0;
}
