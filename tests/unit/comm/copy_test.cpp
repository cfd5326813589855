// Exactly the bytes that are asked for, for lengths around a block and every alignment.
#include "muster/comm/copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace muster::comm {
namespace {

using Copy = void (*)(void* to, const void* from, std::size_t bytes);

class CopyBytes : public ::testing::TestWithParam<Copy> {};

TEST_P(CopyBytes, CopiesExactlyTheBytesThatItIsTold) {
  // Around the block of the kernel, the reach of its prefetch, and at every kind of misalignment.
  const std::vector<std::size_t> lengths{0, 1, 7, 31, 32, 33, 255, 256, 257, 511, 512, 513, 4095, 4096, 4097, 100'003};
  for (const std::size_t length : lengths) {
    for (const auto& [to_offset, from_offset] :
         {std::pair(0U, 0U), std::pair(1U, 0U), std::pair(0U, 1U), std::pair(3U, 5U), std::pair(63U, 32U)}) {
      std::vector<std::uint8_t> from(length + 64);
      for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = static_cast<std::uint8_t>(i * 131 + i / 256 + 1);
      constexpr std::uint8_t kUntouched = 0xa5;
      std::vector<std::uint8_t> to(length + 128, kUntouched);
      GetParam()(to.data() + to_offset, from.data() + from_offset, length);
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= to_offset && i < to_offset + length;
        ASSERT_EQ(to[i], inside ? from[i - to_offset + from_offset] : kUntouched)
            << length << " bytes to +" << to_offset << " from +" << from_offset << ", byte " << i;
      }
    }
  }
}

TEST_P(CopyBytes, NothingMayBeNowhere) {
  GetParam()(nullptr, nullptr, 0);
  std::uint8_t byte = 7;
  GetParam()(&byte, nullptr, 0);
  EXPECT_EQ(byte, 7);
}

INSTANTIATE_TEST_SUITE_P(Ways, CopyBytes, ::testing::Values(copy_bytes, stream_bytes));

}  // namespace
}  // namespace muster::comm
