// Who is asked and for how long. Every attempt has a part of the call's time, so that a member that hangs does not cost
// all of it; one that knows no leader says so at once because the call asks for it (the metadata `hasleader`).
#include "muster/control/etcd_client.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/control/trust_files.h"

namespace muster::control {
namespace {

constexpr std::chrono::milliseconds kPauseAfterAll{50};  // when every member was asked in vain
constexpr int kConnectWithinMs = 3'000;
constexpr int kEtcdKeepaliveMs = 5'000;
constexpr int kMostEtcdReplyBytes = 64 << 20;
constexpr std::uint64_t kMostPasswordBytes = 4096;
constexpr const char* kEtcdTokenKey = "token";

std::shared_ptr<grpc::ChannelCredentials> credentials_of(const EtcdOptions& options) {
  if (options.certificate.empty() != options.key.empty())
    throw Error(ErrorKind::kInvalidInput, "a certificate for etcd needs its key, and a key its certificate", {},
                "Give --store-cert and --store-key.");
  if (!options.encrypted()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions tls;
  if (!options.authority.empty()) tls.pem_root_certs = read_text(options.authority, 1 << 20);
  if (!options.certificate.empty()) {
    const CertificateFiles own = read_certificate_pair(options.certificate, options.key);
    tls.pem_cert_chain = own.certificate;
    tls.pem_private_key = own.key;
  }
  return grpc::SslCredentials(tls);
}

std::string password_of(const EtcdOptions& options) {
  if (options.user.empty() != options.password.empty())
    throw Error(ErrorKind::kInvalidInput, "a user of etcd needs a password, and a password its user", {},
                "Give --store-user NAME and --store-password FILE.");
  if (options.password.empty()) return {};
  struct stat status {};
  if (::stat(options.password.c_str(), &status) != 0) throw_system_error("cannot be examined", options.password);
  if ((status.st_mode & 077) != 0)
    throw Error(ErrorKind::kInvalidInput, "others than its owner may read the password", options.password.string(),
                fmt::format("chmod 600 {}", options.password.string()));
  std::string password = read_text(options.password, kMostPasswordBytes);
  while (password.ends_with('\n') || password.ends_with('\r'))
    password.pop_back();
  return password;
}

bool says(const grpc::Status& status, std::string_view words) {
  return status.error_message().find(words) != std::string::npos;
}

}  // namespace

EtcdVerdict judge_etcd(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return EtcdVerdict::kAskAnother;
    case grpc::StatusCode::UNAUTHENTICATED:
      return EtcdVerdict::kAuthenticate;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return says(status, "revision in header is old") ? EtcdVerdict::kAuthenticate : EtcdVerdict::kAnswered;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return says(status, "too many requests") ? EtcdVerdict::kAskAnother : EtcdVerdict::kAnswered;
    default:
      return EtcdVerdict::kAnswered;
  }
}

Error etcd_error(const grpc::Status& status, const std::string& where) {
  const std::string said = excerpt(status.error_message(), 200);
  switch (status.error_code()) {
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Error(ErrorKind::kResource, fmt::format("etcd takes no more: {}", said), where,
                   "Compact and defragment it, then disarm its alarm (docs/operations.md has the commands).");
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return Error(ErrorKind::kInvalidInput, fmt::format("etcd refuses: {}", said), where,
                   "Give the user a role that may read and write below the prefix, and --store-user, "
                   "--store-password here.");
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Error(ErrorKind::kInvalidInput, fmt::format("etcd refuses: {}", said), where,
                   "Look at --store-user and --store-password.");
    default:
      return Error(ErrorKind::kIo, fmt::format("etcd refuses: {}", said), where, "What etcd has logged says more.");
  }
}

EtcdClient::EtcdClient(const EtcdOptions& options)
    : options_(options),
      where_(url_of(options)),
      credentials_(credentials_of(options)),
      password_(password_of(options)) {
  for (const std::string& address : options_.members)
    members_.push_back({address, make_channel(address)});
}

std::shared_ptr<grpc::Channel> EtcdClient::make_channel(const std::string& address) const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostEtcdReplyBytes);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectWithinMs);  // gRPC's limit of an attempt
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kEtcdKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kEtcdKeepaliveMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials_, arguments);
}

