// gRPC does the handshake; who somebody is, is decided here, from what the handshake has proved. What a caller may is a
// table (caller_role.h).
#include "muster/control/credentials.h"

#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/mutex.h"
#include "muster/control/access_token.h"
#include "muster/control/arrivals.h"
#include "muster/control/certificates.h"
#include "muster/control/trust_files.h"
#include "muster/control/wire.h"

namespace muster::control {
namespace {

constexpr int kStrangersMetadataBytes = 4 * 1024;
constexpr int kStrangersHandshakeMs = 5'000;
constexpr int kIdleConnectionMs = 10'000;
constexpr int kOldestConnectionMs = 3'600'000;
constexpr int kLastCallsMs = 10'000;
constexpr std::size_t kMostVerdicts = 4096;

// Who calls, or why nobody knows.
struct Caller {
  std::optional<CallerIdentity> identity;
  std::string reason;
};

class Authenticator {
 public:
  virtual ~Authenticator() = default;
  virtual Caller caller(const grpc::ServerContextBase& context) = 0;
};

// By certificate. A verdict is kept for as long as the certificate counts: a signature takes longer than a call.
class ByCertificate final : public Authenticator {
 public:
  ByCertificate(std::string authorities, const Clock& clock) : authorities_(std::move(authorities)), clock_(clock) {}

  Caller caller(const grpc::ServerContextBase& context) override {
    const auto shown = context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (shown.size() != 1) return {std::nullopt, "it shows no certificate"};
    const std::string pem(shown.front().data(), shown.front().size());
    const WallTime now = clock_.wall();  // certificates count by the wall clock
    const MutexLock lock(mutex_);
    const auto known = verdicts_.find(pem);
    if (known != verdicts_.end() && known->second.life.begin <= now && now <= known->second.life.end)
      return {known->second.identity, {}};
    CertificateVerdict verdict = judge_certificate(pem, authorities_, now, CertificateUse::kClient);
    Caller result{verdict.identity, verdict.reason};
    if (verdict.identity) {
      if (verdicts_.size() >= kMostVerdicts) verdicts_.clear();
      verdicts_.insert_or_assign(pem, std::move(verdict));
    }
    return result;
  }

 private:
  const std::string authorities_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, CertificateVerdict> verdicts_ MUSTER_GUARDED_BY(mutex_);  // of those that are trusted
};

class ByToken final : public Authenticator {
 public:
  explicit ByToken(std::vector<RoleToken> tokens) : tokens_(std::move(tokens)) {}

  Caller caller(const grpc::ServerContextBase& context) override {
    const auto [begin, end] = context.client_metadata().equal_range(kTokenKey);
    if (begin == end) return {std::nullopt, "it shows no token"};
    if (std::next(begin) != end) return {std::nullopt, "it shows several tokens"};
    const std::string_view shown(begin->second.data(), begin->second.size());
    std::optional<CallerRole> role;
    // All of them, always: how long it takes tells nothing.
    for (const RoleToken& token : tokens_)
      if (same_token(shown, token.token)) role = token.role;
    if (!role) return {std::nullopt, "its token is none of the job's"};
    return {CallerIdentity{*role, "by token"}, {}};
  }

 private:
  const std::vector<RoleToken> tokens_;
};

grpc::Status refusal(grpc::StatusCode code, const std::string& reason, const char* remedy) {
  const grpc::Status told =
      to_status(Error(ErrorKind::kInvalidInput, "the coordinator refuses: " + reason, {}, remedy));
  return {code, told.error_message(), told.error_details()};
}

grpc::Status authorize_call(Authenticator& authenticator, Arrivals& arrivals, Audit& audit,
                            const grpc::ServerContextBase& context, std::string_view call) {
  const std::string peer = context.peer();
  arrivals.called(peer);
  const Caller caller = authenticator.caller(context);
  if (!caller.identity) {
    audit.refused({.who = {}, .what = call, .from = peer}, caller.reason);
    return refusal(grpc::StatusCode::UNAUTHENTICATED, caller.reason,
                   "Give --certs with a folder of the coordinator's authority, or --token with one of its tokens.");
  }
  const std::string who = fmt::format("{} {}", to_string(caller.identity->role), caller.identity->name);
  const CallVerdict verdict = judge_call(caller.identity->role, call);
  if (!verdict.allowed) {
    audit.refused({who, call, peer}, verdict.reason);
    return refusal(grpc::StatusCode::PERMISSION_DENIED, verdict.reason, "Use a certificate or token of another role.");
  }
  if (verdict.noted) audit.taken({who, call, peer});
  return grpc::Status::OK;
}

// Adds the token to every call; gRPC gives it to encrypted connections only.
class TokenOfCalls final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenOfCalls(std::string token) : token_(std::move(token)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    metadata->emplace(kTokenKey, token_);
    return grpc::Status::OK;
  }

