// Products of two numbers of 61 bits have 122; modulo 2^61 - 1 the high part is added to the low one. Polynomials are
// evaluated by Horner's rule, inverses are powers (Fermat).
#include "muster/federated/secure/shamir.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::federated {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::size_t kLimbBytes = 7;

std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum >= kSharePrime ? sum - kSharePrime : sum;
}

std::uint64_t subtract(std::uint64_t a, std::uint64_t b) {
  return a >= b ? a - b : a + kSharePrime - b;
}

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  const Wide product = Wide{a} * b;
  return add(static_cast<std::uint64_t>(product) & kSharePrime, static_cast<std::uint64_t>(product >> 61));
}

std::uint64_t inverse(std::uint64_t value) {
  std::uint64_t result = 1;
  for (std::uint64_t exponent = kSharePrime - 2; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = multiply(result, value);
    value = multiply(value, value);
  }
  return result;
}

std::uint64_t limb_of(const Secret& secret, std::size_t limb) {
  std::uint64_t value = 0;
  for (std::size_t i = std::min((limb + 1) * kLimbBytes, secret.size()); i-- > limb * kLimbBytes;)
    value = value << 8 | static_cast<std::uint64_t>(secret[i]);
  return value;
}

}  // namespace

std::uint64_t random_field_number() {
  while (true) {
    std::uint64_t value = 0;
    if (RAND_priv_bytes(reinterpret_cast<unsigned char*>(&value), sizeof value) != 1)
      throw Error(ErrorKind::kResource, "OpenSSL cannot give random numbers", "secure aggregation");
    value &= kSharePrime;  // 61 bits; the one value too many is drawn again
    if (value != kSharePrime) return value;
  }
}

bool is_share(const Share& share) {
  return std::ranges::all_of(share, [](std::uint64_t value) { return value < kSharePrime; });
}

std::vector<Share> split_secret(const Secret& secret, std::size_t threshold, std::size_t count) {
  MUSTER_CHECK(threshold >= 1 && threshold <= count, "shares of which so many are enough");
  std::vector<Share> shares(count);
  std::vector<std::uint64_t> coefficients(threshold);
  for (std::size_t limb = 0; limb < kShareLimbs; ++limb) {
    coefficients[0] = limb_of(secret, limb);
    for (std::size_t i = 1; i < threshold; ++i)
      coefficients[i] = random_field_number();
    for (std::size_t point = 1; point <= count; ++point) {
      std::uint64_t value = 0;
      for (std::size_t i = threshold; i-- > 0;)
        value = add(multiply(value, point), coefficients[i]);
      shares[point - 1][limb] = value;
    }
  }
  OPENSSL_cleanse(coefficients.data(), coefficients.size() * sizeof coefficients[0]);
  return shares;
}

ShareRecovery::ShareRecovery(std::span<const std::uint64_t> points) {
  for (const std::uint64_t own : points) {
    MUSTER_CHECK(own != 0 && own < kSharePrime, "points of shares");
    std::uint64_t above = 1;
    std::uint64_t below = 1;
    for (const std::uint64_t other : points) {
      if (other == own) continue;
      above = multiply(above, other);
      below = multiply(below, subtract(other, own));
    }
    factors_.push_back(multiply(above, inverse(below)));
  }
}

std::optional<Secret> ShareRecovery::recover(std::span<const Share> shares) const {
  MUSTER_CHECK(shares.size() == factors_.size(), "a share for each point");
  Secret secret{};
  for (std::size_t limb = 0; limb < kShareLimbs; ++limb) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < shares.size(); ++i)
      value = add(value, multiply(factors_[i], shares[i][limb]));
    const std::size_t end = std::min((limb + 1) * kLimbBytes, secret.size());
    for (std::size_t i = limb * kLimbBytes; i < end; ++i, value >>= 8)
      secret[i] = static_cast<std::byte>(value & 0xff);
    if (value != 0) return std::nullopt;
  }
  return secret;
}

}  // namespace muster::federated
