// Jobs of several hosts that know each other by certificates or tokens, as a user types them, on loopback; and
// strangers at their port: none of them gets in, each leaves a line in the audit, and the job does not mind.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "muster/base/files.h"
#include "muster/base/version.h"
#include "muster/control/certificates.h"
#include "muster/control/cluster_client.h"
#include "support/errors.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::eventually;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::slurp;
using testing::spill;
using testing::train_arguments;

class HostsTrustTest : public ::testing::Test {
 protected:
  HostsTrustTest() {
    spill(folder_ / "job.toml", testing::stateful_job("far", {"parallel.interface=\"lo\""}));
    for (const char* name : {"agent", "desk", "stranger"})
      std::filesystem::create_directory(folder_ / name);
    const Finished alone = run_program(folder_.path(), train_arguments(1, {"job.runs=\"undisturbed\""}));
    EXPECT_EQ(alone.exit_code, 0) << alone.err;
    expected_ = rows(alone.out).back();
    for (const std::vector<std::string>& made :
         {std::vector<std::string>{"certs", "create", "certs", "--host", "127.0.0.1"},
          {"certs", "create", "foreign"},
          {"certs", "tokens", "tokens"},
          {"certs", "tokens", "old-tokens"}})
      EXPECT_EQ(run_program(folder_.path(), made).exit_code, 0);
  }

  // The coordinator waits for a second host.
  Program lead(const std::vector<std::string>& trust) {
    std::vector<std::string> more{"parallel.hosts=2", "--listen=127.0.0.1:0"};
    more.insert(more.end(), trust.begin(), trust.end());
    return Program(folder_.path(), train_arguments(1, more));
  }
  std::string address(const Program& coordinator) {
    std::string found;
    EXPECT_TRUE(eventually([&] {
      const std::string text = coordinator.err();
      const std::size_t place = text.find("--join ");
      if (place == std::string::npos || text.find('\n', place) == std::string::npos) return false;
      found = text.substr(place + 7, text.find('\n', place) - place - 7);
      return true;
    })) << coordinator.err();
    return found;
  }
  std::vector<std::string> agent(const std::string& address, const std::vector<std::string>& trust) {
    std::vector<std::string> arguments{"agent", "--join", address};
    arguments.insert(arguments.end(), trust.begin(), trust.end());
    return arguments;
  }
  // An agent that does not get in.
  Finished stranger(const std::string& address, std::vector<std::string> trust) {
    trust.insert(trust.end(), {"--wait", "0"});
    const Finished end = run_program(folder_ / "stranger", agent(address, trust));
    EXPECT_NE(end.exit_code, 0) << end.out;
    EXPECT_THAT(end.err, Not(HasSubstr("joined"))) << end.err;
    return end;
  }
  // As the coordinator's error output, which people see, has them.
  static std::size_t refusals(const Program& coordinator, const std::string& reason) {
    std::size_t found = 0;
    std::istringstream lines(coordinator.err());
    for (std::string line; std::getline(lines, line);)
      if (line.find("audit: refused") != std::string::npos && line.find(reason) != std::string::npos) ++found;
    return found;
  }
  static void expect_refusal(const Program& coordinator, const std::string& reason) {
    EXPECT_TRUE(eventually([&] { return refusals(coordinator, reason) > 0; })) << reason << "\n" << coordinator.err();
  }
  // A folder for --certs with an agent's certificate that somebody has signed for a time of his own.
  std::string certificate(const std::string& authority, std::chrono::hours begin, std::chrono::hours end) {
    const control::WallTime now = std::chrono::system_clock::now();
    const control::SignedKey own =
        control::make_certificate({slurp(folder_ / authority / "ca.crt"), slurp(folder_ / authority / "ca.key")},
                                  {control::CallerRole::kAgent, "mallory", {}}, {now + begin, now + end});
    const std::filesystem::path folder = folder_ / fmt::format("mallory-{}", ++made_);
    std::filesystem::create_directory(folder);
    spill(folder / "ca.crt", slurp(folder_ / "certs/ca.crt"));
    spill(folder / "cert.crt", own.certificate);
    spill(folder / "cert.key", own.key);
    std::filesystem::permissions(folder / "cert.key", std::filesystem::perms(0600));
    return folder.string();
  }
  // Says it to the port, and reads until the other side closes.
  static void shout(const std::string& address, const std::string& bytes) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) return;
    const timeval limit{30, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    std::array<char, 4096> answer{};
    while (::recv(socket.get(), answer.data(), answer.size(), 0) > 0) {
    }
  }
  static std::uint16_t free_port() {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof place;
    const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), length), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&place), &length), 0);
    return ntohs(place.sin_port);
  }
  std::string file(const std::string& path) const { return (folder_ / path).string(); }
  std::string supervisor_log() const {
    std::string text;
    for (const auto& run : std::filesystem::directory_iterator(folder_ / "runs"))
      text += slurp(run.path() / "log.supervisor.txt");
    return text;
  }

  testing::TemporaryFolder folder_;
  Json expected_;
  int made_ = 0;
};

