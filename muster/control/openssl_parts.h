// OpenSSL's objects with an owner each. For the sources of this folder only: it brings OpenSSL's headers.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace muster::control {

template <auto Free>
struct FreedBy {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

inline void free_infos(STACK_OF(X509_INFO) * infos) {
  sk_X509_INFO_pop_free(infos, X509_INFO_free);
}

using OwnedBio = std::unique_ptr<BIO, FreedBy<BIO_free_all>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY_free>>;
using OwnedCertificate = std::unique_ptr<X509, FreedBy<X509_free>>;
using OwnedExtension = std::unique_ptr<X509_EXTENSION, FreedBy<X509_EXTENSION_free>>;
using OwnedNames = std::unique_ptr<GENERAL_NAMES, FreedBy<GENERAL_NAMES_free>>;
using OwnedNumber = std::unique_ptr<BIGNUM, FreedBy<BN_free>>;
using OwnedStore = std::unique_ptr<X509_STORE, FreedBy<X509_STORE_free>>;
using OwnedStoreContext = std::unique_ptr<X509_STORE_CTX, FreedBy<X509_STORE_CTX_free>>;
using OwnedInfos = std::unique_ptr<STACK_OF(X509_INFO), FreedBy<free_infos>>;

}  // namespace muster::control
