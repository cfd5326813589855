// Random numbers that depend on what they are for, never on who draws them or when.
//
// A stream is named by a key (seed, purpose, epoch, step, lane, sample). Equal keys give equal numbers in every
// process and thread, which is what makes a lane's bits independent of the worker that computes it. The generator is
// Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace muster {

// What a stream is for. Values are part of the result of a job: never renumber, only append.
enum class Purpose : std::uint64_t {
  kModelInit = 1,
  kPermutation = 2,
  kLane = 3,       // dropout and whatever else a model draws inside a lane
  kSynthetic = 4,  // contents of synthetic data sets
  kAugmentation = 5,
  kSplit = 6,   // which samples are held out for validation
  kVerify = 7,  // which lanes are computed once more; no part of the result
  kMixup = 8,
  kPartition = 9,       // which shards go where
  kGenerate = 10,       // text that a trained model writes
  kBlock = 11,          // what a model draws inside one of its blocks
  kCommit = 12,         // what a program draws when it writes to the parameters of a step
  kMeasure = 13,        // what a program draws when it measures a batch
  kSampling = 14,       // samples that are drawn by their weights
  kSearch = 21,         // what a searcher or a scheduler of trials draws
  kFederated = 31,      // who takes part in a round, how fast, and what false clients send
  kClientSamples = 32,  // which samples a client has
};

struct StreamKey {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::kLane;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint64_t lane = 0;
  std::uint64_t sample = 0;
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

// The Philox 4x32-10 bijection of `counter` under `key`.
PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

// A value: copies continue independently from the same place. Thread safety: one thread at a time.
class RandomStream {
 public:
  explicit RandomStream(const StreamKey& key);

  std::uint32_t next_u32();
  std::uint64_t next_u64();
  // In [0, 1), 53 random bits.
  double uniform();
  // In [0, bound), without bias. REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // Normal with mean 0 and variance 1.
  double normal();

  // So that the standard library's distributions and shuffles can use a stream.
  using result_type = std::uint64_t;
  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return ~std::uint64_t{0}; }
  std::uint64_t operator()() { return next_u64(); }

 private:
  std::array<std::uint32_t, 2> key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  int used_ = 4;  // words of block_ already given out
};

// A 64-bit seed for somebody else's generator (LibTorch's), derived from the key.
std::uint64_t derive_seed(const StreamKey& key);

}  // namespace muster
