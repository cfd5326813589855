// Names are those of RFC 9380: expand_message_xmd (5.3.1), hash_to_field (5.2), the simplified SWU map (6.6.2) for
// A = -3 and Z = -10, hash_to_curve (3).
#include "muster/federated/vertical/curve.h"

#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/obj_mac.h>
#include <openssl/sha.h>

#include <string>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::federated {
namespace {

constexpr std::size_t kFieldBytes = 48;              // L: 256 bits and 128 more, so that what is left is even
constexpr std::size_t kUniform = 2 * kFieldBytes;    // for two elements of the field
constexpr std::size_t kHash = SHA256_DIGEST_LENGTH;  // b_in_bytes
constexpr std::size_t kBlock = SHA256_CBLOCK;        // s_in_bytes
constexpr std::size_t kLongestDomain = 255;

void require(bool worked, const char* what) {
  if (worked) return;
  ERR_clear_error();
  throw Error(ErrorKind::kResource, fmt::format("OpenSSL cannot {}", what), "set intersection");
}

using OwnedNumber = std::unique_ptr<BIGNUM, decltype(&BN_clear_free)>;
using OwnedPoint = std::unique_ptr<EC_POINT, decltype(&EC_POINT_clear_free)>;

OwnedNumber new_number() {
  OwnedNumber number(BN_new(), BN_clear_free);
  require(number != nullptr, "make a number");
  return number;
}

std::array<unsigned char, kUniform> expand_message(std::string_view text, std::string_view domain) {
  MUSTER_CHECK(!domain.empty() && domain.size() <= kLongestDomain, "a domain of 1 to 255 bytes");
  std::string domain_prime(domain);
  domain_prime.push_back(static_cast<char>(domain.size()));
  const auto hash = [](const std::string& bytes) {
    std::array<unsigned char, kHash> digest{};
    require(SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data()) != nullptr,
            "hash");
    return digest;
  };
  std::string message(kBlock, '\0');
  message += text;
  message.push_back(static_cast<char>(kUniform >> 8));
  message.push_back(static_cast<char>(kUniform & 0xff));
  message.push_back('\0');
  const auto first = hash(message + domain_prime);
  std::array<unsigned char, kHash> last{};
  std::array<unsigned char, kUniform> uniform{};
  for (std::size_t i = 1; i <= kUniform / kHash; ++i) {
    std::string next;
    for (std::size_t j = 0; j < kHash; ++j)
      next.push_back(static_cast<char>(first[j] ^ last[j]));
    next.push_back(static_cast<char>(i));
    last = hash(next + domain_prime);
    std::copy(last.begin(), last.end(), uniform.begin() + static_cast<std::ptrdiff_t>((i - 1) * kHash));
  }
  return uniform;
}

