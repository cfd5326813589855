// Any bytes are plain, or a compressed file, or a muster::Error; how much is read at once does not show.
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto whole = read(bytes, 16384);
  const auto pieces = read(bytes, 1000);
  if (whole && pieces && !whole->empty() && !pieces->empty() && *whole != *pieces) std::abort();
  return 0;
}
