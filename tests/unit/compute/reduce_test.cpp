// The fast reductions against the definition of the tree, one element at a time, for sizes around tile and block.
#include "muster/compute/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "unit/compute/samples.h"

namespace muster::compute {
namespace {

// 0, 1, odd, one line of the cache, around the tile and the block of the implementation.
const std::size_t kSizes[] = {0, 1, 7, 16, 17, 1023, 1024, 1025, 16 * 1024 + 1};

struct Lanes {
  explicit Lanes(std::size_t count, std::size_t size) {
    for (std::size_t lane = 0; lane < count; ++lane) {
      values.push_back(samples(size, lane, std::ldexp(1.0, static_cast<int>(lane % 20))));
    }
    for (const auto& lane : values)
      pointers.push_back(lane.data());
  }
  std::vector<std::vector<float>> values;
  std::vector<const float*> pointers;
};

struct Partial {
  bool present;
  float sum;
};

// The definition of the tree, one element at a time.
Partial tree(const std::vector<const float*>& lanes, std::size_t lo, std::size_t hi, std::size_t i) {
  if (hi - lo == 1) return lanes[lo] == nullptr ? Partial{false, 0} : Partial{true, lanes[lo][i]};
  std::size_t power = 1;
  while (power * 2 < hi - lo)
    power *= 2;
  const Partial left = tree(lanes, lo, lo + power, i);
  const Partial right = tree(lanes, lo + power, hi, i);
  if (!left.present) return right;
  if (!right.present) return left;
  return {true, left.sum + right.sum};
}

void expect_tree(const std::vector<const float*>& lanes, std::size_t offset, std::size_t count) {
  std::vector<float> scratch(count, -1);
  const std::span<const float> sum = reduce_lanes(lanes, offset, scratch);
  ASSERT_EQ(sum.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(sum[i]),
              std::bit_cast<std::uint32_t>(tree(lanes, 0, lanes.size(), offset + i).sum))
        << lanes.size() << " lanes, element " << i;
  }
}

// Whether [lo, hi) is a node of the tree over [from, to).
bool is_node(std::size_t from, std::size_t to, std::size_t lo, std::size_t hi) {
  if (from == lo && to == hi) return true;
  if (to - from <= 1 || lo < from || hi > to) return false;
  std::size_t power = 1;
  while (power * 2 < to - from)
    power *= 2;
  return is_node(from, from + power, lo, hi) || is_node(from + power, to, lo, hi);
}

TEST(Subtrees, AreTheFewestNodesThatCoverARange) {
  EXPECT_EQ(subtrees_of(8, 0, 8), (std::vector<Subtree>{{0, 8}}));
  EXPECT_EQ(subtrees_of(8, 1, 7), (std::vector<Subtree>{{1, 2}, {2, 4}, {4, 6}, {6, 7}}));
  EXPECT_EQ(subtrees_of(7, 4, 7), (std::vector<Subtree>{{4, 7}}));
  EXPECT_EQ(subtrees_of(5, 2, 2), std::vector<Subtree>());
  for (std::size_t lanes = 1; lanes <= 20; ++lanes) {
    for (std::size_t first = 0; first <= lanes; ++first) {
      for (std::size_t last = first; last <= lanes; ++last) {
        std::size_t next = first;
        const std::vector<Subtree> found = subtrees_of(lanes, first, last);
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(found[i].first, next);
          EXPECT_LT(found[i].first, found[i].last);
          EXPECT_TRUE(is_node(0, lanes, found[i].first, found[i].last)) << lanes << ": " << found[i].first;
          // Two that were the halves of a node would be that node.
          if (i > 0) {
            EXPECT_FALSE(is_node(0, lanes, found[i - 1].first, found[i].last));
          }
          next = found[i].last;
        }
        EXPECT_EQ(next, last);
      }
    }
  }
}

