// Philox and what is drawn from it. Every constant and the order of draws are part of the result of a training: a
// change here changes the bits of every run.
#include "muster/base/random.h"

#include <cmath>
#include <initializer_list>
#include <numbers>

#include "muster/base/check.h"

namespace muster {
namespace {

std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

// Absorbs the words of a key one by one, each under the key that the ones before it made: 128 bits of name.
PhiloxBlock absorb(const StreamKey& key) {
  std::array<std::uint32_t, 2> state{low(key.seed), high(key.seed)};
  PhiloxBlock block{};
  std::uint32_t position = 0;
  for (const std::uint64_t word :
       {static_cast<std::uint64_t>(key.purpose), key.epoch, key.step, key.lane, key.sample}) {
    block = philox({low(word), high(word), ++position, block[2] ^ block[3]}, state);
    state = {block[0], block[1]};
  }
  return block;
}

}  // namespace

PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  // Multipliers and Weyl constants as published.
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

RandomStream::RandomStream(const StreamKey& key) {
  const PhiloxBlock name = absorb(key);
  key_ = {name[0], name[1]};
  counter_ = {0, 0, name[2], name[3]};
}

std::uint32_t RandomStream::next_u32() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

std::uint64_t RandomStream::next_u64() {
  const std::uint64_t upper = next_u32();
  return (upper << 32) | next_u32();
}

double RandomStream::uniform() {
  return static_cast<double>(next_u64() >> 11) * 0x1.0p-53;
}

std::uint64_t RandomStream::below(std::uint64_t bound) {
  MUSTER_CHECK(bound > 0, "no number is below 0");
  // Values under 2^64 mod bound would make the small remainders likelier: draw again.
  const std::uint64_t threshold = (0 - bound) % bound;
  std::uint64_t value = next_u64();
  while (value < threshold)
    value = next_u64();
  return value % bound;
}

double RandomStream::normal() {
  // Box-Muller, one of the pair: streams are short and keyed per sample, so nothing is kept for the next call.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

std::uint64_t derive_seed(const StreamKey& key) {
  return RandomStream(key).next_u64();
}

}  // namespace muster
