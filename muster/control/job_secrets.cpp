// The key of the authority is thrown away once it has signed: nobody can make another certificate of this job. One is
// good for both ends, since whoever serves calls others as well.
#include "muster/control/job_secrets.h"

#include <chrono>

#include "muster/base/json.h"
#include "muster/control/access_token.h"

namespace muster::control {
namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::chrono::hours kADay{24};
constexpr int kDaysOfAJob = 3650;

}  // namespace

std::string JobSecrets::to_text() const {
  return Json{{"token", token}, {"authority", authority}, {"certificate", certificate}, {"key", key}}.dump();
}

JobSecrets JobSecrets::from_text(const std::string& text) {
  const std::string where = "the secrets of the job";
  const Json json = parse_json(text, where);
  return {json_get<std::string>(json, "token", where), json_get<std::string>(json, "authority", where),
          json_get<std::string>(json, "certificate", where), json_get<std::string>(json, "key", where)};
}

JobSecrets make_job_secrets(const std::string& whom, bool encrypted, WallTime now) {
  JobSecrets secrets;
  secrets.token = random_hex(kSecretBytes);
  if (!encrypted) return secrets;
  const auto begin = std::chrono::floor<std::chrono::seconds>(now - kADay);
  const CertificateLife life{begin, begin + kDaysOfAJob * kADay};
  const SignedKey authority = make_authority(whom, life);
  const SignedKey own = make_certificate(authority, {CallerRole::kCoordinator, whom, {}}, life);
  secrets.authority = authority.certificate;
  secrets.certificate = own.certificate;
  secrets.key = own.key;
  return secrets;
}

}  // namespace muster::control