std::shared_ptr<grpc::Channel> EtcdClient::present() {
  const MutexLock lock(mutex_);
  return members_[present_].channel;
}

void EtcdClient::pass_over(const std::shared_ptr<grpc::Channel>& channel) {
  const MutexLock lock(mutex_);
  Member& member = members_[present_];
  if (member.channel != channel) return;  // somebody else has been faster
  member.channel = make_channel(member.address);
  present_ = (present_ + 1) % members_.size();
}

std::string EtcdClient::token(const std::shared_ptr<grpc::Channel>& channel, const Deadline& deadline,
                              grpc::Status& status) {
  if (options_.user.empty()) return {};
  {
    const MutexLock lock(mutex_);
    if (!token_.empty()) return token_;
  }
  etcdserverpb::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(password_);
  etcdserverpb::AuthenticateResponse reply;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline.remaining());
  status = etcdserverpb::Auth::NewStub(channel)->Authenticate(&context, request, &reply);
  const MutexLock lock(mutex_);
  if (status.ok()) token_ = reply.token();
  return status.ok() ? token_ : "";
}

void EtcdClient::forget_token(const std::string& token) {
  const MutexLock lock(mutex_);
  if (token_ == token) token_.clear();
}

EtcdClient::Answer EtcdClient::call(const Call& call, const Deadline& deadline) {
  grpc::Status last;
  int attempts = 0;
  for (std::size_t asked = 0;; ++asked) {
    if (asked > 0 && asked % options_.members.size() == 0 && deadline.remaining() > kPauseAfterAll)
      system_clock().sleep_for(kPauseAfterAll);
    if (asked > 0 && deadline.remaining() <= kPauseAfterAll) break;
    const std::shared_ptr<grpc::Channel> channel = present();
    const Deadline of_attempt =
        Deadline::after(std::min<std::chrono::nanoseconds>(deadline.remaining(), options_.patience_with_a_member));
    last = grpc::Status::OK;
    const std::string shown = token(channel, of_attempt, last);
    if (last.ok()) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + of_attempt.remaining());
      context.AddMetadata("hasleader", "true");
      if (!shown.empty()) context.AddMetadata(kEtcdTokenKey, shown);
      ++attempts;
      last = call(context, channel);
    } else if (judge_etcd(last) == EtcdVerdict::kAnswered) {
      throw etcd_error(last, where_);  // the password
    }
    switch (judge_etcd(last)) {
      case EtcdVerdict::kAnswered:
        return {last, attempts};
      case EtcdVerdict::kAuthenticate:
        if (options_.user.empty()) throw etcd_error(last, where_);
        forget_token(shown);
        --attempts;
        break;
      case EtcdVerdict::kAskAnother:
        pass_over(channel);
        break;
    }
  }
  throw Error(ErrorKind::kTimeout, fmt::format("etcd does not answer ({})", excerpt(last.error_message(), 200)), where_,
              "Has it a quorum, and are these its addresses for clients?");
}

etcdserverpb::RangeResponse EtcdClient::range(const etcdserverpb::RangeRequest& request, const Deadline& deadline) {
  etcdserverpb::RangeResponse reply;
  const Answer answer = call(
      [&](grpc::ClientContext& context, const std::shared_ptr<grpc::Channel>& channel) {
        reply.Clear();
        return etcdserverpb::KV::NewStub(channel)->Range(&context, request, &reply);
      },
      deadline);
  if (!answer.status.ok()) throw etcd_error(answer.status, where_);
  return reply;
}

void EtcdClient::hear_quorum(const Deadline& deadline) {
  etcdserverpb::RangeRequest request;
  request.set_key(options_.prefix + "/");  // what a user may read
  request.set_count_only(true);
  range(request, deadline);  // not serializable: the leader asks the others whether it still is the leader
}

}  // namespace muster::control
