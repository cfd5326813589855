// Alignment, growth and moves of the batch's memory.
#include "muster/data/aligned_floats.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <new>
#include <utility>

namespace muster::data {
namespace {

TEST(AlignedFloats, MemoryIsOnACacheLine) {
  for (const std::size_t size : {1, 15, 16, 17, 1000}) {
    AlignedFloats floats;
    floats.resize_discarding(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats.data()) % 64, 0U);
    ASSERT_EQ(floats.size(), size);
    for (float& value : floats.span())
      value = 1.0F;  // the address sanitizer watches
  }
}

TEST(AlignedFloats, KeepsItsMemoryWhenItIsEnough) {
  AlignedFloats floats;
  floats.resize_discarding(100);
  const float* before = floats.data();
  floats.resize_discarding(1);
  floats.resize_discarding(100);
  EXPECT_EQ(floats.data(), before);
}

TEST(AlignedFloats, MovedFromIsEmpty) {
  AlignedFloats floats;
  floats.resize_discarding(3);
  const AlignedFloats moved = std::move(floats);
  EXPECT_EQ(moved.size(), 3U);
  EXPECT_EQ(floats.size(), 0U);  // NOLINT(bugprone-use-after-move): the contract says so
  floats.resize_discarding(2);
  floats.span()[1] = 1.0F;
}

TEST(AlignedFloats, RefusesASizeWhoseBytesOverflow) {
  AlignedFloats floats;
  EXPECT_THROW(floats.resize_discarding(std::numeric_limits<std::size_t>::max() / 2), std::bad_alloc);
  EXPECT_EQ(floats.size(), 0U);
}

}  // namespace
}  // namespace muster::data
