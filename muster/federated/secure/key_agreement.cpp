// A mask is the key stream itself, four bytes little-endian for a word: zeros are encrypted block by block and what
// comes out is added, so that the stream stays in the processor's cache.
#include "muster/federated/secure/key_agreement.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::federated {
namespace {

static_assert(std::endian::native == std::endian::little);

using OwnedPkey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using OwnedContext = std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)>;
using OwnedCipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kStreamWords = 4096;

void require(bool worked, const char* what) {
  if (worked) return;
  ERR_clear_error();
  throw Error(ErrorKind::kResource, fmt::format("OpenSSL cannot {}", what), "secure aggregation");
}

template <typename Bytes>
const unsigned char* data_of(const Bytes& bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
template <typename Bytes>
unsigned char* room_of(Bytes& bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

OwnedPkey private_key(const Secret& secret) {
  OwnedPkey key(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, data_of(secret), secret.size()), EVP_PKEY_free);
  require(key != nullptr, "read a key");
  return key;
}

OwnedCipher cipher() {
  OwnedCipher context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  require(context != nullptr, "begin a cipher");
  return context;
}

template <typename Combine>
void combine_with_mask(const Secret& key, std::span<std::uint32_t> words, const Combine& combine) {
  static const std::array<std::uint32_t, kStreamWords> kZeros{};
  const OwnedCipher stream = cipher();
  const std::array<unsigned char, 16> start{};
  require(EVP_EncryptInit_ex(stream.get(), EVP_aes_256_ctr(), nullptr, data_of(key), start.data()) == 1,
          "begin a mask");
  std::array<std::uint32_t, kStreamWords> mask;
  for (std::size_t begin = 0; begin < words.size(); begin += kStreamWords) {
    const std::size_t count = std::min(kStreamWords, words.size() - begin);
    int written = 0;
    require(EVP_EncryptUpdate(stream.get(), room_of(mask), &written, data_of(kZeros),
                              static_cast<int>(count * sizeof mask[0])) == 1,
            "go on with a mask");
    combine(words.subspan(begin, count), std::span<const std::uint32_t>(mask).first(count));
  }
  OPENSSL_cleanse(mask.data(), sizeof mask);
}

}  // namespace

Secret random_secret() {
  Secret secret;
  require(RAND_priv_bytes(room_of(secret), static_cast<int>(secret.size())) == 1, "give random numbers");
  return secret;
}

KeyPair make_key_pair() {
  KeyPair pair{.secret = random_secret()};
  pair.open = public_key_of(pair.secret);
  return pair;
}

PublicKey public_key_of(const Secret& secret) {
  PublicKey open;
  std::size_t size = open.size();
  require(EVP_PKEY_get_raw_public_key(private_key(secret).get(), room_of(open), &size) == 1 && size == open.size(),
          "make a public key");
  return open;
}

Secret derive_key(std::span<const std::byte> material, std::string_view purpose) {
  const OwnedContext context(EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), EVP_PKEY_CTX_free);
  Secret key;
  std::size_t size = key.size();
  require(context && EVP_PKEY_derive_init(context.get()) == 1 &&
              EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) == 1 &&
              EVP_PKEY_CTX_set1_hkdf_key(context.get(), data_of(material), static_cast<int>(material.size())) == 1 &&
              EVP_PKEY_CTX_add1_hkdf_info(context.get(), data_of(purpose), static_cast<int>(purpose.size())) == 1 &&
              EVP_PKEY_derive(context.get(), room_of(key), &size) == 1 && size == key.size(),
          "derive a key");
  return key;
}

std::optional<Secret> agree(const Secret& own, const PublicKey& other, std::string_view purpose) {
  const OwnedPkey secret = private_key(own);
  const OwnedPkey open(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, data_of(other), other.size()),
                       EVP_PKEY_free);
  const OwnedContext context(EVP_PKEY_CTX_new(secret.get(), nullptr), EVP_PKEY_CTX_free);
  require(open && context && EVP_PKEY_derive_init(context.get()) == 1 &&
              EVP_PKEY_derive_set_peer(context.get(), open.get()) == 1,
          "agree on a key");
  Secret common;
  std::size_t size = common.size();
  // OpenSSL refuses a result of zeros, as RFC 7748 (6.1) allows.
  if (EVP_PKEY_derive(context.get(), room_of(common), &size) != 1) {
    ERR_clear_error();
    return std::nullopt;
  }
  const Secret key = derive_key(common, purpose);
  OPENSSL_cleanse(common.data(), common.size());
  return key;
}

std::vector<std::byte> seal(const Secret& key, std::span<const std::byte> plain) {
  const OwnedCipher context = cipher();
  const std::array<unsigned char, kNonceBytes> nonce{};
  std::vector<std::byte> sealed(plain.size() + kSealBytes);
  int written = 0;
  int rest = 0;
  require(EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, data_of(key), nonce.data()) == 1 &&
              EVP_EncryptUpdate(context.get(), room_of(sealed), &written, data_of(plain),
                                static_cast<int>(plain.size())) == 1 &&
              EVP_EncryptFinal_ex(context.get(), room_of(sealed) + written, &rest) == 1 &&
              EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(kSealBytes),
                                  room_of(sealed) + plain.size()) == 1,
          "seal");
  return sealed;
}

std::optional<std::vector<std::byte>> open_sealed(const Secret& key, std::span<const std::byte> sealed) {
  if (sealed.size() < kSealBytes) return std::nullopt;
  const OwnedCipher context = cipher();
  const std::array<unsigned char, kNonceBytes> nonce{};
  std::array<unsigned char, kSealBytes> tag;
  std::memcpy(tag.data(), sealed.data() + sealed.size() - kSealBytes, kSealBytes);
  std::vector<std::byte> plain(sealed.size() - kSealBytes);
  int written = 0;
  int rest = 0;
  require(EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, data_of(key), nonce.data()) == 1 &&
              EVP_DecryptUpdate(context.get(), room_of(plain), &written, data_of(sealed),
                                static_cast<int>(plain.size())) == 1 &&
              EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(kSealBytes), tag.data()) == 1,
          "open what was sealed");
  if (EVP_DecryptFinal_ex(context.get(), room_of(plain) + written, &rest) == 1) return plain;
  ERR_clear_error();
  return std::nullopt;
}

void add_mask(const Secret& key, std::span<std::uint32_t> words) {
  combine_with_mask(key, words, [](std::span<std::uint32_t> sum, std::span<const std::uint32_t> mask) {
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += mask[i];
  });
}

void take_mask(const Secret& key, std::span<std::uint32_t> words) {
  combine_with_mask(key, words, [](std::span<std::uint32_t> sum, std::span<const std::uint32_t> mask) {
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] -= mask[i];
  });
}

std::array<std::byte, 32> sha256_of(std::span<const std::byte> bytes) {
  std::array<std::byte, 32> digest;
  unsigned int size = 0;
  require(EVP_Digest(bytes.data(), bytes.size(), room_of(digest), &size, EVP_sha256(), nullptr) == 1, "hash");
  return digest;
}

}  // namespace muster::federated
