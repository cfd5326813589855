// Where parameter servers run when hosts come and go, and that what is told of it is read back.
#include "muster/control/server_places.h"
#include "muster/control/job_secrets.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::control {
namespace {

using Hosts = std::vector<std::uint64_t>;

TEST(ServerPlaces, ServersAreDealtOutToAllHosts) {
  struct Row {
    std::uint32_t servers;
    Hosts hosts;
    Hosts expected;
  };
  for (const Row& row :
       {Row{1, {1}, {1}}, Row{3, {1}, {1, 1, 1}}, Row{2, {1, 2}, {1, 2}}, Row{5, {1, 2}, {1, 2, 1, 2, 1}},
        Row{3, {1, 2, 7}, {1, 2, 7}}, Row{2, {1, 2, 3}, {1, 2}}, Row{2, {}, {0, 0}}}) {
    const ServerPlaces places = place_servers(row.servers, row.hosts, {});
    EXPECT_EQ(places.hosts, row.expected) << row.servers << " servers on " << row.hosts.size() << " hosts";
    EXPECT_EQ(places.revision, 1U);
    for (std::uint32_t server = 0; server < row.servers; ++server)
      EXPECT_EQ(places.first_attempt(server), 0U) << "as on one host";
    EXPECT_EQ(place_servers(row.servers, row.hosts, places), places) << "nothing has to move";
  }
}

TEST(ServerPlaces, OnlyServersOfALostHostMove) {
  const ServerPlaces before = place_servers(6, {1, 2, 3}, {});
  const ServerPlaces after = place_servers(6, {1, 3}, before);
  EXPECT_EQ(after.hosts, (Hosts{1, 1, 3, 1, 3, 3}));
  EXPECT_EQ(after.revision, before.revision + 1);
  EXPECT_EQ(after.first_attempt(0), 0U);
  EXPECT_EQ(after.first_attempt(1), kAttemptsOfAPlace) << "no process there has an attempt of one before";
  EXPECT_EQ(after.first_attempt(4), kAttemptsOfAPlace);
  const ServerPlaces alone = place_servers(6, {1}, after);
  EXPECT_EQ(alone.hosts, Hosts(6, 1));
  EXPECT_EQ(alone.first_attempt(1), kAttemptsOfAPlace) << "it has not moved since";
  EXPECT_EQ(alone.first_attempt(2), 2 * kAttemptsOfAPlace);
}

TEST(ServerPlaces, AHostThatComesGetsItsPartOneByOneAndOnlyIfNothingCanBeLost) {
  const ServerPlaces before = place_servers(4, {1}, {});
  EXPECT_EQ(place_servers(4, {1, 5}, before), before);
  const ServerPlaces first = place_servers(4, {1, 5}, before, true);
  EXPECT_EQ(first.hosts, (Hosts{5, 1, 1, 1}));
  EXPECT_EQ(first.first_attempt(0), kAttemptsOfAPlace);
  const ServerPlaces second = place_servers(4, {1, 5}, first, true);
  EXPECT_EQ(second.hosts, (Hosts{5, 5, 1, 1}));
  EXPECT_EQ(place_servers(4, {1, 5}, second, true), second) << "both have as many";
  EXPECT_EQ(place_servers(5, {1, 5}, place_servers(5, {1, 5}, {}), true).revision, 1U) << "one more is no reason";
}

TEST(ServerPlaces, ALostHostGoesBeforeAnEvenLoad) {
  const ServerPlaces before{3, {1, 1, 1, 2}, {1, 1, 1, 2}};
  const ServerPlaces next = place_servers(4, {1, 9}, before, true);
  EXPECT_EQ(next.hosts, (Hosts{1, 1, 1, 9})) << "what others have is not moved while something is missing";
}

TEST(ServerPlaces, TextIsReadBack) {
  const ServerPlaces places{7, {1, 2, 0}, {1, 7, 3}};
  EXPECT_EQ(ServerPlaces::from_text(places.to_text()), places);
  for (const char* wrong : {"", "{}", "[]", R"({"revision":1,"hosts":[1],"revisions":[]})",
                            R"({"revision":-1,"hosts":"a","revisions":[]})"})
    EXPECT_THROW(ServerPlaces::from_text(wrong), Error) << wrong;
  const ServerHost host{"10.0.0.1", "/some/where", "abc"};
  const ServerHost read = ServerHost::from_text(host.to_text());
  EXPECT_EQ(read.address, host.address);
  EXPECT_EQ(read.certs, host.certs);
  EXPECT_EQ(read.token, host.token);
  EXPECT_THROW(ServerHost::from_text("{}"), Error);
  EXPECT_THROW(JobSecrets::from_text("{\"token\":1}"), Error);
}

TEST(JobSecrets, TheirCertificateIsGoodForBothEndsWithinAnHourOfAnyClock) {
  const WallTime now = std::chrono::system_clock::now();
  const JobSecrets secrets = JobSecrets::from_text(make_job_secrets("test", true, now).to_text());
  for (const CertificateUse use : {CertificateUse::kClient, CertificateUse::kServer}) {
    for (const int hours : {-1, 0, 1, 24 * 365}) {
      const CertificateVerdict verdict =
          judge_certificate(secrets.certificate, secrets.authority, now + std::chrono::hours(hours), use);
      EXPECT_TRUE(verdict.identity) << verdict.reason;
    }
  }
  const JobSecrets others = make_job_secrets("test", true, now);
  EXPECT_FALSE(judge_certificate(others.certificate, secrets.authority, now, CertificateUse::kClient).identity)
      << "another job's";
  EXPECT_NE(others.token, secrets.token);
  const JobSecrets plain = make_job_secrets("test", false, now);
  EXPECT_EQ(plain.token.size(), 64U);
  EXPECT_TRUE(plain.key.empty() && plain.certificate.empty() && plain.authority.empty());
}

}  // namespace
}  // namespace muster::control
