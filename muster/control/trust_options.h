// Which files a process shows to others and trusts others by, as the flags of commands give them.
#pragma once

#include <filesystem>

namespace muster::control {

// All empty: no trust at all, which is for loopback and for `--insecure`.
struct TrustOptions {
  std::filesystem::path certs{};            // a folder (trust_files.h)
  std::filesystem::path tls_certificate{};  // of a server, with its key
  std::filesystem::path tls_key{};
  std::filesystem::path tls_authority{};  // that a client trusts; empty: those of the system
  std::filesystem::path token{};          // of a server: "tokens"; of a client: its own

  bool any() const {
    return !certs.empty() || !tls_certificate.empty() || !tls_key.empty() || !tls_authority.empty() || !token.empty();
  }
};

}  // namespace muster::control
