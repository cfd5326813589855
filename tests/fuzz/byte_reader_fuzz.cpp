// Any bytes are plain, or a compressed file, or a muster::Error; how much is read at once does not show.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/byte_reader.h"

namespace {

std::optional<std::vector<std::byte>> read(std::span<const std::byte> bytes, std::size_t piece) {
  constexpr std::size_t kMost = std::size_t{1} << 16;  // what a bomb gives behind it is no other code
  try {
    const auto reader = muster::data::ByteReader::of_memory(bytes, "fuzz");
    std::vector<std::byte> all;
    while (all.size() < kMost) {
      const std::size_t before = all.size();
      all.resize(before + piece);
      const std::size_t count = reader->read(std::span(all).subspan(before));
      all.resize(before + count);
      if (count < piece) return all;
    }
    return std::vector<std::byte>();  // long enough
  } catch (const muster::Error&) {
    return std::nullopt;
  }
}

// A frame of zstd may ask for a window of up to 128 MiB, and preparing the sanitizer's memory for that takes
// milliseconds: the first frame gets a small one (its exponent is in the high bits of byte 5), unless the input ends
// with a zero.
void limit_window(std::vector<std::byte>& bytes) {
  constexpr std::array kMagic{std::byte{0x28}, std::byte{0xB5}, std::byte{0x2F}, std::byte{0xFD}};
  constexpr std::byte kSingleSegment{0x20};  // then there is no byte for the window
  if (bytes.size() < 6 || !std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) return;
  if ((bytes[4] & kSingleSegment) != std::byte{0} || bytes.back() == std::byte{0}) return;
  const unsigned exponent = std::to_integer<unsigned>(bytes[5]) >> 3;
  if (exponent > 10) bytes[5] &= std::byte{0x3F};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(input.begin(), input.end());
  limit_window(bytes);
  const auto whole = read(bytes, 4096);
  const auto pieces = read(bytes, 1000);
  if (whole && pieces && !whole->empty() && !pieces->empty() && *whole != *pieces) std::abort();
  return 0;
}