// What hosts with these borders between their lanes give together.
void expect_hosts_give_the_tree(const std::vector<const float*>& lanes, const std::vector<std::size_t>& borders,
                                std::size_t count) {
  std::vector<std::vector<float>> sums;
  sums.reserve(lanes.size());
  std::vector<TreePart> parts;
  for (std::size_t host = 0; host + 1 < borders.size(); ++host) {
    for (const Subtree& part : subtrees_of(lanes.size(), borders[host], borders[host + 1])) {
      std::vector<float>& scratch = sums.emplace_back(count, -1.0F);
      const auto own = std::span(lanes).subspan(part.first, part.last - part.first);
      const std::span<const float> sum = reduce_lanes(own, 0, scratch);
      parts.push_back({part, sum.empty() ? nullptr : sum.data()});
    }
  }
  std::vector<float> scratch(count, -1);
  const std::span<const float> sum = reduce_parts(parts, lanes.size(), scratch);
  const bool present = tree(lanes, 0, lanes.size(), 0).present;
  ASSERT_EQ(sum.size(), present ? count : 0);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(sum[i]), std::bit_cast<std::uint32_t>(tree(lanes, 0, lanes.size(), i).sum))
        << lanes.size() << " lanes, element " << i;
  }
}

TEST(Subtrees, GiveTheBitsOfOneHostForEveryDivisionAmongUpToFour) {
  constexpr std::size_t kCount = 3;
  for (std::size_t count = 1; count <= 16; ++count) {
    const Lanes all(count, kCount);
    // All lanes there; every third absent; only some of the middle; one at the end; none.
    for (const std::uint32_t absent : {0U, 0x9249U, 0xf00fU, 0x7fffU >> (16 - count), 0xffffU}) {
      std::vector<const float*> lanes = all.pointers;
      for (std::size_t lane = 0; lane < count; ++lane) {
        if ((absent >> lane & 1) != 0) lanes[lane] = nullptr;
      }
      for (std::size_t a = 0; a <= count; ++a) {
        for (std::size_t b = a; b <= count; ++b) {
          for (std::size_t c = b; c <= count; ++c) {
            expect_hosts_give_the_tree(lanes, {0, a, b, c, count}, kCount);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Subtrees, OwnLanesAndSumsOfOthersMix) {
  constexpr std::size_t kCount = 2000;  // more than a tile
  const Lanes all(11, kCount);
  std::vector<float> scratch(kCount);
  for (std::size_t first = 0; first <= 11; ++first) {
    std::vector<std::vector<float>> sums;
    sums.reserve(11);
    std::vector<TreePart> parts;
    for (std::size_t lane = 0; lane < first; ++lane)
      parts.push_back({{lane, lane + 1}, all.pointers[lane]});
    for (const Subtree& part : subtrees_of(11, first, 11)) {
      sums.emplace_back(kCount);
      const auto own = std::span(all.pointers).subspan(part.first, part.last - part.first);
      parts.push_back({part, reduce_lanes(own, 0, sums.back()).data()});
    }
    const std::span<const float> sum = reduce_parts(parts, 11, scratch);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(sum[i]), std::bit_cast<std::uint32_t>(tree(all.pointers, 0, 11, i).sum));
    }
  }
}

TEST(ReduceLanes, AddsEveryNumberOfLanesByTheTree) {
  for (std::size_t lanes = 1; lanes <= kMaxLanes; ++lanes) {
    expect_tree(Lanes(lanes, 33).pointers, 0, 33);
  }
}

TEST(ReduceLanes, AddsEverySizeByTheTree) {
  for (const std::size_t size : kSizes) {
    for (const std::size_t lanes : {2, 3, 7, 64})
      expect_tree(Lanes(lanes, size).pointers, 0, size);
  }
}

TEST(ReduceLanes, StartsAtTheOffset) {
  expect_tree(Lanes(5, 3000).pointers, 1001, 1500);
}

TEST(ReduceLanes, IsNotALeftFold) {
  // (1 + 1e8) + (-1e8 + 1) loses both ones, the fold ((1 + 1e8) - 1e8) + 1 only the first.
  const float values[] = {1, 1e8F, -1e8F, 1};
  const float* const lanes[] = {&values[0], &values[1], &values[2], &values[3]};
  float scratch[1];
  EXPECT_EQ(reduce_lanes(lanes, 0, scratch)[0], 0.0F);
}

TEST(ReduceLanes, PartialSumsOfAlignedSubtreesAddToTheSameBits) {
  // What lets a host with lanes 4 to 7 of 8 send one array.
  const Lanes all(8, 1500);
  std::vector<float> whole(1500), low(1500), high(1500), both(1500);
  reduce_lanes(all.pointers, 0, whole);
  reduce_lanes(std::span(all.pointers).first(4), 0, low);
  reduce_lanes(std::span(all.pointers).last(4), 0, high);
  const float* const hosts[] = {low.data(), high.data()};
  reduce_lanes(hosts, 0, both);
  EXPECT_EQ(both, whole);
}

TEST(ReduceLanes, AbsentLanesKeepTheirPlaceInTheTree) {
  Lanes lanes(7, 1100);
  for (std::uint32_t absent = 0; absent < 128; ++absent) {
    std::vector<const float*> present = lanes.pointers;
    for (std::size_t lane = 0; lane < 7; ++lane) {
      if (absent >> lane & 1) present[lane] = nullptr;
    }
    if (std::popcount(absent) < 7) expect_tree(present, 0, 1100);
  }
}

TEST(ReduceLanes, AbsentIsNotZero) {
  // -0 + 0 would be +0.
  const float minus_zero = -0.0F;
  const float* const lanes[] = {nullptr, &minus_zero, nullptr};
  float scratch[1] = {1};
  EXPECT_TRUE(std::signbit(reduce_lanes(lanes, 0, scratch)[0]));
}

TEST(ReduceLanes, TheOnlyLaneIsNotCopied) {
  Lanes lanes(3, 100);
  std::vector<float> scratch(40, -1);
  const float* const one[] = {lanes.pointers[0]};
  EXPECT_EQ(reduce_lanes(one, 7, scratch).data(), one[0] + 7);
  const float* const last[] = {nullptr, nullptr, lanes.pointers[2]};
  const std::span<const float> sum = reduce_lanes(last, 7, scratch);
  EXPECT_EQ(sum.data(), last[2] + 7);
  EXPECT_EQ(sum.size(), 40U);
  EXPECT_EQ(scratch, std::vector<float>(40, -1)) << "scratch must not be touched";
}

TEST(ReduceLanes, NoLaneGivesNothing) {
  std::vector<float> scratch(40, -1);
  const float* const none[] = {nullptr, nullptr};
  EXPECT_TRUE(reduce_lanes(none, 0, scratch).empty());
  EXPECT_TRUE(reduce_lanes({}, 0, scratch).empty());
}

TEST(ReduceLanesDeathTest, RefusesMoreLanesThanAStepHas) {
  const std::vector<const float*> lanes(kMaxLanes + 1, nullptr);
  std::vector<float> scratch(1);
  EXPECT_DEATH(reduce_lanes(lanes, 0, scratch), "more lanes");
}

TEST(Examine, SumsSquaresExactlyWhereSquaresAreExact) {
  // Small whole numbers: every partial sum is exact, so any order gives the closed formula n (n + 1) (2 n + 1) / 6.
  for (const std::size_t size : kSizes) {
    std::vector<float> block(size);
    std::iota(block.begin(), block.end(), 1.0F);
    const auto n = static_cast<double>(size);
    const BlockSum sum = examine(block);
    EXPECT_EQ(sum.squares, n * (n + 1) * (2 * n + 1) / 6);
    EXPECT_TRUE(sum.finite);
  }
}

TEST(Examine, IsCloseToALongDoubleSum) {
  const std::vector<float> block = samples(16 * 1024, 1);
  long double sum = 0;
  for (const float value : block)
    sum += static_cast<long double>(value) * value;
  EXPECT_NEAR(examine(block).squares, static_cast<double>(sum), 1e-13 * static_cast<double>(sum));
}

TEST(Examine, FindsOneBadElementAnywhere) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (std::size_t position = 0; position < 71; ++position) {
      std::vector<float> block = samples(71, 2);
      block[position] = bad;
      EXPECT_FALSE(examine(block).finite) << bad << " at " << position;
    }
  }
}

TEST(Examine, InfinitiesOfBothSignsDoNotCancel) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(examine(std::vector<float>{kInfinity, -kInfinity}).finite);
}

TEST(Examine, TheLargestAndSmallestFloatsAreFinite) {
  EXPECT_TRUE(examine(std::vector<float>(16 * 1024, std::numeric_limits<float>::max())).finite);
  EXPECT_TRUE(examine(std::vector<float>(16 * 1024, std::numeric_limits<float>::lowest())).finite);
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_GT(examine(std::vector<float>{tiny}).squares, 0);
}

TEST(Combine, AddsFromLeftToRight) {
  EXPECT_EQ(combine({}), 0);
  EXPECT_EQ(combine(std::vector<double>{2.5}), 2.5);
  EXPECT_EQ(combine(std::vector<double>{1, 1e16, -1e16, 1}), ((1 + 1e16) - 1e16) + 1);
}

}  // namespace
}  // namespace muster::compute
