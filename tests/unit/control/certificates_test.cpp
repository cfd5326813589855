// Certificates: what is made is trusted for exactly what it says. OpenSSL's own program is asked where there is one.
#include "muster/control/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/control/tls_greeting.h"
#include "muster/control/trust_files.h"
#include "support/command.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

using muster::testing::error_of;
using muster::testing::run_command;
using muster::testing::slurp;
using muster::testing::spill;
using muster::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const WallTime kIssued = std::chrono::system_clock::from_time_t(1'800'000'000);
const CertificateLife kDay{kIssued - std::chrono::hours(1), kIssued + std::chrono::hours(24)};

CertificateVerdict judged(const SignedKey& own, const SignedKey& authority, WallTime now = kIssued,
                          CertificateUse use = CertificateUse::kClient) {
  return judge_certificate(own.certificate, authority.certificate, now, use);
}

TEST(Certificates, SayWhoTheyAreFor) {
  const SignedKey authority = make_authority("test", kDay);
  for (const CallerRole role : kCallerRoles) {
    const SignedKey own = make_certificate(authority, {role, "host-1.example", {"10.0.0.1", "fd00::1", "h1"}}, kDay);
    const CertificateFacts facts = read_certificate(own.certificate, "here");
    ASSERT_TRUE(facts.identity);
    EXPECT_EQ(facts.identity->role, role);
    EXPECT_EQ(facts.identity->name, "host-1.example");
    std::vector<std::string> hosts{"10.0.0.1", "fd00::1", "h1"};
    if (role == CallerRole::kCoordinator) hosts.insert(hosts.begin(), kCoordinatorHost);
    EXPECT_EQ(facts.hosts, hosts);
    EXPECT_THROW(make_certificate(authority, {role, "x", {kCoordinatorHost}}, kDay), Error);
    EXPECT_EQ(facts.life.begin, kDay.begin);
    EXPECT_EQ(facts.life.end, kDay.end);
    EXPECT_FALSE(facts.authority);
    EXPECT_EQ(facts.serial.size(), 32u);
    EXPECT_EQ(facts.subject, "CN=host-1.example,O=Muster");
    EXPECT_EQ(facts.issuer, "CN=test,O=Muster");
  }
  EXPECT_TRUE(read_certificate(authority.certificate, "here").authority);
}

TEST(Certificates, AreTrustedWhileTheyCountAndOfTheirAuthorityAlone) {
  const SignedKey authority = make_authority("test", kDay);
  const SignedKey foreign = make_authority("test", kDay);  // of the same name
  const SignedKey own = make_certificate(authority, {CallerRole::kAgent, "a", {}}, kDay);
  EXPECT_TRUE(judged(own, authority).identity);
  EXPECT_TRUE(judged(own, authority, kDay.begin).identity);
  EXPECT_TRUE(judged(own, authority, kDay.end - std::chrono::seconds(1)).identity);
  EXPECT_THAT(judged(own, authority, kDay.end + std::chrono::seconds(1)).reason, HasSubstr("expired on 2027-01-16"));
  EXPECT_THAT(judged(own, authority, kDay.begin - std::chrono::seconds(1)).reason, HasSubstr("does not count before"));
  EXPECT_THAT(judged(own, foreign).reason, HasSubstr("another authority"));
  EXPECT_FALSE(judged(own, foreign).identity);
  // While one authority takes another's place both are trusted.
  EXPECT_TRUE(
      judge_certificate(own.certificate, foreign.certificate + authority.certificate, kIssued, CertificateUse::kClient)
          .identity);
  EXPECT_FALSE(judge_certificate(own.certificate, "", kIssued, CertificateUse::kClient).identity);
}

TEST(Certificates, OnlyACoordinatorsServes) {
  const SignedKey authority = make_authority("test", kDay);
  for (const CallerRole role : kCallerRoles) {
    const SignedKey own = make_certificate(authority, {role, "a", {}}, kDay);
    EXPECT_EQ(judged(own, authority, kIssued, CertificateUse::kServer).identity.has_value(),
              role == CallerRole::kCoordinator);
    EXPECT_TRUE(judged(own, authority).identity);
  }
}

TEST(Certificates, OneThatWasSignedByAHolderIsNotTrusted) {
  const SignedKey authority = make_authority("test", kDay);
  const SignedKey agent = make_certificate(authority, {CallerRole::kAgent, "a", {}}, kDay);
  const SignedKey forged = make_certificate(agent, {CallerRole::kUser, "root", {}}, kDay);
  EXPECT_FALSE(judged(forged, authority).identity);
  EXPECT_FALSE(
      judge_certificate(forged.certificate, authority.certificate + agent.certificate, kIssued, CertificateUse::kClient)
          .identity);
  EXPECT_FALSE(judged(authority, authority).identity) << "an authority is nobody";
}

TEST(Certificates, DamagedOnesAreRefused) {
  const SignedKey authority = make_authority("test", kDay);
  const SignedKey own = make_certificate(authority, {CallerRole::kAgent, "a", {}}, kDay);
  const std::size_t begin = own.certificate.find('\n') + 1;
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string altered = own.certificate;
    const std::size_t place = begin + random() % (altered.size() - begin - 30);
    if (altered[place] == '\n') continue;
    altered[place] = altered[place] == 'A' ? 'B' : 'A';
    if (altered == own.certificate) continue;
    EXPECT_FALSE(judge_certificate(altered, authority.certificate, kIssued, CertificateUse::kClient).identity) << place;
  }
  for (std::size_t size = 0; size < own.certificate.size() - 1; size += 7)
    EXPECT_FALSE(
        judge_certificate(own.certificate.substr(0, size), authority.certificate, kIssued, CertificateUse::kClient)
            .identity);
  EXPECT_EQ(error_of([] { read_certificate("garbage", "x.crt"); }).kind(), ErrorKind::kDamaged);
}

