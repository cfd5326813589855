// The files that trust between hosts is made of: an authority with its certificates, or tokens; made and read here.
//
// A folder of certificates for one holder has ca.crt, cert.crt and cert.key: what `--certs FOLDER` takes. `create`
// makes such folders below one that has the authority's own ca.crt and ca.key, which never leaves it. A file of tokens
// has lines "ROLE TOKEN". Keys and tokens have mode 0600 and are refused with more; folders have 0700.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/control/certificates.h"

namespace muster::control {

// PEM.
struct CertificateFiles {
  std::string authorities;  // one or, while one authority takes another's place, several
  std::string certificate;
  std::string key;
};

// Throws kNotFound, kInvalidInput (others may read the key), kDamaged.
CertificateFiles read_certificate_files(const std::filesystem::path& folder);
// A folder that read_certificate_files() reads. Throws kIo, also when it is there already.
void write_certificate_files(const std::filesystem::path& folder, const CertificateFiles& files);
// The same as the first of files that lie apart; `authorities` is left empty.
CertificateFiles read_certificate_pair(const std::filesystem::path& certificate, const std::filesystem::path& key);

// What was made, and in words where it belongs.
struct MadeFiles {
  std::filesystem::path path;
  std::string use;
};

struct CertificateTerms {
  std::vector<std::string> hosts{};
  int days = 365;
  WallTime now{};  // certificates count from an hour before: clocks of hosts differ
};

// An authority and folders for a coordinator, a user, a reader, and an agent (of each host that is named). All of it or
// nothing. Throws kInvalidInput when there is something in `folder` already, and as make_certificate.
std::vector<MadeFiles> create_certificates(const std::filesystem::path& folder, const CertificateTerms& terms);
// One more folder, ROLE-NAME, by the authority that is in `folder`.
MadeFiles add_certificate(const std::filesystem::path& folder, CallerRole role, const std::string& name,
                          const CertificateTerms& terms);

struct RoleToken {
  CallerRole role = CallerRole::kReader;
  std::string token;
};

// New tokens: `tokens` for the coordinator, and a file for each role. Throws kInvalidInput when they are there already.
std::vector<MadeFiles> create_tokens(const std::filesystem::path& folder);
// Throws kNotFound, kInvalidInput (others may read it), kDamaged (no such lines).
std::vector<RoleToken> read_role_tokens(const std::filesystem::path& path);

}  // namespace muster::control
