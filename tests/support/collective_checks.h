// Every collective on a given group, against a serial reference: operation x type x reduction x length x in place or
// not. Any backend's test calls check_collectives on all ranks; a difference is a test failure that names the case.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "muster/comm/combine.h"
#include "muster/comm/group.h"

namespace muster::testing {

// Inputs are a function of (rank, index), so that every rank knows what the others gave.
inline std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

template <typename T>
T value_of(int rank, std::size_t index) {
  const std::uint64_t bits = scramble((static_cast<std::uint64_t>(rank) << 40) + index);
  // Magnitudes from 2^-7 to 2^8, so that every order of additions rounds differently.
  const auto real = static_cast<float>(static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-63 *
                                       static_cast<double>(1U << (bits % 16)) * 0x1p-7);
  if constexpr (std::is_same_v<T, comm::Half>)
    return comm::to_half(real);
  else if constexpr (std::is_same_v<T, comm::Bfloat16>)
    return comm::to_bfloat16(real);
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(real);
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return static_cast<std::int64_t>(bits) / 1024;  // an average of 64 ranks stays inside 64 bits
  else
    return static_cast<T>(bits);
}

// What a reduction computes with before it rounds.
template <typename T>
struct Wide {
  using type = T;
  static T of(T value) { return value; }
};
template <>
struct Wide<comm::Half> {
  using type = float;
  static float of(comm::Half value) { return comm::to_float(value); }
};
template <>
struct Wide<comm::Bfloat16> {
  using type = float;
  static float of(comm::Bfloat16 value) { return comm::to_float(value); }
};

template <typename W>
W combine_two(comm::Reduction reduction, W left, W right) {
  using comm::Reduction;
  if (reduction == Reduction::kMin) return left < right ? left : right;
  if (reduction == Reduction::kMax) return left > right ? left : right;
  if constexpr (std::is_floating_point_v<W>) {
    return reduction == Reduction::kProduct ? left * right : left + right;
  } else {
    const auto l = static_cast<std::uint64_t>(left);
    const auto r = static_cast<std::uint64_t>(right);
    return static_cast<W>(reduction == Reduction::kProduct ? l * r : l + r);
  }
}

// The tree of combine.h, written down once more: one element, by recursion.
template <typename T>
typename Wide<T>::type tree_of(comm::Reduction reduction, int lo, int hi, std::size_t index) {
  if (hi - lo == 1) return Wide<T>::of(value_of<T>(lo, index));
  const int middle = lo + static_cast<int>(std::bit_floor(static_cast<unsigned>(hi - lo - 1)));
  return combine_two(reduction, tree_of<T>(reduction, lo, middle, index), tree_of<T>(reduction, middle, hi, index));
}

// What every rank must hold at `index` after a reduction over `ranks` ranks.
template <typename T>
T reduced_value(comm::Reduction reduction, int ranks, std::size_t index) {
  if (reduction == comm::Reduction::kAverage) {
    if constexpr (std::is_integral_v<T>) {
      std::int64_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank)
        sum += value_of<T>(rank, index);
      return static_cast<T>(sum / ranks);
    }
  }
  auto wide = tree_of<T>(reduction, 0, ranks, index);
  if constexpr (!std::is_integral_v<T>) {
    if (reduction == comm::Reduction::kAverage) wide /= static_cast<decltype(wide)>(ranks);
  }
  if constexpr (std::is_same_v<T, comm::Half>)
    return comm::to_half(wide);
  else if constexpr (std::is_same_v<T, comm::Bfloat16>)
    return comm::to_bfloat16(wide);
  else
    return static_cast<T>(wide);
}

template <typename T>
std::vector<T> values_of(int rank, std::size_t first, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = value_of<T>(rank, first + i);
  return values;
}

// Bits, not values: a difference in the last place or in the sign of a zero is a failure.
template <typename T>
void expect_same_bits(const std::vector<T>& actual, const std::vector<T>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  if (actual.empty() || std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(T)) == 0) return;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0) {
      ADD_FAILURE() << what << ": differs at element " << i << " of " << actual.size();
      return;
    }
  }
}

template <typename T>
class CollectiveChecks {
 public:
  explicit CollectiveChecks(comm::Group group) : group_(std::move(group)), rank_(group_.rank()), size_(group_.size()) {}

  void check(std::size_t count) {
    for (const auto reduction : {comm::Reduction::kSum, comm::Reduction::kMin, comm::Reduction::kMax,
                                 comm::Reduction::kProduct, comm::Reduction::kAverage}) {
      check_all_reduce(reduction, count);
      check_reduce_scatter(reduction, count);
    }
    check_all_gather(count);
    check_all_to_all(count);
    for (const int root : {0, size_ - 1}) {
      check_broadcast(root, count);
      check_gather(root, count);
      check_scatter(root, count);
    }
    check_ring(count);
    group_.barrier();
  }

 private:
  using Values = std::vector<T>;

  std::string name(const char* operation, std::size_t count, const std::string& detail = {}) const {
    return fmt::format("{} of {} {} {} on rank {} of {}, {}", operation, count,
                       comm::to_string(comm::element_type<T>()), detail, rank_, size_, group_.backend());
  }
  std::size_t ranks() const { return static_cast<std::size_t>(size_); }
  std::size_t me() const { return static_cast<std::size_t>(rank_); }

