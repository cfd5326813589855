// What OpenSSL returns is looked at everywhere: a certificate that lacks an extension would be trusted for too much.
// Its queue of errors is empty again when a function here returns: gRPC uses the same library in the same threads.
#include "muster/control/certificates.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/control/openssl_parts.h"

namespace muster::control {
namespace {

constexpr std::string_view kUriScheme = "muster://";
constexpr std::size_t kLongestName = 64;
constexpr std::size_t kLongestHost = 253;  // of DNS
constexpr std::size_t kSerialBytes = 16;
constexpr const char* kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

// REQUIRES: what OpenSSL did failed for no reason that a user can mend.
void require(bool worked, const char* action) {
  if (worked) return;
  std::array<char, 160> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  throw Error(ErrorKind::kResource, fmt::format("OpenSSL cannot {}: {}", action, text.data()));
}

void require_plain(std::string_view text, std::size_t longest, const char* what) {
  if (!text.empty() && text.size() <= longest && text.find_first_not_of(kNameCharacters) == std::string_view::npos)
    return;
  throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no {}", excerpt(text, 80), what), {},
              fmt::format("Use letters, digits and -._ , at most {} of them.", longest));
}

bool is_address(const std::string& host) {
  std::array<unsigned char, 16> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

OwnedBio reading(std::string_view text) {
  OwnedBio bio(BIO_new_mem_buf(text.data(), static_cast<int>(std::min<std::size_t>(text.size(), 1 << 20))));
  require(bio != nullptr, "read from memory");
  return bio;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

OwnedBio writing() {
  OwnedBio bio(BIO_new(BIO_s_mem()));
  require(bio != nullptr, "write to memory");
  return bio;
}

std::string to_pem(X509* certificate) {
  const OwnedBio bio = writing();
  require(PEM_write_bio_X509(bio.get(), certificate) == 1, "write a certificate");
  return text_of(bio.get());
}

std::string to_pem(EVP_PKEY* key) {
  const OwnedBio bio = writing();
  require(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1, "write a key");
  return text_of(bio.get());
}

// Nobody is asked for a pass phrase.
int no_pass_phrase(char*, int, int, void*) {
  return -1;
}

// Null: none.
OwnedCertificate certificate_from(std::string_view pem) {
  OwnedCertificate certificate(PEM_read_bio_X509(reading(pem).get(), nullptr, no_pass_phrase, nullptr));
  ERR_clear_error();
  return certificate;
}

OwnedKey key_from(std::string_view pem) {
  OwnedKey key(PEM_read_bio_PrivateKey(reading(pem).get(), nullptr, no_pass_phrase, nullptr));
  ERR_clear_error();
  return key;
}

void set_life(X509* certificate, const CertificateLife& life) {
  const auto set = [](ASN1_TIME* field, WallTime time) {
    return ASN1_TIME_set(field, std::chrono::system_clock::to_time_t(time)) != nullptr;
  };
  require(set(X509_getm_notBefore(certificate), life.begin) && set(X509_getm_notAfter(certificate), life.end),
          "set when a certificate counts");
}

// 127 random bits: never the same twice, and not to be foreseen.
void set_serial(X509* certificate) {
  std::array<unsigned char, kSerialBytes> bytes{};
  require(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "give random numbers");
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);
  const OwnedNumber number(BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  require(number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr, "set a serial");
}

void add_to_subject(X509* certificate, const char* field, std::string_view value) {
  require(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), field, MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(value.data()),
                                     static_cast<int>(value.size()), -1, 0) == 1,
          "name a certificate");
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OwnedExtension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "extend a certificate");
}

// A new key and an unsigned certificate around it.
std::pair<OwnedKey, OwnedCertificate> begin_certificate(const CertificateLife& life) {
  OwnedKey key(EVP_EC_gen("P-256"));
  require(key != nullptr, "make a key");
  OwnedCertificate certificate(X509_new());
  require(certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
              X509_set_pubkey(certificate.get(), key.get()) == 1,
          "begin a certificate");
  set_serial(certificate.get());
  set_life(certificate.get(), life);
  add_to_subject(certificate.get(), "O", "Muster");
  return {std::move(key), std::move(certificate)};
}

void sign(X509* certificate, EVP_PKEY* key) {
  require(X509_sign(certificate, key, EVP_sha256()) > 0, "sign a certificate");
}

