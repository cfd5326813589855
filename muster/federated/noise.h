// Normal noise from a cryptographic generator: AES-256 in counter mode over a key, as OpenSSL has it.
//
// Whoever knows the key knows the noise. A server draws a random key and forgets it; a simulation derives one from the
// job's seed, so that its result can be had again, and protects nobody. No torch here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace muster::federated {

using NoiseKey = std::array<std::byte, 32>;

// From the system's generator. Throws Error{kResource}.
NoiseKey random_key();
// Of (seed, round): for simulations.
NoiseKey simulated_key(std::uint64_t seed, std::uint64_t round);

// Of (seed, round, client), where clients add noise.
NoiseKey simulated_key(std::uint64_t seed, std::uint64_t round, std::uint64_t client);

// The numbers of a key, one after the other. Thread safety: one thread at a time. All throw Error{kResource}.
class SecretStream {
 public:
  explicit SecretStream(const NoiseKey& key);
  // In (0, 1].
  double uniform();
  // Adds normal numbers of deviation `deviation`, in their order.
  void add_normal(double deviation, std::span<float> values);

 private:
  struct Cipher;
  std::shared_ptr<Cipher> cipher_;
};

// What a new stream of the key adds.
void add_noise(const NoiseKey& key, double deviation, std::span<float> values);

}  // namespace muster::federated