TEST(Certificates, NamesThatCouldSayMoreAreRefused) {
  const SignedKey authority = make_authority("test", kDay);
  for (const std::string& name :
       std::vector<std::string>{"", "a/b", "a,URI:muster://user/x", "a b", "\n", "é", std::string(65, 'a')})
    EXPECT_EQ(error_of([&] {
                make_certificate(authority, {CallerRole::kAgent, name, {}}, kDay);
              }).kind(),
              ErrorKind::kInvalidInput)
        << name;
  for (const std::string host : {"", "h,URI:muster://user/x", "h h", "*.example"})
    EXPECT_EQ(error_of([&] {
                make_certificate(authority, {CallerRole::kAgent, "a", {host}}, kDay);
              }).kind(),
              ErrorKind::kInvalidInput)
        << host;
}

class TrustFiles : public ::testing::Test {
 protected:
  int mode_of(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(::stat((folder_ / name).c_str(), &status), 0) << name;
    return static_cast<int>(status.st_mode & 07777);
  }
  TemporaryFolder folder_;
  const WallTime now_ = std::chrono::system_clock::now();
};

TEST_F(TrustFiles, AreMadeForEveryRoleAndReadBack) {
  const auto made = create_certificates(folder_ / "certs", {.hosts = {"10.0.0.1", "h2"}, .now = now_});
  EXPECT_EQ(made.size(), 6u);
  EXPECT_EQ(mode_of("certs"), 0700);
  EXPECT_EQ(mode_of("certs/ca.key"), 0600);
  for (const std::string holder : {"coordinator", "agent-10.0.0.1", "agent-h2", "user", "reader"}) {
    EXPECT_EQ(mode_of("certs/" + holder), 0700);
    EXPECT_EQ(mode_of("certs/" + holder + "/cert.key"), 0600);
    const CertificateFiles files = read_certificate_files(folder_ / "certs" / holder);
    const CertificateVerdict verdict =
        judge_certificate(files.certificate, files.authorities, now_, CertificateUse::kClient);
    ASSERT_TRUE(verdict.identity) << verdict.reason;
    EXPECT_TRUE(holder.starts_with(to_string(verdict.identity->role)));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "certs" / holder / "ca.key"));
  }
  EXPECT_THAT(folder_.names(), ElementsAre("certs")) << "no draft is left";
}