std::string text_of(const X509_NAME* name) {
  const OwnedBio bio = writing();
  require(X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) >= 0, "write a name");
  return excerpt(text_of(bio.get()), 200);
}

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += fmt::format("{:02x}", bytes[i]);
  return text;
}

WallTime time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

// The words of a certificate's alternative names of one kind.
struct AlternativeNames {
  std::vector<std::string> uris;
  std::vector<std::string> hosts;
};

AlternativeNames alternative_names(X509* certificate) {
  AlternativeNames result;
  const OwnedNames names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    int kind = 0;
    const auto* const value = static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(name, &kind));
    if (kind != GEN_URI && kind != GEN_DNS && kind != GEN_IPADD) continue;
    const unsigned char* bytes = ASN1_STRING_get0_data(value);
    const auto size = static_cast<std::size_t>(ASN1_STRING_length(value));
    const std::string text(reinterpret_cast<const char*>(bytes), size);
    std::array<char, INET6_ADDRSTRLEN> address{};
    if (kind == GEN_URI)
      result.uris.push_back(text);
    else if (kind == GEN_DNS)
      result.hosts.push_back(excerpt(text, kLongestHost));
    else if ((size == 4 || size == 16) &&
             ::inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, address.data(), address.size()) != nullptr)
      result.hosts.emplace_back(address.data());
  }
  ERR_clear_error();
  return result;
}

// None: no URI of ours, one that says nothing we know, or several.
std::optional<CallerIdentity> identity_in(const std::vector<std::string>& uris) {
  std::optional<CallerIdentity> identity;
  for (const std::string_view uri : uris) {
    if (!uri.starts_with(kUriScheme)) continue;
    const std::string_view rest = uri.substr(kUriScheme.size());
    const std::size_t slash = rest.find('/');
    if (identity || slash == std::string_view::npos) return std::nullopt;
    const std::optional<CallerRole> role = caller_role_named(rest.substr(0, slash));
    const std::string_view name = rest.substr(slash + 1);
    if (!role || name.empty() || name.size() > kLongestName ||
        name.find_first_not_of(kNameCharacters) != std::string_view::npos)
      return std::nullopt;
    identity = {*role, std::string(name)};
  }
  return identity;
}

OwnedStore store_of(std::string_view authorities) {
  OwnedStore store(X509_STORE_new());
  require(store != nullptr, "hold authorities");
  const OwnedInfos infos(PEM_X509_INFO_read_bio(reading(authorities).get(), nullptr, no_pass_phrase, nullptr));
  for (int i = 0; i < sk_X509_INFO_num(infos.get()); ++i)
    if (X509* const authority = sk_X509_INFO_value(infos.get(), i)->x509; authority != nullptr)
      X509_STORE_add_cert(store.get(), authority);
  ERR_clear_error();
  return store;
}

// What OpenSSL found wrong with a certificate, in words of ours where a user meets it.
std::string words_of(int error, const CertificateLife& life) {
  const auto day = [](WallTime time) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                       parts.tm_hour, parts.tm_min);
  };
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("the certificate has expired on {}", day(life.end));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("the certificate does not count before {}", day(life.begin));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return "another authority signed the certificate";
    case X509_V_ERR_INVALID_PURPOSE:
      return "the certificate is not for this use";
    default:
      return X509_verify_cert_error_string(error);
  }
}

}  // namespace

SignedKey make_authority(std::string_view name, const CertificateLife& life) {
  require_plain(name, kLongestName, "name of an authority");
  auto [key, certificate] = begin_certificate(life);
  add_to_subject(certificate.get(), "CN", name);
  require(X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get())) == 1, "name an issuer");
  X509* const own = certificate.get();
  add_extension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(own, own, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(own, own, NID_subject_key_identifier, "hash");
  sign(own, key.get());
  return {to_pem(own), to_pem(key.get())};
}

