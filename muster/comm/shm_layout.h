// The shared region of an shm group: who is where in it, and the words that ranks exchange through it.
//
// Region, in this order, every part aligned to 64 bytes:
//   head        magic, layout version, number of ranks, sizes of slots and channels
//   board       seats, doorbells, failure (board.h)
//   rank lines  per rank: rounds published, and the calls of its last two collectives
//   slots       per rank, kSlots of slot_bytes: what a rank gives to the others in a round
//   channels    per ordered pair of ranks: a ring of channel_bytes for messages
// All zero but the head is the valid first state. Memory that is never used is never touched and costs nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "muster/comm/board.h"
#include "muster/comm/call.h"

namespace muster::comm {

// Round i is written into slot i % kSlots while peers may still read round i - 1 and, one behind, i - 2; whoever has
// seen everybody publish round i - 2 knows that everybody has finished i - 4.
constexpr std::uint64_t kSlots = 4;

struct ShmSizes {
  int ranks = 1;
  std::size_t slot_bytes = 0;
  std::size_t channel_bytes = 0;
};

struct ShmHead {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::int32_t ranks;
  std::uint64_t slot_bytes;
  std::uint64_t channel_bytes;
};

struct alignas(64) RankLine {
  std::atomic<std::uint64_t> rounds;  // how many rounds this rank has published
  Call calls[2];                      // of collective s at [s % 2]; written before its first round is published
};

// A ring of bytes from one rank to another. Positions only grow; a position modulo the capacity is a place.
struct Channel {
  alignas(64) std::atomic<std::uint64_t> written;  // by the sender
  alignas(64) std::atomic<std::uint64_t> read;     // by the receiver
};

// Pointers into one mapping of the region.
class ShmLayout {
 public:
  static std::size_t bytes(const ShmSizes& sizes);
  // Writes the head into a new region.
  static void format(std::span<std::byte> region, const ShmSizes& sizes);
  // Throws kDamaged for a region that is not one of these, or of other sizes than its length, with the reason.
  explicit ShmLayout(std::span<std::byte> region);

  const ShmSizes& sizes() const { return sizes_; }
  std::span<std::byte> board() const { return {region_.data() + board_, Board::bytes(sizes_.ranks)}; }
  RankLine& line(int rank) const {
    return *reinterpret_cast<RankLine*>(region_.data() + lines_ + sizeof(RankLine) * static_cast<std::size_t>(rank));
  }
  std::byte* slot(int rank, std::uint64_t round) const {
    return region_.data() + slots_ + (static_cast<std::size_t>(rank) * kSlots + round % kSlots) * sizes_.slot_bytes;
  }
  Channel& channel(int from, int to) const { return *reinterpret_cast<Channel*>(channel_place(from, to)); }
  std::span<std::byte> channel_data(int from, int to) const {
    return {channel_place(from, to) + sizeof(Channel), sizes_.channel_bytes};
  }

 private:
  std::byte* channel_place(int from, int to) const {
    const auto index = static_cast<std::size_t>(from) * static_cast<std::size_t>(sizes_.ranks);
    return region_.data() + channels_ +
           (index + static_cast<std::size_t>(to)) * (sizeof(Channel) + sizes_.channel_bytes);
  }
  ShmLayout() = default;
  void place();

  std::span<std::byte> region_;
  ShmSizes sizes_;
  std::size_t board_ = 0, lines_ = 0, slots_ = 0, channels_ = 0, end_ = 0;
};

}  // namespace muster::comm