TEST_F(TrustFiles, AreNotOverwritten) {
  create_certificates(folder_ / "certs", {.hosts = {}, .now = now_});
  const std::string before = slurp(folder_ / "certs/ca.key");
  EXPECT_EQ(error_of([&] { create_certificates(folder_ / "certs", {.hosts = {}, .now = now_}); }).kind(),
            ErrorKind::kInvalidInput);
  EXPECT_EQ(slurp(folder_ / "certs/ca.key"), before);
  spill(folder_ / "file", "mine");
  EXPECT_EQ(error_of([&] { create_certificates(folder_ / "file", {.hosts = {}, .now = now_}); }).kind(),
            ErrorKind::kInvalidInput);
  EXPECT_EQ(slurp(folder_ / "file"), "mine");
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_EQ(create_certificates(folder_ / "empty/", {.hosts = {}, .now = now_}).size(), 5u);
}

TEST_F(TrustFiles, AHostThatCannotBeNamedLeavesNothing) {
  EXPECT_EQ(error_of([&] { create_certificates(folder_ / "certs", {.hosts = {"a,b"}, .now = now_}); }).kind(),
            ErrorKind::kInvalidInput);
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(TrustFiles, OneMoreIsAddedByTheSameAuthority) {
  create_certificates(folder_ / "certs", {.hosts = {}, .now = now_});
  const MadeFiles made = add_certificate(folder_ / "certs", CallerRole::kUser, "alice", {.hosts = {}, .now = now_});
  EXPECT_EQ(made.path, folder_ / "certs/user-alice");
  EXPECT_EQ(mode_of("certs/user-alice"), 0700);
  const CertificateFiles alice = read_certificate_files(made.path);
  const CertificateFiles other = read_certificate_files(folder_ / "certs/coordinator");
  const auto verdict = judge_certificate(alice.certificate, other.authorities, now_, CertificateUse::kClient);
  ASSERT_TRUE(verdict.identity);
  EXPECT_EQ(verdict.identity->name, "alice");
  EXPECT_EQ(error_of([&] {
              add_certificate(folder_ / "certs", CallerRole::kUser, "alice", {.hosts = {}, .now = now_});
            }).kind(),
            ErrorKind::kInvalidInput);
}

TEST_F(TrustFiles, AKeyOrATokenThatOthersMayReadIsRefused) {
  create_certificates(folder_ / "certs", {.hosts = {}, .now = now_});
  create_tokens(folder_ / "tokens");
  std::filesystem::permissions(folder_ / "certs/user/cert.key", std::filesystem::perms(0640));
  std::filesystem::permissions(folder_ / "tokens/user.token", std::filesystem::perms(0604));
  const Error key = error_of([&] { read_certificate_files(folder_ / "certs/user"); });
  EXPECT_EQ(key.kind(), ErrorKind::kInvalidInput);
  EXPECT_THAT(key.what(), HasSubstr("chmod 600"));
  EXPECT_EQ(error_of([&] { read_role_tokens(folder_ / "tokens/user.token"); }).kind(), ErrorKind::kInvalidInput);
}

TEST_F(TrustFiles, TokensHaveARoleEach) {
  EXPECT_EQ(create_tokens(folder_ / "t").size(), 4u);
  const std::vector<RoleToken> all = read_role_tokens(folder_ / "t/tokens");
  ASSERT_EQ(all.size(), 3u);
  for (const RoleToken& one : all) {
    EXPECT_EQ(mode_of(fmt::format("t/{}.token", to_string(one.role))), 0600);
    const auto own = read_role_tokens(folder_ / "t" / fmt::format("{}.token", to_string(one.role)));
    ASSERT_EQ(own.size(), 1u);
    EXPECT_EQ(own[0].token, one.token);
    EXPECT_EQ(own[0].role, one.role);
  }
  for (const char* text :
       {"", "user\n", "user abc\n", "root 0000000000000000000000000000000000000000000000000000000000000000\n"}) {
    std::filesystem::remove(folder_ / "bad");
    spill(folder_ / "bad", text);
    std::filesystem::permissions(folder_ / "bad", std::filesystem::perms(0600));
    EXPECT_EQ(error_of([&] { read_role_tokens(folder_ / "bad"); }).kind(), ErrorKind::kDamaged) << text;
  }
}

TEST_F(TrustFiles, OpenSslAgrees) {
  if (run_command({"openssl", "version"}).exit_code != 0) GTEST_SKIP() << "OpenSSL's program is not installed";
  create_certificates(folder_ / "c", {.hosts = {"10.0.0.1"}, .now = now_});
  const auto verify = [&](const std::string& purpose, const std::string& holder) {
    return run_command({"openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile",
                        (folder_ / "c/ca.crt").string(), (folder_ / "c" / holder / "cert.crt").string()})
        .exit_code;
  };
  EXPECT_EQ(verify("sslserver", "coordinator"), 0);
  EXPECT_EQ(verify("sslclient", "agent-10.0.0.1"), 0);
  EXPECT_NE(verify("sslserver", "agent-10.0.0.1"), 0);
  const std::string text =
      run_command({"openssl", "x509", "-noout", "-text", "-in", (folder_ / "c/coordinator/cert.crt").string()}).out;
  EXPECT_THAT(text, HasSubstr("URI:muster://coordinator/coordinator, DNS:coordinator.muster, IP Address:10.0.0.1"));
  EXPECT_THAT(text, HasSubstr("ecdsa-with-SHA256"));
  EXPECT_THAT(text, HasSubstr("NIST CURVE: P-256"));
}

std::vector<std::byte> greeting_of(std::initializer_list<int> head, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::size_t i = 0;
  for (const int value : head)
    bytes[i++] = static_cast<std::byte>(value);
  return bytes;
}

TEST(TlsGreeting, IsLetInWhenItIsWhole) {
  const std::vector<std::byte> hello = greeting_of({22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3}, 205);
  for (std::size_t size = 0; size < hello.size(); ++size) {
    const TlsGreeting greeting = examine_greeting(std::span(hello).first(size));
    EXPECT_EQ(greeting.refusal, "") << size;
    EXPECT_EQ(greeting.missing, size < 11 ? 11 - size : hello.size() - size) << size;
  }
  EXPECT_EQ(examine_greeting(hello).missing, 0u);
  EXPECT_EQ(examine_greeting(hello).refusal, "");
}

TEST(TlsGreeting, AnythingElseIsRefused) {
  const auto refusal = [](std::initializer_list<int> head) { return examine_greeting(greeting_of(head, 300)).refusal; };
  EXPECT_THAT(refusal({'G', 'E', 'T', ' '}), HasSubstr("not TLS"));
  EXPECT_THAT(refusal({22, 2, 1, 0, 200, 1, 0, 0, 196, 3, 3}), HasSubstr("not TLS"));
  EXPECT_THAT(refusal({22, 3, 1, 0, 200, 2, 0, 0, 196, 3, 3}), HasSubstr("no greeting"));
  EXPECT_THAT(refusal({22, 3, 1, 0, 5, 1, 0, 0, 196, 3, 3}), HasSubstr("no greeting"));
  EXPECT_THAT(refusal({22, 3, 1, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 3, 3}), HasSubstr("4 KiB"));
  EXPECT_THAT(refusal({22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 2}), HasSubstr("older than 1.2"));
  EXPECT_EQ(refusal({22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 4}), "");
}

}  // namespace
}  // namespace muster::control
