#include "muster/model/heap_trace.h"

#include <gtest/gtest.h>

namespace muster::model {
namespace {

constexpr std::uint64_t kMega = 1'000'000;

HeapEvent take(std::size_t block, std::uint64_t fixed, std::uint64_t sample = 0) {
  return {.block = block, .taken = true, .fixed_bytes = fixed, .sample_bytes = sample};
}

HeapEvent give(std::size_t block) {
  return {.block = block};
}

TEST(HeapTraceTest, HoldsWhatIsTakenAndNotYetGivenBack) {
  // 3, 3 + 4, 4, 4 + 2 and, never given back, 4 + 2 + 2.
  const HeapTrace trace{take(0, 3), take(1, 4), give(0), take(2, 2), take(3, 0, 1)};
  EXPECT_EQ(held_bytes(trace, 0), 7u);
  EXPECT_EQ(held_bytes(trace, 2), 8u);
  EXPECT_EQ(held_bytes({}, 2), 0u);
}

TEST(HeapTraceTest, IsFittedThroughTwoNumbersOfSamples) {
  // A weight's gradient of 10 bytes, and a layer's output of 5 + 7 for each sample.
  const HeapTrace two{take(0, 10), take(1, 5 + 14), give(0)};
  const HeapTrace three{take(0, 10), take(1, 5 + 21), give(0)};
  const std::optional<HeapTrace> fitted = fit_trace(two, 2, three, 3);
  ASSERT_TRUE(fitted);
  EXPECT_EQ((*fitted)[0].of(100), 10u);
  EXPECT_EQ((*fitted)[1].of(100), 705u);
  EXPECT_EQ(held_bytes(*fitted, 100), 715u);
}

TEST(HeapTraceTest, IsNotFittedThroughDifferentComputations) {
  const HeapTrace two{take(0, 10), take(1, 19), give(0)};
  EXPECT_FALSE(fit_trace(two, 2, HeapTrace{take(0, 10), take(1, 26)}, 3)) << "fewer events";
  EXPECT_FALSE(fit_trace(two, 2, HeapTrace{take(0, 10), take(1, 26), give(1)}, 3)) << "another order";
  EXPECT_FALSE(fit_trace(two, 2, HeapTrace{take(0, 10), take(1, 18), give(0)}, 3)) << "less for more samples";
}

TEST(HeapTraceTest, LargeBlocksGoBackToTheSystemAndLeaveNoHoles) {
  // Larger than any block that glibc keeps: two of 50 MB at a time, of three.
  const HeapTrace trace{take(0, 0, 50 * kMega), take(1, 0, 50 * kMega), give(0), take(2, 0, 50 * kMega)};
  const std::uint64_t bytes = heap_bytes(trace, 1, 3);
  EXPECT_GE(bytes, 100 * kMega);
  EXPECT_LE(bytes, 110 * kMega);
}

TEST(HeapTraceTest, TheHeapIsNeverSmallerThanItsBlocks) {
  const HeapTrace trace{take(0, kMega), take(1, 2 * kMega), take(2, 3 * kMega), give(1)};
  EXPECT_GE(heap_bytes(trace, 1, 2), 6 * kMega);
  EXPECT_EQ(heap_bytes({}, 1, 2), 0u);
}

TEST(HeapTraceTest, ABlockThatNoAddressSpaceHoldsIsNotMeasured) {
  EXPECT_EQ(heap_bytes(HeapTrace{take(0, std::uint64_t{1} << 60)}, 1, 1), 0u);
}

}  // namespace
}  // namespace muster::model
