// Two ways to the same number: tables, and the processor's instruction over three blocks at once, put together by a
// linear map. The tests hold each to the other.
#include "muster/base/crc32c.h"

#include <array>
#include <cstring>

namespace muster {
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
// The instruction takes three cycles and a new one can begin in each: three blocks at once are three times as fast as
// one. What the blocks give is put together by the map below, which is linear over bits.
constexpr std::size_t kCrcBlock = 2048;

// Tables of the map "as if kCrcBlock zero bytes followed", one for each byte of the register.
constexpr std::array<std::array<std::uint32_t, 256>, 4> make_zeros_map() {
  std::array<std::array<std::uint32_t, 256>, 4> map{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t crc = std::uint32_t{1} << bit;
    for (std::size_t i = 0; i < kCrcBlock; ++i)
      crc = (crc >> 8) ^ kTables[0][crc & 0xFF];
    map[bit / 8][std::size_t{1} << (bit % 8)] = crc;
  }
  for (auto& table : map) {
    for (std::size_t i = 1; i < 256; ++i) {
      const std::size_t lowest = i & (~i + 1);
      if (lowest != i) table[i] = table[lowest] ^ table[i - lowest];
    }
  }
  return map;
}
constexpr auto kZerosMap = make_zeros_map();

std::uint64_t after_zeros(std::uint64_t crc) {
  return kZerosMap[0][crc & 0xFF] ^ kZerosMap[1][(crc >> 8) & 0xFF] ^ kZerosMap[2][(crc >> 16) & 0xFF] ^
         kZerosMap[3][(crc >> 24) & 0xFF];
}

std::uint64_t word_at(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, 8);
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t crc32c_instruction(std::span<const std::byte> bytes,
                                                                   std::uint32_t before) {
  std::uint64_t crc = static_cast<std::uint32_t>(~before);
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 3 * kCrcBlock; left -= 3 * kCrcBlock, at += 3 * kCrcBlock) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kCrcBlock; i += 8) {
      crc = __builtin_ia32_crc32di(crc, word_at(at + i));
      second = __builtin_ia32_crc32di(second, word_at(at + kCrcBlock + i));
      third = __builtin_ia32_crc32di(third, word_at(at + 2 * kCrcBlock + i));
    }
    crc = after_zeros(after_zeros(crc) ^ second) ^ third;
  }
  for (; left >= 8; left -= 8, at += 8) {
    crc = __builtin_ia32_crc32di(crc, word_at(at));
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at)
    rest = __builtin_ia32_crc32qi(rest, std::to_integer<std::uint8_t>(*at));
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
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

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) return crc32c_instruction(bytes, before);
#endif
  return crc32c_portable(bytes, before);
}

}  // namespace muster
