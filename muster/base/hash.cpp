// OpenSSL's digest behind a value: its context is freed by its owner, and every refusal of the library (which a healthy
// program never sees) stops the process.
#include "muster/base/hash.h"

#include <openssl/evp.h>

#include <array>

#include <fmt/format.h>

#include "muster/base/check.h"

namespace muster {

struct Sha256::State {
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  MUSTER_CHECK(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has no SHA-256");
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  MUSTER_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1, "SHA-256 update");
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  MUSTER_CHECK(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &length) == 1, "SHA-256 final");
  std::string text;
  for (unsigned int i = 0; i < length; ++i)
    text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

}  // namespace muster
