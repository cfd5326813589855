// Who is let in and who is not, by a real service on a port of loopback: certificates, tokens, and strangers who speak
// something else or nothing.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "control.grpc.pb.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/control/access_token.h"
#include "muster/control/caller_role.h"
#include "muster/control/credentials.h"
#include "muster/control/tcp_gate.h"
#include "muster/control/trust_files.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

using namespace std::chrono_literals;
using muster::testing::error_of;
using muster::testing::eventually;
using muster::testing::slurp;
using muster::testing::spill;
using muster::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Asks who calls, and does nothing.
class AskingService final : public v1::Control::Service {
 public:
  explicit AskingService(AuthorizeCall authorize) : authorize_(std::move(authorize)) {}
  grpc::Status Status(grpc::ServerContext* context, const v1::StatusRequest*, v1::StatusReply*) override {
    return authorize_(*context, "Status");
  }
  grpc::Status Stop(grpc::ServerContext* context, const v1::StopRequest*, v1::WantedReply*) override {
    return authorize_(*context, "Stop");
  }

 private:
  const AuthorizeCall authorize_;
};

class TrustTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log_.open_file(folder_ / "log.txt");
    create_certificates(folder_ / "certs", {.hosts = {"127.0.0.1"}, .now = now_});
  }
  void TearDown() override {
    gate_.reset();
    if (!server_) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  void serve(const TrustOptions& options, const TcpGateLimits& limits = {}, const Clock& clock = system_clock()) {
    const ServerTrust trust = make_server_trust(options, audit_, clock);
    service_ = std::make_unique<AskingService>(trust.authorize);
    grpc::ServerBuilder builder;
    limit_strangers(builder);
    builder.RegisterService(service_.get());
    gate_ = std::make_unique<TcpGate>(builder, "127.0.0.1:0", trust, audit_, limits);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    gate_->open();
  }
  void serve_certificates(const TcpGateLimits& limits = {}) { serve({.certs = certs("coordinator")}, limits); }
  void serve_tokens() {
    create_tokens(folder_ / "tokens");
    serve({.tls_certificate = certs("coordinator") / "cert.crt",
           .tls_key = certs("coordinator") / "cert.key",
           .token = folder_ / "tokens/tokens"});
  }
  TrustOptions token_of(const std::string& file) const {
    return {.tls_authority = folder_ / "certs/ca.crt", .token = folder_ / file};
  }

  std::filesystem::path certs(const std::string& holder) const { return folder_ / "certs" / holder; }

  // A folder as --certs takes it, with a certificate of any kind in it.
  std::filesystem::path holder_of(const SignedKey& authority, const CertificateWish& wish,
                                  const CertificateLife& life) {
    const SignedKey own = make_certificate(authority, wish, life);
    const std::filesystem::path folder = folder_ / fmt::format("holder-{}", ++holders_);
    std::filesystem::create_directory(folder);
    spill(folder / "ca.crt", slurp(folder_ / "certs/ca.crt"));
    spill(folder / "cert.crt", own.certificate);
    spill(folder / "cert.key", own.key);
    std::filesystem::permissions(folder / "cert.key", std::filesystem::perms(0600));
    return folder;
  }
  SignedKey authority() const { return {slurp(folder_ / "certs/ca.crt"), slurp(folder_ / "certs/ca.key")}; }
  CertificateLife life(std::chrono::hours begin, std::chrono::hours end) const { return {now_ + begin, now_ + end}; }

  grpc::Status call(const std::shared_ptr<grpc::ChannelCredentials>& credentials, const std::string& name,
                    const std::vector<std::string>& tokens = {}, grpc::ChannelArguments arguments = {}) {
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // every call by a connection of its own
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    const auto stub = v1::Control::NewStub(grpc::CreateCustomChannel(gate_->address(), credentials, arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 20s);
    for (const std::string& token : tokens)
      context.AddMetadata("muster-token", token);
    v1::StatusReply status;
    v1::WantedReply wanted;
    if (name == "Stop") return stub->Stop(&context, {}, &wanted);
    return stub->Status(&context, {}, &status);
  }
  grpc::Status call(const TrustOptions& options, const std::string& name) {
    grpc::ChannelArguments arguments;
    expect_coordinator(options, arguments);
    return call(make_channel_credentials(options), name, {}, std::move(arguments));
  }
  std::shared_ptr<grpc::ChannelCredentials> only_tls() const {
    return grpc::SslCredentials({slurp(folder_ / "certs/ca.crt"), "", ""});
  }

  FileDescriptor connect() const {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<std::uint16_t>(std::stoi(gate_->address().substr(10))));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0) << strerror(errno);
    return socket;
  }
  // Whether the other side closes it, after whatever it says.
  static bool is_closed(const FileDescriptor& socket, std::chrono::milliseconds limit = 20s) {
    return eventually(
        [&] {
          std::array<char, 4096> bytes{};
          const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
          return got == 0 || (got < 0 && errno != EAGAIN);
        },
        Deadline::after(limit));
  }

  std::vector<std::string> audit_lines(const std::string& with = "audit: refused") const {
    std::istringstream text(slurp(folder_ / "log.txt"));
    std::vector<std::string> result;
    for (std::string line; std::getline(text, line);)
      if (line.find(with) != std::string::npos) result.push_back(line);
    return result;
  }
  // One line, which says this; and whoever has the right to call still can.
  void expect_one_line(const std::string& words) {
    ASSERT_TRUE(eventually([&] { return !audit_lines().empty(); }));
    EXPECT_THAT(audit_lines(), SizeIs(1));
    EXPECT_THAT(audit_lines()[0], HasSubstr(words));
    EXPECT_THAT(audit_lines()[0], HasSubstr("ipv4:127.0.0.1:"));
  }

  const WallTime now_ = std::chrono::system_clock::now();
  TemporaryFolder folder_;
  Log log_{LogLevel::kOff};
  Audit audit_{log_};
  int holders_ = 0;
  std::unique_ptr<AskingService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<TcpGate> gate_;
};

