// The Feistel network of the header, in 64-bit integers. Its constants and the order of its rounds decide the order of
// samples of every job: a change here changes every run.
#include "muster/data/permutation.h"

#include <algorithm>
#include <cmath>

#include "muster/base/check.h"

namespace muster::data {
namespace {

__extension__ using Wide = unsigned __int128;

// Smallest a with a * a >= n. REQUIRES: n <= 2^63.
std::uint64_t ceil_sqrt(std::uint64_t n) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root < n)
    ++root;
  while (root > 0 && (root - 1) * (root - 1) >= n)
    --root;
  return root;
}

// F_k: a number below `bound` that depends on every bit of `half` and `key`. Multiply-xorshift-multiply, then the
// upper bits are scaled to the bound, which costs a multiplication where a remainder would cost a division.
std::uint64_t round_function(std::uint64_t half, std::uint64_t key, std::uint64_t bound) {
  std::uint64_t value = (half ^ key) * 0xD6E8FEB86659FD93U;
  value = (value ^ (value >> 32)) * 0x9E3779B97F4A7C15U;
  return static_cast<std::uint64_t>((Wide{value} * bound) >> 64);
}

// (a + b) mod bound for two numbers below bound.
std::uint64_t add_below(std::uint64_t a, std::uint64_t b, std::uint64_t bound) {
  const std::uint64_t sum = a + b;
  return sum >= bound ? sum - bound : sum;
}

}  // namespace

Permutation::Permutation(std::uint64_t size, const StreamKey& key)
    : size_(size), rounds_(size <= kFew ? kRoundsOfFew : kRounds) {
  MUSTER_CHECK(size <= std::uint64_t{1} << 63, "more samples than a permutation can order");
  left_ = std::max<std::uint64_t>(1, ceil_sqrt(size));
  right_ = std::max<std::uint64_t>(1, size / left_ + (size % left_ != 0));
  RandomStream stream(key);
  for (std::uint64_t& round_key : keys_)
    round_key = stream.next_u64();
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  MUSTER_CHECK(position < size_, "position beyond the permutation");
  std::uint64_t value = position;
  do {
    std::uint64_t l = value / right_;
    std::uint64_t r = value % right_;
    for (std::size_t round = 0; round < rounds_; round += 2) {
      l = add_below(l, round_function(r, keys_[round], left_), left_);
      r = add_below(r, round_function(l, keys_[round + 1], right_), right_);
    }
    value = l * right_ + r;
  } while (value >= size_);
  return value;
}

std::vector<std::uint64_t> Permutation::range(std::uint64_t begin, std::uint64_t end) const {
  std::vector<std::uint64_t> elements;
  elements.reserve(end - begin);
  for (std::uint64_t position = begin; position < end; ++position)
    elements.push_back((*this)(position));
  return elements;
}

}  // namespace muster::data