TEST_F(HostsTrustTest, TwoHostsWithCertificatesGiveTheBitsOfOne) {
  Program coordinator = lead({"--certs=certs/coordinator"});
  Program second(folder_ / "agent", agent(address(coordinator), {"--certs", "../certs/agent-127.0.0.1"}));
  testing::expect_same_end(coordinator.wait(), expected_, "with certificates");
  const Finished end = second.wait();
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_THAT(supervisor_log(),
              AllOf(HasSubstr("audit: took Join by agent 127.0.0.1 from ipv4:127.0.0.1:"),
                    HasSubstr("audit: took Leave by agent 127.0.0.1"), Not(HasSubstr("audit: refused"))));
}

// Its first attempt fails. After that no call waits for a connection any more, and still its handshake has to go on.
TEST_F(HostsTrustTest, AnAgentMayBeStartedFirst) {
  const std::string place = fmt::format("127.0.0.1:{}", free_port());
  Program second(folder_ / "agent", agent(place, {"--certs", "../certs/agent-127.0.0.1", "--wait", "100"}));
  EXPECT_TRUE(eventually([&] { return second.err().find("waiting for the coordinator") != std::string::npos; }))
      << second.err();
  Program coordinator(folder_.path(),
                      train_arguments(1, {"parallel.hosts=2", "--listen=" + place, "--certs=certs/coordinator"}));
  testing::expect_same_end(coordinator.wait(), expected_, "the agent was there first");
  EXPECT_EQ(second.wait().exit_code, 0);
}

TEST_F(HostsTrustTest, TwoHostsWithTlsAndATokenGiveTheBitsOfOne) {
  Program coordinator =
      lead({"--tls-cert=certs/coordinator/cert.crt", "--tls-key=certs/coordinator/cert.key", "--token=tokens/tokens"});
  const std::string place = address(coordinator);
  const auto with_token = [&](const std::string& token) {
    return std::vector<std::string>{"--tls-ca", file("certs/ca.crt"), "--token", file(token)};
  };
  EXPECT_EQ(stranger(place, with_token("old-tokens/agent.token")).exit_code, 2);
  expect_refusal(coordinator, "its token is none of the job's");
  EXPECT_EQ(stranger(place, with_token("tokens/reader.token")).exit_code, 2);
  expect_refusal(coordinator, "Join is not for the role \"reader\"");
  EXPECT_EQ(stranger(place, {"--certs", file("certs/agent-127.0.0.1")}).exit_code, 2);
  expect_refusal(coordinator, "it shows no token");
  EXPECT_THAT(stranger(place, {"--tls-ca", file("certs/ca.crt")}).err, HasSubstr("--token"));
  Program second(folder_ / "agent", agent(place, with_token("tokens/agent.token")));
  const Finished led = coordinator.wait();
  testing::expect_same_end(led, expected_, "with a token");
  EXPECT_EQ(second.wait().exit_code, 0);
  for (const char* role : {"agent", "reader"})
    EXPECT_THAT(
        supervisor_log() + led.err,
        Not(HasSubstr(slurp(folder_ / "tokens" / fmt::format("{}.token", role)).substr(role[0] == 'a' ? 6 : 7, 64))));
}