TEST_F(TrustTest, TheRightCertificateIsLetInAndItsCommandsAreWrittenDown) {
  serve_certificates();
  for (const char* holder : {"coordinator", "agent-127.0.0.1", "user", "reader"}) {
    const grpc::Status status = call({.certs = certs(holder)}, "Status");
    EXPECT_TRUE(status.ok()) << holder << ": " << status.error_message();
  }
  EXPECT_TRUE(call({.certs = certs("user")}, "Stop").ok());
  EXPECT_THAT(audit_lines(), IsEmpty());
  EXPECT_THAT(audit_lines("audit: took"), SizeIs(1));
  EXPECT_THAT(audit_lines("audit: took").front(), HasSubstr("took Stop by user user from ipv4:127.0.0.1:"));
}

TEST(CallTable, HasEveryCallOfTheServices) {
  std::vector<std::string> calls;
  for (const char* name : {"Control", "Cluster"}) {
    const google::protobuf::ServiceDescriptor* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            fmt::format("muster.control.v1.{}", name));
    for (int i = 0; service != nullptr && i < service->method_count(); ++i)
      calls.push_back(service->method(i)->name());
  }
  EXPECT_THAT(calls, SizeIs(::testing::Ge(4u)));
  EXPECT_THAT(known_calls(), ::testing::IsSupersetOf(calls));
}

