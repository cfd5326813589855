// Certificates are judged by control/certificates.h, as those of callers are; here is only what is signed with them.
// OpenSSL's queue of errors is empty again when a function here returns: gRPC uses the same library.
#include "muster/federated/secure/client_identity.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <chrono>
#include <memory>

#include "muster/base/error.h"
#include "muster/control/certificates.h"

namespace muster::federated {
namespace {

using Digest = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using Pkey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Bio reading(std::string_view text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all};
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string sign_as(const ClientIdentity& identity, std::string_view text) {
  const Pkey key(PEM_read_bio_PrivateKey(reading(identity.key).get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  const Digest digest(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::size_t size = 0;
  std::string signature;
  bool made = key && digest && EVP_DigestSignInit(digest.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
              EVP_DigestSign(digest.get(), nullptr, &size, bytes_of(text), text.size()) == 1;
  if (made) {
    signature.resize(size);
    made = EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes_of(text),
                          text.size()) == 1;
    signature.resize(size);
  }
  ERR_clear_error();
  if (!made) throw Error(ErrorKind::kDamaged, "OpenSSL cannot sign with the client's key", "secure aggregation");
  return signature;
}

SignatureVerdict judge_signature(std::string_view authorities, std::string_view certificate, std::string_view text,
                                 std::string_view signature) {
  const control::CertificateVerdict verdict = control::judge_certificate(
      certificate, authorities, std::chrono::system_clock::now(), control::CertificateUse::kClient);
  if (!verdict.identity) return {.reason = verdict.reason};
  if (verdict.identity->role != control::CallerRole::kClient) return {.reason = "the certificate is no client's"};
  const Certificate read(PEM_read_bio_X509(reading(certificate).get(), nullptr, nullptr, nullptr), X509_free);
  const Digest digest(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const bool good =
      read && digest &&
      EVP_DigestVerifyInit(digest.get(), nullptr, EVP_sha256(), nullptr, X509_get0_pubkey(read.get())) == 1 &&
      EVP_DigestVerify(digest.get(), bytes_of(signature), signature.size(), bytes_of(text), text.size()) == 1;
  ERR_clear_error();
  return {.name = verdict.identity->name, .reason = good ? "" : "the signature is not its"};
}

}  // namespace muster::federated