TEST_F(HostsTrustTest, StrangersAreRefusedWithALineEachAndTheJobDoesNotMind) {
  Program coordinator = lead({"--certs=certs/coordinator"});
  const std::string place = address(coordinator);
  // Their own authority does not know the coordinator: they end it before they have said who they are.
  EXPECT_THAT(stranger(place, {"--certs", file("foreign/agent")}).err, HasSubstr("andshake"));
  expect_refusal(coordinator, "its handshake failed");
  EXPECT_EQ(stranger(place, {"--certs", certificate("foreign", -1h, 24h)}).exit_code, 2);
  expect_refusal(coordinator, "another authority signed");
  EXPECT_THAT(stranger(place, {"--certs", certificate("certs", -48h, -24h)}).err, HasSubstr("has expired"));
  expect_refusal(coordinator, "has expired");
  EXPECT_EQ(stranger(place, {"--certs", certificate("certs", 24h, 48h)}).exit_code, 2);
  expect_refusal(coordinator, "does not count before");
  EXPECT_EQ(stranger(place, {"--certs", file("certs/user")}).exit_code, 2);
  expect_refusal(coordinator, "Join by user user");
  EXPECT_EQ(stranger(place, {"--tls-ca", file("certs/ca.crt"), "--token", file("tokens/agent.token")}).exit_code, 2);
  expect_refusal(coordinator, "it shows no certificate");
  stranger(place, {});  // in plain text
  expect_refusal(coordinator, "not TLS");
  shout(place, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  shout(place, std::string(64, '\xff'));
  EXPECT_TRUE(eventually([&] { return refusals(coordinator, "not TLS") >= 3; })) << coordinator.err();
  {
    control::ClusterClient old({.address = place, .trust = {.certs = file("certs/agent-127.0.0.1")}});
    testing::expect_error(ErrorKind::kMismatch, "0.0.1", [&] {
      old.join({.version = "0.0.1", .name = "old", .most_workers = 1, .cores = 1, .begun = 0});
    });
  }
  expect_refusal(coordinator, "host old has Muster 0.0.1");
  EXPECT_THAT(coordinator.err(), Not(HasSubstr("has come\n"))) << "nobody was let in";
  // While it trains they go on.
  std::atomic<bool> over{false};
  std::jthread noise([&] {
    while (!over)
      shout(place, std::string(1000, 'x'));
  });
  Program second(folder_ / "agent", agent(place, {"--certs", "../certs/agent-127.0.0.1"}));
  const Finished end = coordinator.wait(300s);
  over = true;
  testing::expect_same_end(end, expected_, "with strangers at the port");
  EXPECT_EQ(second.wait().exit_code, 0);
  const std::string log = supervisor_log();
  for (const char* reason : {"its handshake failed", "another authority signed", "has expired", "does not count before",
                             "Join by user user", "it shows no certificate", "not TLS", "host old has Muster 0.0.1"})
    EXPECT_THAT(log, HasSubstr(reason)) << "where an operator looks later";
}

TEST_F(HostsTrustTest, WhatCannotProtectIsRefusedBeforeAnythingStarts) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& words) {
    std::vector<std::string> all{"parallel.hosts=2"};
    all.insert(all.end(), more.begin(), more.end());
    const Finished end = run_program(folder_.path(), train_arguments(1, all));
    EXPECT_EQ(end.exit_code, 2) << words << "\n" << end.err;
    EXPECT_THAT(end.err, HasSubstr(words));
  };
  refused({"--listen=0.0.0.0:0"}, "muster certs create");
  refused({"--listen=0.0.0.0:0", "--certs=certs/coordinator", "--insecure"}, "--insecure");
  refused({"--listen=127.0.0.1:0", "--certs="}, "--certs");
  refused({"--listen=127.0.0.1:0", "--certs=certs/agent-127.0.0.1"}, "coordinator's certificate");
  refused({"--listen=127.0.0.1:0", "--certs=nowhere"}, "nowhere");
  refused({"--listen=127.0.0.1:0", "--token=tokens/tokens"}, "--tls-cert");
  refused({"--listen=127.0.0.1:0", "--certs=certs/coordinator", "--token=tokens/tokens"}, "cannot be combined");
  refused({"--certs=certs/coordinator"}, "--listen");
  std::filesystem::permissions(folder_ / "certs/coordinator/cert.key", std::filesystem::perms(0644));
  refused({"--listen=127.0.0.1:0", "--certs=certs/coordinator"}, "others than its owner may read it");
  const Finished all_tokens =
      run_program(folder_.path(), {"agent", "--join", "10.0.0.1:7400", "--token", "tokens/tokens", "--wait", "0"});
  EXPECT_EQ(all_tokens.exit_code, 2);
  EXPECT_THAT(all_tokens.err, HasSubstr("coordinator's"));
}

}  // namespace
}  // namespace muster
