// Offsets only: all ranks compute the same ones from the head, which is checked against the size of the region before
// anything else is believed.
#include "muster/comm/shm_layout.h"

#include <cstring>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::comm {
namespace {

constexpr std::uint64_t kGroupMagic = 0x70756f7267687375;  // "ushgroup"
constexpr std::uint32_t kLayoutVersion = 1;
constexpr std::size_t kLayoutLine = 64;
constexpr std::size_t kLargestPart = std::size_t{1} << 32;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kLayoutLine - 1) / kLayoutLine * kLayoutLine;
}

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorKind::kDamaged, "shared memory is not that of a group: " + reason);
}

}  // namespace

void ShmLayout::place() {
  const auto ranks = static_cast<std::size_t>(sizes_.ranks);
  board_ = aligned(sizeof(ShmHead));
  lines_ = board_ + aligned(Board::bytes(sizes_.ranks));
  slots_ = lines_ + ranks * sizeof(RankLine);
  channels_ = slots_ + ranks * kSlots * sizes_.slot_bytes;
  end_ = channels_ + ranks * ranks * (sizeof(Channel) + sizes_.channel_bytes);
}

std::size_t ShmLayout::bytes(const ShmSizes& sizes) {
  MUSTER_CHECK(sizes.slot_bytes % kLayoutLine == 0 && sizes.channel_bytes % kLayoutLine == 0,
               "parts are whole cache lines");
  MUSTER_CHECK(sizes.ranks >= 1 && sizes.ranks <= Board::kMaxSeats, "a group on one host has 1 to 64 ranks");
  ShmLayout layout;
  layout.sizes_ = sizes;
  layout.place();
  return layout.end_;
}

void ShmLayout::format(std::span<std::byte> region, const ShmSizes& sizes) {
  MUSTER_CHECK(region.size() >= bytes(sizes), "the region is too small for its group");
  const ShmHead head{kGroupMagic, kLayoutVersion, sizes.ranks, sizes.slot_bytes, sizes.channel_bytes};
  std::memcpy(region.data(), &head, sizeof head);
}

ShmLayout::ShmLayout(std::span<std::byte> region) : region_(region) {
  if (region.size() < sizeof(ShmHead)) refuse(fmt::format("it is only {} bytes long", region.size()));
  ShmHead head;
  std::memcpy(&head, region.data(), sizeof head);
  if (head.magic != kGroupMagic) refuse("it does not begin with a group's mark");
  if (head.layout_version != kLayoutVersion)
    refuse(fmt::format("its layout is version {}, and this program's is {}", head.layout_version, kLayoutVersion));
  if (head.ranks < 1 || head.ranks > Board::kMaxSeats || head.slot_bytes % kLayoutLine != 0 ||
      head.channel_bytes % kLayoutLine != 0 || head.slot_bytes > kLargestPart || head.channel_bytes > kLargestPart)
    refuse("its sizes make no sense");
  sizes_ = {head.ranks, head.slot_bytes, head.channel_bytes};
  place();
  if (end_ > region.size()) refuse(fmt::format("it is cut: {} bytes of {}", region.size(), end_));
}

}  // namespace muster::comm
