// Shamir's secret sharing: a secret of 32 bytes as shares of which any `threshold` give it back and fewer tell nothing.
//
// The field is that of the integers modulo the prime 2^61 - 1. A secret is five limbs of 56 bits, each the value at 0
// of a polynomial of its own with random coefficients; a share is the values of the five polynomials at its point,
// which is never 0. Pure but for the system's random generator. No torch here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace muster::federated {

using Secret = std::array<std::byte, 32>;

constexpr std::uint64_t kSharePrime = (std::uint64_t{1} << 61) - 1;
constexpr std::size_t kShareLimbs = 5;

// Values of the field, below kSharePrime.
using Share = std::array<std::uint64_t, kShareLimbs>;

// Shares for the points 1, 2, ... `count`. REQUIRES: 1 <= threshold <= count. Throws Error{kResource}.
std::vector<Share> split_secret(const Secret& secret, std::size_t threshold, std::size_t count);

// Recovers secrets whose shares lie at the same points: what depends on the points alone is computed once.
class ShareRecovery {
 public:
  // REQUIRES: points that differ, none 0, all below kSharePrime.
  explicit ShareRecovery(std::span<const std::uint64_t> points);

  // The secret; nothing where the shares are of none (false, or of different secrets), which is not always seen.
  // REQUIRES: a share for each point, of a sharing whose threshold is not above their number.
  std::optional<Secret> recover(std::span<const Share> shares) const;

 private:
  std::vector<std::uint64_t> factors_;  // Lagrange's, at 0
};

bool is_share(const Share& share);

// A number of the field, each as likely as any other, from the system's generator. Throws Error{kResource}.
std::uint64_t random_field_number();

}  // namespace muster::federated
