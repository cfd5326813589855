// Lanes' buffers become one by the weighted mean and the tree; what no lane changed never drifts.
#include "muster/compute/buffer_layout.h"

#include <cstring>

#include <gtest/gtest.h>

namespace muster::compute {
namespace {

using model::Dtype;

template <typename T>
void put(std::vector<std::byte>& bytes, std::size_t at, std::initializer_list<T> values) {
  for (const T value : values) {
    std::memcpy(bytes.data() + at, &value, sizeof(T));
    at += sizeof(T);
  }
}

template <typename T>
T get(const std::vector<std::byte>& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

BufferLayout batch_norm() {
  BufferLayout layout;
  layout.add("running_mean", Dtype::kF32, {3}, 12);
  layout.add("running_scale", Dtype::kF64, {1}, 8);
  layout.add("num_batches_tracked", Dtype::kI64, {}, 8);
  return layout;
}

std::vector<std::byte> merge(const BufferLayout& layout, const std::vector<std::vector<std::byte>>& lanes,
                             const std::vector<double>& weights) {
  std::vector<std::span<const std::byte>> views(lanes.begin(), lanes.end());
  std::vector<std::byte> out(layout.bytes);
  merge_buffers(layout, views, weights, out);
  return out;
}

TEST(BufferLayout, PlacesBuffersOnAlignedBoundaries) {
  const BufferLayout layout = batch_norm();
  EXPECT_EQ(layout.slots[0].offset, 0U);
  EXPECT_EQ(layout.slots[1].offset, 64U);
  EXPECT_EQ(layout.slots[2].offset, 128U);
  EXPECT_EQ(layout.bytes, 192U);
}

TEST(MergeBuffers, OneLaneIsTakenBitForBit) {
  const BufferLayout layout = batch_norm();
  std::vector<std::byte> lane(layout.bytes);
  put<float>(lane, 0, {0.1F, -0.0F, 3e-40F});
  put<double>(lane, 64, {1.0 / 3.0});
  put<std::int64_t>(lane, 128, {41});
  EXPECT_EQ(merge(layout, {lane}, {1.0}), lane);
}

TEST(MergeBuffers, FloatsAreTheWeightedMeanAndIntegersComeFromLaneZero) {
  const BufferLayout layout = batch_norm();
  std::vector<std::byte> a(layout.bytes);
  std::vector<std::byte> b(layout.bytes);
  put<float>(a, 0, {1.0F, 2.0F, 3.0F});
  put<float>(b, 0, {5.0F, 2.0F, 7.0F});
  put<double>(a, 64, {8.0});
  put<double>(b, 64, {4.0});
  put<std::int64_t>(a, 128, {10});
  put<std::int64_t>(b, 128, {99});
  const auto merged = merge(layout, {a, b}, {0.75, 0.25});
  EXPECT_EQ(get<float>(merged, 0), 2.0F);
  EXPECT_EQ(get<float>(merged, 4), 2.0F);
  EXPECT_EQ(get<float>(merged, 8), 4.0F);
  EXPECT_EQ(get<double>(merged, 64), 7.0);
  EXPECT_EQ(get<std::int64_t>(merged, 128), 10);
}

TEST(MergeBuffers, ATableThatNoLaneChangedNeverDrifts) {
  BufferLayout layout;
  layout.add("table", Dtype::kF32, {2}, 8);
  std::vector<std::byte> lane(layout.bytes);
  put<float>(lane, 0, {0.1F, 1.0F / 3.0F});
  // Three weights that do not add up to exactly 1 in binary.
  EXPECT_EQ(merge(layout, {lane, lane, lane}, {1.0 / 3, 1.0 / 3, 1.0 / 3}), lane);
}

TEST(MergeBuffers, AddsByTheTreeNotFromLeftToRight) {
  BufferLayout layout;
  layout.add("mean", Dtype::kF64, {1}, 8);
  // Left to right: ((1 + 1e16) - 1e16) - 1 = -1. By the tree: (1 + 1e16) + (-1e16 - 1) = 0.
  std::vector<std::vector<std::byte>> lanes;
  for (const double value : {1.0, 1e16, -1e16, -1.0}) {
    lanes.emplace_back(layout.bytes);
    put<double>(lanes.back(), 0, {value});
  }
  EXPECT_EQ(get<double>(merge(layout, lanes, {1, 1, 1, 1}), 0), 0.0);
}

TEST(MergeBuffers, AveragesBfloat16AndRoundsToTheNearest) {
  BufferLayout layout;
  layout.add("running_mean", Dtype::kBf16, {4}, 8);
  std::vector<std::vector<std::byte>> lanes(2, std::vector<std::byte>(layout.bytes));
  // 1, 1 + 1/128 (the next one), 3, and one that both have.
  put<std::uint16_t>(lanes[0], 0, {0x3f80, 0x3f80, 0x4040, 0x3dcd});
  put<std::uint16_t>(lanes[1], 0, {0x4040, 0x3f81, 0x3f80, 0x3dcd});
  const std::vector<std::byte> merged = merge(layout, lanes, {0.5, 0.5});
  EXPECT_EQ(get<std::uint16_t>(merged, 0), 0x4000);  // 2
  EXPECT_EQ(get<std::uint16_t>(merged, 2), 0x3f80);  // half-way: the even one
  EXPECT_EQ(get<std::uint16_t>(merged, 4), 0x4000);
  EXPECT_EQ(get<std::uint16_t>(merged, 6), 0x3dcd);
}

}  // namespace
}  // namespace muster::compute
