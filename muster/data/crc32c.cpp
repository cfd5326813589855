#include "muster/data/crc32c.h"

#include <array>
#include <cstring>

namespace muster::data {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// Table k advances a byte that stands k bytes before the end of eight.
constexpr Tables make_tables() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected
  Tables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (std::uint32_t i = 0; i < 256; ++i) {
    for (std::size_t k = 1; k < 8; ++k)
      tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xFF];
  }
  return tables;
}
constexpr Tables kTables = make_tables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_instruction(std::span<const std::byte> bytes) {
  std::uint64_t crc = 0xFFFFFFFF;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at)
    rest = __builtin_ia32_crc32qi(rest, std::to_integer<std::uint8_t>(*at));
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint32_t next = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      const std::uint32_t folded = k < 4 ? byte(i + k) ^ ((crc >> (8 * k)) & 0xFF) : byte(i + k);
      next ^= kTables[7 - k][folded];
    }
    crc = next;
  }
  for (; i < bytes.size(); ++i)
    crc = (crc >> 8) ^ kTables[0][(crc ^ byte(i)) & 0xFF];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) return crc32c_instruction(bytes);
#endif
  return crc32c_portable(bytes);
}

}  // namespace muster::data