TEST_F(TrustTest, AWrongRoleIsRefused) {
  serve_certificates();
  const grpc::Status status = call({.certs = certs("reader")}, "Stop");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("Stop is not for the role \"reader\""));
  expect_one_line("refused Stop by reader reader");
  EXPECT_EQ(call({.certs = certs("agent-127.0.0.1")}, "Stop").error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(TrustTest, WithoutACertificateNobodyIsLetIn) {
  serve_certificates();
  const grpc::Status status = call(only_tls(), "Status");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  expect_one_line("no certificate");
}

TEST_F(TrustTest, ACertificateOfAnotherAuthorityIsRefused) {
  serve_certificates();
  const SignedKey foreign = make_authority("foreign", life(-1h, 24h));
  const auto folder = holder_of(foreign, {CallerRole::kUser, "mallory", {}}, life(-1h, 24h));
  EXPECT_EQ(call({.certs = folder}, "Status").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  expect_one_line("another authority signed");
}

TEST_F(TrustTest, AnExpiredCertificateIsRefused) {
  serve_certificates();
  const auto folder = holder_of(authority(), {CallerRole::kUser, "old", {}}, life(-48h, -24h));
  EXPECT_EQ(call({.certs = folder}, "Status").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  expect_one_line("has expired");
}

TEST_F(TrustTest, ACertificateThatDoesNotCountYetIsRefused) {
  serve_certificates();
  const auto folder = holder_of(authority(), {CallerRole::kUser, "new", {}}, life(24h, 48h));
  EXPECT_EQ(call({.certs = folder}, "Status").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  expect_one_line("does not count before");
}

TEST_F(TrustTest, ACertificateThatExpiresWhileItsConnectionLastsIsRefused) {
  FakeClock clock;
  clock.advance(now_.time_since_epoch());
  serve({.certs = certs("coordinator")}, {}, clock);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  expect_coordinator({.certs = certs("user")}, arguments);
  const auto stub = v1::Control::NewStub(
      grpc::CreateCustomChannel(gate_->address(), make_channel_credentials({.certs = certs("user")}), arguments));
  const auto status = [&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 20s);
    v1::StatusReply reply;
    return stub->Status(&context, {}, &reply).error_code();
  };
  EXPECT_EQ(status(), grpc::StatusCode::OK);
  EXPECT_EQ(status(), grpc::StatusCode::OK);
  clock.advance(366 * 24h);
  EXPECT_EQ(status(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(TrustTest, AClientTalksToCoordinatorsOnly) {
  // Somebody listens with an agent's certificate: of the right authority, and no coordinator's.
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back(
      {slurp(certs("agent-127.0.0.1") / "cert.key"), slurp(certs("agent-127.0.0.1") / "cert.crt")});
  AskingService open([](const grpc::ServerContextBase&, std::string_view) { return grpc::Status::OK; });
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port);
  builder.RegisterService(&open);
  const std::unique_ptr<grpc::Server> impostor = builder.BuildAndStart();
  grpc::ChannelArguments arguments;
  expect_coordinator({.certs = certs("user")}, arguments);
  const auto stub = v1::Control::NewStub(grpc::CreateCustomChannel(
      fmt::format("127.0.0.1:{}", port), make_channel_credentials({.certs = certs("user")}), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 20s);
  v1::StatusReply reply;
  EXPECT_EQ(stub->Status(&context, {}, &reply).error_code(), grpc::StatusCode::UNAVAILABLE);
  impostor->Shutdown(std::chrono::system_clock::now());
}

TEST_F(TrustTest, WhoListensNeedsACoordinatorsCertificate) {
  for (const char* holder : {"user", "agent-127.0.0.1"}) {
    const Error error = error_of([&] { make_server_trust({.certs = certs(holder)}, audit_); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.what(), HasSubstr("coordinator's certificate"));
  }
  const auto expired = holder_of(authority(), {CallerRole::kCoordinator, "c", {}}, life(-48h, -24h));
  EXPECT_THAT(error_of([&] { make_server_trust({.certs = expired}, audit_); }).what(), HasSubstr("has expired"));
  EXPECT_THAT(
      error_of([&] { make_server_trust({.certs = certs("coordinator"), .token = folder_ / "t"}, audit_); }).what(),
      HasSubstr("cannot be combined"));
  EXPECT_THAT(error_of([&] { make_server_trust({.token = folder_ / "t"}, audit_); }).what(),
              HasSubstr("--tls-cert, --tls-key and --token"));
}

TEST_F(TrustTest, ATokenOverTlsSaysTheRole) {
  serve_tokens();
  EXPECT_TRUE(call(token_of("tokens/reader.token"), "Status").ok());
  EXPECT_TRUE(call(token_of("tokens/user.token"), "Stop").ok());
  EXPECT_THAT(audit_lines("audit: took"), SizeIs(1));
  EXPECT_EQ(call(token_of("tokens/reader.token"), "Stop").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  expect_one_line("refused Stop by reader by token");
  EXPECT_EQ(slurp(folder_ / "log.txt").find(read_role_tokens(folder_ / "tokens/user.token")[0].token),
            std::string::npos);
}

TEST_F(TrustTest, WithoutATokenNobodyIsLetIn) {
  serve_tokens();
  EXPECT_EQ(call(only_tls(), "Status").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  expect_one_line("no token");
}

TEST_F(TrustTest, AWrongTokenIsRefused) {
  serve_tokens();
  std::string wrong = read_role_tokens(folder_ / "tokens/user.token")[0].token;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_EQ(call(only_tls(), "Status", {wrong}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  expect_one_line("none of the job's");
  const std::string right = read_role_tokens(folder_ / "tokens/user.token")[0].token;
  EXPECT_TRUE(call(only_tls(), "Status", {right}).ok());
  EXPECT_EQ(call(only_tls(), "Status", {wrong, right}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(TrustTest, ATokenOfBeforeIsRefused) {
  create_tokens(folder_ / "before");
  serve_tokens();
  EXPECT_EQ(call(token_of("before/user.token"), "Status").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  expect_one_line("none of the job's");
}

TEST_F(TrustTest, TheCoordinatorsTokensAreForNoClient) {
  create_tokens(folder_ / "tokens");
  EXPECT_THAT(error_of([&] { make_channel_credentials(token_of("tokens/tokens")); }).what(),
              HasSubstr("coordinator's"));
}

TEST_F(TrustTest, PlainTextIsRefused) {
  serve_certificates();
  EXPECT_EQ(call(grpc::InsecureChannelCredentials(), "Status").error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(eventually([&] { return !audit_lines().empty(); }));
  EXPECT_THAT(audit_lines()[0], HasSubstr("not TLS"));
}

// What a stranger says, and what the audit says of it.
struct Stranger {
  std::string bytes;
  std::string line;
};

TEST_F(TrustTest, StrangersAreClosedWithALineEach) {
  serve_certificates();
  const std::string hello("\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03", 10);
  const std::vector<Stranger> strangers{
      {"GET / HTTP/1.1\r\n\r\n", "not TLS"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12), "not TLS"},
      {std::string(100000, 'x'), "not TLS"},
      {hello + "\x02" + std::string(194, 'r'), "older than 1.2"},
      {std::string("\x16\x03\x01\xff\xff\x01\xff\xff\xff\x03\x03", 11), "4 KiB"},
  };
  for (std::size_t i = 0; i < strangers.size(); ++i) {
    const FileDescriptor socket = connect();
    ::send(socket.get(), strangers[i].bytes.data(), strangers[i].bytes.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(is_closed(socket)) << i;
    ASSERT_TRUE(eventually([&] { return audit_lines().size() == i + 1; })) << i;
    EXPECT_THAT(audit_lines()[i], HasSubstr(strangers[i].line));
  }
  EXPECT_TRUE(call({.certs = certs("user")}, "Stop").ok());
  EXPECT_THAT(audit_lines(), SizeIs(strangers.size()));
}

TEST_F(TrustTest, SilenceAndHalfAGreetingAreClosedInTime) {
  serve_certificates({.greeting = 100ms});
  for (const std::size_t bytes : {0UL, 1UL, 11UL}) {
    const FileDescriptor socket = connect();
    ::send(socket.get(), "\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", bytes, MSG_NOSIGNAL);
    EXPECT_TRUE(is_closed(socket)) << bytes;
  }
  ASSERT_TRUE(eventually([&] { return audit_lines().size() == 3; }));
  for (const std::string& line : audit_lines())
    EXPECT_THAT(line, HasSubstr("no greeting of TLS came in time"));
  EXPECT_TRUE(call({.certs = certs("user")}, "Stop").ok());
}

// Past the gate only gRPC's own limit holds, which is 5 s.
TEST_F(TrustTest, AHandshakeThatDoesNotGoOnIsClosed) {
  serve_certificates({.greeting = 5s, .first_call = 200ms});
  const FileDescriptor socket = connect();
  const std::string hello = std::string("\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", 11) + std::string(194, 'r');
  ::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
  expect_one_line("no call came");
  EXPECT_TRUE(is_closed(socket));
  const FileDescriptor half = connect();
  // The beginning of a real one, in a record that is whole: the message goes on in another, which never comes.
  std::string part = std::string("\x16\x03\x01\x00\x26\x01\x00\x00\xc4\x03\x03", 11) + std::string(32, 'r');
  ::send(half.get(), part.data(), part.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(is_closed(half));
  EXPECT_TRUE(call({.certs = certs("user")}, "Stop").ok());
}

TEST_F(TrustTest, AThousandWhoSayNothingKeepNobodyOut) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 4000) GTEST_SKIP() << "this user may not open so many files";
  const rlimit more{std::max<rlim_t>(limit.rlim_cur, 4000), limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &more), 0);
  serve_certificates({.greeting = 1min});
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 1000; ++i)
    silent.push_back(connect());
  EXPECT_TRUE(call({.certs = certs("user")}, "Stop").ok());
  const auto open = [&] {
    return std::ranges::count_if(silent, [](const FileDescriptor& one) {
      pollfd hung{one.get(), POLLRDHUP, 0};
      return ::poll(&hung, 1, 0) == 0;
    });
  };
  EXPECT_TRUE(eventually([&] { return open() <= 256; })) << open();
  for (int i = 0; i < 5000; ++i)
    connect();
  EXPECT_TRUE(call({.certs = certs("user")}, "Stop").ok());
  EXPECT_LE(audit_lines().size(), 60u) << "a flood is no flood of lines";
}

TEST_F(TrustTest, MetadataBeyondFourKilobytesAreRefused) {
  serve_certificates();
  grpc::ChannelArguments arguments;
  expect_coordinator({.certs = certs("user")}, arguments);
  EXPECT_FALSE(
      call(make_channel_credentials({.certs = certs("user")}), "Status", {std::string(5000, 'a')}, arguments).ok());
  EXPECT_TRUE(call({.certs = certs("user")}, "Stop").ok());
}

TEST_F(TrustTest, ALawfulGateRefusesAddressesThatAreNone) {
  const ServerTrust trust = make_server_trust({.certs = certs("coordinator")}, audit_);
  for (const char* address : {"", ":7400", "host:7400", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:x"}) {
    grpc::ServerBuilder builder;
    EXPECT_EQ(error_of([&] { TcpGate(builder, address, trust, audit_); }).kind(), ErrorKind::kInvalidInput) << address;
  }
  serve_certificates();
  grpc::ServerBuilder builder;
  EXPECT_EQ(error_of([&] { TcpGate(builder, gate_->address(), trust, audit_); }).kind(), ErrorKind::kIo);
}

}  // namespace
}  // namespace muster::control
