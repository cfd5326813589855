// CRC-32C (Castagnoli), the checksum of packed records and of messages between hosts: with the processor's instruction
// where it has one (SSE 4.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster {

// Of `bytes` behind others whose checksum is `before`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

// The same without the instruction, for other processors and for tests.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace muster