// Arithmetic modulo the curve's prime, and the curve. REQUIRES of all: arguments below the prime.
class Curve {
 public:
  Curve()
      : group_(EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1), EC_GROUP_free),
        context_(BN_CTX_new(), BN_CTX_free),
        p_(new_number()),
        a_(new_number()),
        b_(new_number()),
        z_(new_number()),
        root_(new_number()),
        minus_b_over_a_(new_number()),
        b_over_za_(new_number()) {
    require(group_ && context_, "begin with the curve");
    require(EC_GROUP_get_curve(group_.get(), p_.get(), a_.get(), b_.get(), ctx()) == 1, "say its curve");
    // Z = -10; the prime is 3 modulo 4, so that a to the power (p + 1) / 4 is the root of a square.
    require(BN_copy(z_.get(), p_.get()) != nullptr && BN_sub_word(z_.get(), 10) == 1, "subtract");
    require(BN_copy(root_.get(), p_.get()) != nullptr && BN_add_word(root_.get(), 1) == 1 &&
                BN_rshift(root_.get(), root_.get(), 2) == 1,
            "halve");
    const OwnedNumber inverse = new_number();
    invert(inverse.get(), a_.get());
    multiply(minus_b_over_a_.get(), b_.get(), inverse.get());
    require(BN_sub(minus_b_over_a_.get(), p_.get(), minus_b_over_a_.get()) == 1, "negate");
    multiply(inverse.get(), z_.get(), a_.get());
    invert(inverse.get(), inverse.get());
    multiply(b_over_za_.get(), b_.get(), inverse.get());
  }

  const EC_GROUP* group() const { return group_.get(); }
  BN_CTX* ctx() const { return context_.get(); }

  OwnedPoint new_point() const {
    OwnedPoint point(EC_POINT_new(group()), EC_POINT_clear_free);
    require(point != nullptr, "make a point");
    return point;
  }

  CurvePoint bytes_of(const EC_POINT* point) const {
    CurvePoint bytes{};
    require(EC_POINT_point2oct(group(), point, POINT_CONVERSION_COMPRESSED,
                               reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), ctx()) == bytes.size(),
            "write a point");
    return bytes;
  }

  // OpenSSL looks whether the point is on the curve.
  OwnedPoint point_in(std::span<const std::byte> bytes) const {
    OwnedPoint point = new_point();
    if (bytes.size() != kPointBytes ||
        EC_POINT_oct2point(group(), point.get(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                           ctx()) != 1 ||
        EC_POINT_is_at_infinity(group(), point.get()) == 1) {
      ERR_clear_error();
      throw Error(ErrorKind::kDamaged, "what came is no point of the curve", "set intersection",
                  "The other side does not follow the protocol: do not trust it.");
    }
    return point;
  }

  OwnedPoint hash(std::string_view text, std::string_view domain) const {
    const auto uniform = expand_message(text, domain);
    OwnedPoint sum = map(element(uniform.data()).get());
    const OwnedPoint other = map(element(uniform.data() + kFieldBytes).get());
    require(EC_POINT_add(group(), sum.get(), sum.get(), other.get(), ctx()) == 1, "add points");
    return sum;  // its cofactor is 1
  }

 private:
  void multiply(BIGNUM* out, const BIGNUM* x, const BIGNUM* y) const {
    require(BN_mod_mul(out, x, y, p_.get(), ctx()) == 1, "multiply");
  }
  void add(BIGNUM* out, const BIGNUM* x, const BIGNUM* y) const {
    require(BN_mod_add_quick(out, x, y, p_.get()) == 1, "add");
  }
  void invert(BIGNUM* out, const BIGNUM* x) const {
    require(BN_mod_inverse(out, x, p_.get(), ctx()) != nullptr, "invert");
  }

  OwnedNumber element(const unsigned char* bytes) const {
    OwnedNumber number = new_number();
    require(BN_bin2bn(bytes, kFieldBytes, number.get()) != nullptr &&
                BN_nnmod(number.get(), number.get(), p_.get(), ctx()) == 1,
            "read a number");
    return number;
  }

  // x^3 + A x + B
  void right_side(BIGNUM* out, const BIGNUM* x) const {
    const OwnedNumber square = new_number();
    multiply(square.get(), x, x);
    add(square.get(), square.get(), a_.get());
    multiply(out, square.get(), x);
    add(out, out, b_.get());
  }

  // Whether `of` is a square; its root then.
  bool root(BIGNUM* out, const BIGNUM* of) const {
    require(BN_mod_exp(out, of, root_.get(), p_.get(), ctx()) == 1, "take a root");
    const OwnedNumber square = new_number();
    multiply(square.get(), out, out);
    return BN_cmp(square.get(), of) == 0;
  }

  OwnedPoint map(const BIGNUM* u) const {
    const OwnedNumber zu2 = new_number();  // Z u^2
    multiply(zu2.get(), u, u);
    multiply(zu2.get(), zu2.get(), z_.get());
    const OwnedNumber tv1 = new_number();  // Z^2 u^4 + Z u^2
    multiply(tv1.get(), zu2.get(), zu2.get());
    add(tv1.get(), tv1.get(), zu2.get());
    const OwnedNumber x = new_number();
    if (BN_is_zero(tv1.get())) {
      require(BN_copy(x.get(), b_over_za_.get()) != nullptr, "copy");
    } else {
      invert(tv1.get(), tv1.get());
      add(tv1.get(), tv1.get(), BN_value_one());
      multiply(x.get(), minus_b_over_a_.get(), tv1.get());
    }
    const OwnedNumber gx = new_number();
    const OwnedNumber y = new_number();
    right_side(gx.get(), x.get());
    if (!root(y.get(), gx.get())) {
      multiply(x.get(), x.get(), zu2.get());
      right_side(gx.get(), x.get());
      MUSTER_CHECK(root(y.get(), gx.get()), "one of both is a square");
    }
    if (BN_is_odd(u) != BN_is_odd(y.get())) require(BN_sub(y.get(), p_.get(), y.get()) == 1, "negate");
    OwnedPoint point = new_point();
    require(EC_POINT_set_affine_coordinates(group(), point.get(), x.get(), y.get(), ctx()) == 1, "make a point");
    return point;
  }

  std::unique_ptr<EC_GROUP, decltype(&EC_GROUP_free)> group_;
  std::unique_ptr<BN_CTX, decltype(&BN_CTX_free)> context_;
  OwnedNumber p_;
  OwnedNumber a_;
  OwnedNumber b_;
  OwnedNumber z_;
  OwnedNumber root_;
  OwnedNumber minus_b_over_a_;
  OwnedNumber b_over_za_;
};

}  // namespace

struct CurveSecret::Parts {
  CurvePoint times_secret(EC_POINT* point) const {
    require(EC_POINT_mul(curve.group(), point, nullptr, point, secret.get(), curve.ctx()) == 1, "multiply a point");
    return curve.bytes_of(point);
  }

  Curve curve;
  OwnedNumber secret = new_number();
};

CurveSecret::CurveSecret() : parts_(std::make_unique<Parts>()) {
  // Not zero: everybody's points would be the one at infinity.
  BN_set_flags(parts_->secret.get(), BN_FLG_CONSTTIME);
  do {
    require(BN_priv_rand_range(parts_->secret.get(), EC_GROUP_get0_order(parts_->curve.group())) == 1, "draw a secret");
  } while (BN_is_zero(parts_->secret.get()));
}

CurveSecret::~CurveSecret() = default;

CurvePoint CurveSecret::blind(std::string_view text, std::string_view domain) {
  return parts_->times_secret(parts_->curve.hash(text, domain).get());
}

CurvePoint CurveSecret::raise(std::span<const std::byte> point) {
  return parts_->times_secret(parts_->curve.point_in(point).get());
}

void CurveSecret::check(std::span<const std::byte> point) {
  parts_->curve.point_in(point);
}

CurvePoint hash_to_curve(std::string_view text, std::string_view domain) {
  const Curve curve;
  return curve.bytes_of(curve.hash(text, domain).get());
}

}  // namespace muster::federated
