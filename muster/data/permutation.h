// Permutation: the order of an epoch's samples, computed and not stored: 10^9 samples need no table, and any
// worker can name any position without the ones before it.
//
// A Feistel network over pairs (l, r) with l < a, r < b, where a = ceil(sqrt(n)) and b = ceil(n / a):
// position = l * b + r. Rounds take turns: l += F_k(r) mod a, then r += F_k(l) mod b, each with its own
// 64-bit key. Every round can be undone, so the whole is a bijection of the a * b pairs. Those from n on
// (fewer than 2 sqrt(n), so almost never met) are walked over: the network is applied again until the result
// is below n, which keeps the bijection (cycle walking).
//
// Rounds: four make a Feistel network indistinguishable from chance when n is large (Luby and Rackoff, 1988);
// 8 are used. With a handful of samples a round offers few choices (measured: 8 rounds leave some of the 720
// orders of 6 samples 3.8 times as likely as others), so up to 2^16 samples get 24 rounds, after which all
// orders of a small n are equally likely (tested).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "muster/base/random.h"

namespace muster::data {

// A value, immutable. Thread safety: any number of threads at once.
class Permutation {
 public:
  // The order of the given epoch. REQUIRES: size <= 2^63.
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
      : Permutation(size, StreamKey{.seed = seed, .purpose = Purpose::kPermutation, .epoch = epoch}) {}
  // An order for another purpose. REQUIRES: size <= 2^63.
  Permutation(std::uint64_t size, const StreamKey& key);

  std::uint64_t size() const { return size_; }
  // The element at `position`. Bits are part of a job's result and never change. REQUIRES: position < size().
  std::uint64_t operator()(std::uint64_t position) const;
  // The elements at positions begin .. end-1. REQUIRES: begin <= end <= size().
  std::vector<std::uint64_t> range(std::uint64_t begin, std::uint64_t end) const;

 private:
  static constexpr std::size_t kRounds = 8;
  static constexpr std::size_t kRoundsOfFew = 24;
  static constexpr std::uint64_t kFew = std::uint64_t{1} << 16;

  std::uint64_t size_;
  std::uint64_t left_;   // a
  std::uint64_t right_;  // b
  std::size_t rounds_;
  std::array<std::uint64_t, kRoundsOfFew> keys_{};  // the first rounds_ are used
};

}  // namespace muster::data