  Values reduced(comm::Reduction reduction, std::size_t first, std::size_t count) const {
    Values values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = reduced_value<T>(reduction, size_, first + i);
    return values;
  }
  Values gathered(std::size_t count) const {
    Values all;
    for (int rank = 0; rank < size_; ++rank) {
      const Values part = values_of<T>(rank, 0, count);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  void check_all_reduce(comm::Reduction reduction, std::size_t count) {
    const std::string what = name("all_reduce", count, std::string(comm::to_string(reduction)));
    const Values expected = reduced(reduction, 0, count);
    const Values input = values_of<T>(rank_, 0, count);
    Values output(count);
    group_.all_reduce(std::span(input), std::span(output), reduction);
    expect_same_bits(output, expected, what);
    expect_same_bits(input, values_of<T>(rank_, 0, count), what + ", the input");
    Values data = input;
    group_.all_reduce(std::span(data), reduction);
    expect_same_bits(data, expected, what + ", in place");
  }

  void check_reduce_scatter(comm::Reduction reduction, std::size_t count) {
    const std::string what = name("reduce_scatter", count, std::string(comm::to_string(reduction)));
    const Values expected = reduced(reduction, me() * count, count);
    Values input = values_of<T>(rank_, 0, ranks() * count);
    Values output(count);
    group_.reduce_scatter(std::span(input), std::span(output), reduction);
    expect_same_bits(output, expected, what);
    const std::span<T> own = std::span(input).subspan(me() * count, count);
    group_.reduce_scatter(std::span(input), own, reduction);
    expect_same_bits(Values(own.begin(), own.end()), expected, what + ", in place");
  }

  void check_all_gather(std::size_t count) {
    const Values expected = gathered(count);
    const Values input = values_of<T>(rank_, 0, count);
    Values output(ranks() * count);
    group_.all_gather(std::span(input), std::span(output));
    expect_same_bits(output, expected, name("all_gather", count));
    Values data(ranks() * count);
    const std::span<T> own = std::span(data).subspan(me() * count, count);
    std::copy(input.begin(), input.end(), own.begin());
    group_.all_gather(own, std::span(data));
    expect_same_bits(data, expected, name("all_gather", count, "in place"));
  }

  void check_all_to_all(std::size_t count) {
    const Values input = values_of<T>(rank_, 0, ranks() * count);
    Values expected;
    for (int rank = 0; rank < size_; ++rank) {
      const Values part = values_of<T>(rank, me() * count, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    Values output(ranks() * count);
    group_.all_to_all(std::span(input), std::span(output));
    expect_same_bits(output, expected, name("all_to_all", count));
  }

  void check_broadcast(int root, std::size_t count) {
    Values data = values_of<T>(rank_, 0, count);
    group_.broadcast(std::span(data), root);
    expect_same_bits(data, values_of<T>(root, 0, count), name("broadcast", count, fmt::format("from {}", root)));
  }

  void check_gather(int root, std::size_t count) {
    const Values input = values_of<T>(rank_, 0, count);
    Values output(rank_ == root ? ranks() * count : 0);
    group_.gather(std::span(input), std::span(output), root);
    if (rank_ == root) expect_same_bits(output, gathered(count), name("gather", count, fmt::format("to {}", root)));
  }

  void check_scatter(int root, std::size_t count) {
    const Values input = rank_ == root ? values_of<T>(root, 0, ranks() * count) : Values();
    Values output(count);
    group_.scatter(std::span(input), std::span(output), root);
    expect_same_bits(output, values_of<T>(root, me() * count, count),
                     name("scatter", count, fmt::format("from {}", root)));
  }

  // Everyone sends to the next and receives from the one before, two tags taken in the other order than sent.
  void check_ring(std::size_t count) {
    const int next = (rank_ + 1) % size_;
    const int before = (rank_ + size_ - 1) % size_;
    const Values first = values_of<T>(rank_, 0, count);
    const Values second = values_of<T>(rank_, count, count);
    Values got_first(count);
    Values got_second(count);
    comm::Pending send_first = group_.start_send(std::span(first), next, 1);
    comm::Pending send_second = group_.start_send(std::span(second), next, 2);
    comm::Pending receive_second = group_.start_receive(std::span(got_second), before, 2);
    receive_second.wait();
    group_.receive(std::span(got_first), before, 1);
    send_first.wait();
    send_second.wait();
    expect_same_bits(got_first, values_of<T>(before, 0, count), name("send and receive", count, "tag 1"));
    expect_same_bits(got_second, values_of<T>(before, count, count), name("send and receive", count, "tag 2"));
  }

  comm::Group group_;
  int rank_;
  int size_;
};

// The whole matrix. `large` elements is the longest case.
inline void check_collectives(const comm::Group& group, std::size_t large = 70001) {
  const auto check = [&]<typename T>(T, std::size_t longest) {
    CollectiveChecks<T> checks(group);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, 4096 / sizeof(T) + 1, longest})
      checks.check(count);
  };
  check(float{}, large);
  check(double{}, large / 4);
  check(comm::Half{}, large / 4);
  check(comm::Bfloat16{}, large / 4);
  check(std::int32_t{}, large / 4);
  check(std::int64_t{}, large / 4);
  check(std::uint8_t{}, large);
}

}  // namespace muster::testing