 private:
  const std::string token_;
};

void require_one_way(const TrustOptions& options) {
  if (!options.certs.empty() && (!options.tls_certificate.empty() || !options.tls_key.empty() ||
                                 !options.tls_authority.empty() || !options.token.empty()))
    throw Error(ErrorKind::kInvalidInput, "--certs cannot be combined with --tls-... and --token", {},
                "Give --certs for certificates on both sides, or the others for TLS and a token.");
}

}  // namespace

ServerTrust make_server_trust(const TrustOptions& options, Audit& audit, const Clock& clock) {
  require_one_way(options);
  CertificateFiles files;
  std::shared_ptr<Authenticator> authenticator;
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  if (!options.certs.empty()) {
    files = read_certificate_files(options.certs);
    const CertificateVerdict own =
        judge_certificate(files.certificate, files.authorities, clock.wall(), CertificateUse::kServer);
    if (!own.identity || own.identity->role != CallerRole::kCoordinator)
      throw Error(ErrorKind::kInvalidInput,
                  own.identity ? fmt::format("is the certificate of a {}", to_string(own.identity->role)) : own.reason,
                  options.certs.string(), "Who listens needs a coordinator's certificate that counts.");
    tls = grpc::SslServerCredentialsOptions(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
    tls.pem_root_certs = files.authorities;
    authenticator = std::make_shared<ByCertificate>(files.authorities, clock);
  } else {
    if (options.tls_certificate.empty() || options.tls_key.empty() || options.token.empty())
      throw Error(ErrorKind::kInvalidInput, "TLS and token need --tls-cert, --tls-key and --token", {},
                  "Give all three, or --certs FOLDER for certificates on both sides.");
    files = read_certificate_pair(options.tls_certificate, options.tls_key);
    authenticator = std::make_shared<ByToken>(read_role_tokens(options.token));
  }
  tls.pem_key_cert_pairs.push_back({files.key, files.certificate});
  ServerTrust trust;
  trust.credentials = grpc::SslServerCredentials(tls);
  trust.arrivals = std::make_shared<Arrivals>();
  trust.authorize = [authenticator, arrivals = trust.arrivals, &audit](const grpc::ServerContextBase& context,
                                                                       std::string_view call) {
    return authorize_call(*authenticator, *arrivals, audit, context, call);
  };
  trust.identify = [authenticator](const grpc::ServerContextBase& context) {
    return authenticator->caller(context).identity;
  };
  return trust;
}

std::shared_ptr<grpc::ChannelCredentials> make_channel_credentials(const TrustOptions& options) {
  require_one_way(options);
  if (!options.certs.empty()) {
    const CertificateFiles files = read_certificate_files(options.certs);
    return grpc::SslCredentials({files.authorities, files.key, files.certificate});
  }
  if (options.token.empty())
    throw Error(ErrorKind::kInvalidInput, "TLS without certificates needs --token", {},
                "Give --token FILE, or --certs FOLDER.");
  const std::vector<RoleToken> tokens = read_role_tokens(options.token);
  if (tokens.size() != 1)
    throw Error(ErrorKind::kInvalidInput, "holds the tokens of all roles", options.token.string(),
                "That file is the coordinator's: give the one of your role.");
  grpc::SslCredentialsOptions tls;
  if (!options.tls_authority.empty()) tls.pem_root_certs = read_text(options.tls_authority, 1 << 20);
  return grpc::CompositeChannelCredentials(
      grpc::SslCredentials(tls),
      grpc::MetadataCredentialsFromPlugin(std::make_unique<TokenOfCalls>(tokens.front().token)));
}

void expect_coordinator(const TrustOptions& options, grpc::ChannelArguments& arguments) {
  if (!options.certs.empty()) arguments.SetSslTargetNameOverride(kCoordinatorHost);
}

void limit_strangers(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kStrangersMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kStrangersHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleConnectionMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kOldestConnectionMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kLastCallsMs);
}

}  // namespace muster::control
