// Points of the curve P-256 as private set intersection needs them: a point for any text, and points times a secret.
//
// Texts are hashed by P256_XMD:SHA-256_SSWU_RO_ of RFC 9380: nobody knows how such points relate to each other, which
// is what hides them. Points travel compressed (SEC 1, 33 bytes); what is taken from others is checked to be a point of
// the curve and not the one at infinity. The curve's order is prime, so no other check is due. By OpenSSL; errors of
// its own are Error{kResource}. How long hashing takes depends on the text: it is done where the texts are. No torch
// here.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace muster::federated {

inline constexpr std::size_t kPointBytes = 33;
using CurvePoint = std::array<std::byte, kPointBytes>;

// With a secret that is drawn for it, from the system's generator, and forgotten with it. A raise() of one after a
// raise() of another gives the same point in either order. Thread safety: one thread at a time.
class CurveSecret {
 public:
  CurveSecret();
  CurveSecret(const CurveSecret&) = delete;
  CurveSecret& operator=(const CurveSecret&) = delete;
  ~CurveSecret();

  // The point of a text, times the secret. `domain` keeps what is hashed for one purpose apart from all others.
  CurvePoint blind(std::string_view text, std::string_view domain);
  // The point times the secret. Throws Error{kDamaged} if it is none.
  CurvePoint raise(std::span<const std::byte> point);
  // Throws Error{kDamaged} if it is no point.
  void check(std::span<const std::byte> point);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The point of a text alone. REQUIRES: a domain of 1 to 255 bytes.
CurvePoint hash_to_curve(std::string_view text, std::string_view domain);

}  // namespace muster::federated