SignedKey make_certificate(const SignedKey& authority, const CertificateWish& wish, const CertificateLife& life) {
  require_plain(wish.name, kLongestName, "name for a certificate");
  const OwnedCertificate issuer = certificate_from(authority.certificate);
  const OwnedKey issuer_key = key_from(authority.key);
  if (!issuer || !issuer_key || X509_check_private_key(issuer.get(), issuer_key.get()) != 1) {
    ERR_clear_error();
    throw Error(ErrorKind::kDamaged, "the authority's certificate and key are not a pair", {},
                "Give the folder that muster certs create made, with ca.crt and ca.key.");
  }
  auto [key, certificate] = begin_certificate(life);
  X509* const own = certificate.get();
  add_to_subject(own, "CN", wish.name);
  require(X509_set_issuer_name(own, X509_get_subject_name(issuer.get())) == 1, "name an issuer");
  std::string names = fmt::format("URI:{}{}/{}", kUriScheme, to_string(wish.role), wish.name);
  const bool serves = wish.role == CallerRole::kCoordinator;
  if (serves) names += fmt::format(",DNS:{}", kCoordinatorHost);
  for (const std::string& host : wish.hosts) {
    if (host == kCoordinatorHost)
      throw Error(ErrorKind::kInvalidInput, fmt::format("{} is the name of every coordinator", host));
    if (!is_address(host)) require_plain(host, kLongestHost, "name or address of a host");
    names += fmt::format(",{}:{}", is_address(host) ? "IP" : "DNS", host);
  }
  add_extension(own, issuer.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(own, issuer.get(), NID_key_usage, "critical,digitalSignature");
  add_extension(own, issuer.get(), NID_ext_key_usage, serves ? "serverAuth,clientAuth" : "clientAuth");
  add_extension(own, issuer.get(), NID_subject_key_identifier, "hash");
  add_extension(own, issuer.get(), NID_authority_key_identifier, "keyid:always");
  add_extension(own, issuer.get(), NID_subject_alt_name, names);
  sign(own, issuer_key.get());
  return {to_pem(own), to_pem(key.get())};
}

CertificateFacts read_certificate(std::string_view pem, const std::string& where) {
  const OwnedCertificate certificate = certificate_from(pem);
  if (!certificate)
    throw Error(ErrorKind::kDamaged, "holds no certificate", where,
                "Give a file in PEM, as muster certs create makes.");
  CertificateFacts facts;
  facts.subject = text_of(X509_get_subject_name(certificate.get()));
  facts.issuer = text_of(X509_get_issuer_name(certificate.get()));
  const ASN1_INTEGER* serial = X509_get0_serialNumber(certificate.get());
  facts.serial = hexadecimal(ASN1_STRING_get0_data(serial), static_cast<std::size_t>(ASN1_STRING_length(serial)));
  facts.life = {time_of(X509_get0_notBefore(certificate.get())), time_of(X509_get0_notAfter(certificate.get()))};
  facts.authority = X509_check_ca(certificate.get()) == 1;
  AlternativeNames names = alternative_names(certificate.get());
  facts.identity = identity_in(names.uris);
  facts.hosts = std::move(names.hosts);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  require(X509_digest(certificate.get(), EVP_sha256(), digest.data(), &size) == 1, "hash a certificate");
  facts.fingerprint = hexadecimal(digest.data(), size);
  return facts;
}

CertificateVerdict judge_certificate(std::string_view pem, std::string_view authorities, WallTime now,
                                     CertificateUse use) {
  const OwnedCertificate certificate = certificate_from(pem);
  if (!certificate) return {std::nullopt, "the certificate cannot be read"};
  const OwnedStore store = store_of(authorities);
  const OwnedStoreContext context(X509_STORE_CTX_new());
  CertificateVerdict verdict;
  verdict.life = {time_of(X509_get0_notBefore(certificate.get())), time_of(X509_get0_notAfter(certificate.get()))};
  if (!context || X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr) != 1)
    return {std::nullopt, "the certificate cannot be examined"};
  X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(rules, std::chrono::system_clock::to_time_t(now));
  if (X509_STORE_CTX_set_purpose(
          context.get(), use == CertificateUse::kClient ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER) != 1)
    return {std::nullopt, "the certificate cannot be examined"};
  const int trusted = X509_verify_cert(context.get());
  const int error = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  if (trusted != 1) {
    verdict.reason = words_of(error, verdict.life);
    return verdict;
  }
  verdict.identity = identity_in(alternative_names(certificate.get()).uris);
  if (!verdict.identity) verdict.reason = "the certificate names no role of Muster's";
  return verdict;
}

}  // namespace muster::control
