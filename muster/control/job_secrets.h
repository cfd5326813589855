// What processes of a job on different hosts have in common, made by its coordinator: a token, and, where hosts know
// each other by certificates or tokens, certificates of an authority that is this job's own, one for both ends.
//
// Agents get it over the connection by which they have joined, and nobody else does. So whoever has been let into the
// job can serve others of it, which a certificate of the role agent alone is not good for. Values; from any thread.
#pragma once

#include <string>

#include "muster/control/certificates.h"

namespace muster::control {

struct JobSecrets {
  std::string token{};
  std::string authority{};  // PEM, this and the next two; empty: nothing is encrypted
  std::string certificate{};
  std::string key{};

  std::string to_text() const;
  // Throws Error{kDamaged}.
  static JobSecrets from_text(const std::string& text);
};

// `encrypted`: with certificates, which count from a day before `now`, because clocks of hosts differ. `whom`: of whom
// they are, for people.
JobSecrets make_job_secrets(const std::string& whom, bool encrypted, WallTime now);

// Keys in the store of all hosts.
constexpr const char* kServerSecretsKey = "server-secrets";  // of parameter servers
constexpr const char* kDataSecretsKey = "data-secrets";      // of hosts that give data

}  // namespace muster::control
