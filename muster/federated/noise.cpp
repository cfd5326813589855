// Pairs by Box and Muller from 53 bits each: two numbers for 16 bytes of the stream. The counter begins at 0, so a key
// is for one stream.
#include "muster/federated/noise.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::federated {
namespace {

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorKind::kResource, fmt::format("OpenSSL cannot {}", what), "noise");
}

// (0, 1]: its logarithm is finite.
double uniform(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11U) + 1) / 9007199254740992.0;
}

}  // namespace

NoiseKey random_key() {
  NoiseKey key;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1) fail("draw a key");
  return key;
}

namespace {

NoiseKey key_of(const std::string& text) {
  NoiseKey key;
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(key.data()), &size, EVP_sha256(),
                 nullptr) != 1)
    fail("make a key");
  return key;
}

}  // namespace

NoiseKey simulated_key(std::uint64_t seed, std::uint64_t round) {
  return key_of(fmt::format("muster simulated noise {} {}", seed, round));
}

NoiseKey simulated_key(std::uint64_t seed, std::uint64_t round, std::uint64_t client) {
  return key_of(fmt::format("muster simulated noise {} {} of {}", seed, round, client));
}

struct SecretStream::Cipher {
  std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context{EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free};
};

namespace {

// The next bytes of the stream.
void draw(EVP_CIPHER_CTX* context, std::span<unsigned char> bytes) {
  std::ranges::fill(bytes, static_cast<unsigned char>(0));
  int written = 0;
  if (EVP_EncryptUpdate(context, bytes.data(), &written, bytes.data(), static_cast<int>(bytes.size())) != 1)
    fail("go on with a stream");
}

}  // namespace

SecretStream::SecretStream(const NoiseKey& key) : cipher_(std::make_shared<Cipher>()) {
  const std::array<unsigned char, 16> start{};
  if (!cipher_->context || EVP_EncryptInit_ex(cipher_->context.get(), EVP_aes_256_ctr(), nullptr,
                                              reinterpret_cast<const unsigned char*>(key.data()), start.data()) != 1)
    fail("begin a stream");
}

double SecretStream::uniform() {
  std::uint64_t bits = 0;
  draw(cipher_->context.get(), {reinterpret_cast<unsigned char*>(&bits), sizeof bits});
  return federated::uniform(bits);
}

void SecretStream::add_normal(double deviation, std::span<float> values) {
  constexpr std::size_t kBlock = 4096;  // numbers at a time
  std::vector<unsigned char> stream(kBlock * sizeof(std::uint64_t));
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    draw(cipher_->context.get(), stream);
    const std::size_t count = std::min(kBlock, values.size() - begin);
    for (std::size_t i = 0; i < count; i += 2) {
      std::array<std::uint64_t, 2> bits;
      std::memcpy(bits.data(), &stream[i * sizeof(std::uint64_t)], sizeof bits);
      const double radius = deviation * std::sqrt(-2 * std::log(federated::uniform(bits[0])));
      const double angle = 2 * M_PI * federated::uniform(bits[1]);
      values[begin + i] += static_cast<float>(radius * std::cos(angle));
      if (i + 1 < count) values[begin + i + 1] += static_cast<float>(radius * std::sin(angle));
    }
  }
}

void add_noise(const NoiseKey& key, double deviation, std::span<float> values) {
  SecretStream(key).add_normal(deviation, values);
}

}  // namespace muster::federated
