// The store on a real etcd: what every store has to do (store_contract.h), sessions, and what etcd alone can do to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>

#include "muster/control/certificates.h"
#include "muster/control/etcd_options.h"
#include "muster/control/job_record.h"
#include "muster/control/trust_files.h"
#include "support/etcd.h"
#include "unit/control/store_contract.h"

namespace muster::control {
namespace {

using muster::testing::error_of;
using muster::testing::etcd_installed;
using muster::testing::EtcdCluster;
using muster::testing::eventually;
using muster::testing::expect_error;
using muster::testing::spill;
using muster::testing::TemporaryFolder;
using ::testing::HasSubstr;

// One etcd for all cases that do it no harm; each has a prefix of its own.
const EtcdCluster& shared_etcd() {
  static const EtcdCluster etcd;
  return etcd;
}

std::string new_prefix() {
  static int prefixes = 0;
  return "test" + std::to_string(++prefixes);
}

class EtcdRoom final : public StoreRoom {
 public:
  EtcdRoom() : address_(shared_etcd().url(new_prefix())) {}
  std::unique_ptr<Store> open() const override {
    EtcdOptions options = parse_etcd_url(address_);
    options.timeout = std::chrono::seconds(60);
    return make_etcd_store(options);
  }
  std::string address() const override { return address_; }

 private:
  const std::string address_;
};

INSTANTIATE_TEST_SUITE_P(Etcd, StoreContract, ::testing::Values(RoomMaker{[]() -> std::unique_ptr<StoreRoom> {
                           return etcd_installed() ? std::make_unique<EtcdRoom>() : nullptr;
                         }}));

class EtcdStore : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!etcd_installed()) GTEST_SKIP() << "etcd-server is not installed";
  }
  static EtcdOptions options_for(const EtcdCluster& etcd, const std::string& prefix = "muster") {
    EtcdOptions options = parse_etcd_url(etcd.url(prefix));
    options.timeout = std::chrono::seconds(60);
    options.lease = std::chrono::seconds(2);
    return options;
  }
};

TEST_F(EtcdStore, PrefixesDoNotSeeEachOther) {
  const auto a = make_etcd_store(parse_etcd_url(shared_etcd().url("a")));
  const auto ab = make_etcd_store(parse_etcd_url(shared_etcd().url("ab")));
  a->put("key", "1");
  EXPECT_EQ(ab->get("key"), std::nullopt);
  EXPECT_TRUE(ab->list("").empty());
  EXPECT_EQ(a->list("").size(), 1u) << "marks of stores are not entries";
}

TEST_F(EtcdStore, WhatIsOfASessionGoesWithIt) {
  const EtcdOptions options = options_for(shared_etcd(), new_prefix());
  const auto reader = make_etcd_store(options);
  {
    const auto store = make_etcd_store(options);
    ASSERT_TRUE(store->has_sessions());
    EXPECT_EQ(store->session_left().count(), 0);
    store->commit({.writes = {{"mine", "x", true}, {"ours", "y"}}});
    EXPECT_GT(store->session_left().count(), 0);
    EXPECT_LE(store->session_left(), options.lease);
    // It is prolonged: after twice its length it is there still.
    const Deadline twice = Deadline::after(2 * options.lease);
    EXPECT_FALSE(eventually([&] { return !reader->get("mine").has_value(); }, twice));
  }
  EXPECT_EQ(reader->get("mine"), std::nullopt) << "given back at once";
  EXPECT_EQ(reader->get("ours")->value, "y");
}

TEST_F(EtcdStore, ASessionWhoseProcessIsKilledEndsByItself) {
  EtcdOptions options = options_for(shared_etcd(), new_prefix());
  const auto reader = make_etcd_store(options);
  testing::Command holder({STORE_PROCESS, "hold", url_of(options)});
  ASSERT_TRUE(eventually([&] { return reader->get("mine").has_value(); }));
  ::kill(holder.pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !reader->get("mine").has_value(); }));
}

// A session whose process stood still knows that it may be gone before anybody else can have taken its place.
TEST_F(EtcdStore, ASessionThatEtcdHasEndedIsMadeAnewAndItsEntriesAreGone) {
  const EtcdOptions options = options_for(shared_etcd(), new_prefix());
  const auto store = make_etcd_store(options);
  store->commit({.writes = {{"mine", "x", true}}});
  const testing::CommandResult leases = shared_etcd().control({"lease", "list", "--write-out", "simple"});
  std::istringstream lines(leases.out);
  for (std::string line; std::getline(lines, line);)
    if (line.size() >= 12 && line.find_first_not_of("0123456789abcdef") == std::string::npos)
      shared_etcd().control({"lease", "revoke", line});
  ASSERT_EQ(store->get("mine"), std::nullopt);
  EXPECT_TRUE(eventually([&] { return store->session_left().count() == 0; }));
  store->commit({.writes = {{"mine", "y", true}}});
  EXPECT_EQ(store->get("mine")->value, "y");
  EXPECT_GT(store->session_left().count(), 0);
}

// It goes on to prolong leases for a second or two: its word alone says nothing about who else may have been elected.
TEST_F(EtcdStore, ALeaderThatHearsNobodyProlongsNoSession) {
  const EtcdCluster etcd(3);
  ASSERT_TRUE(eventually([&] { return etcd.leader() >= 0; }));
  EtcdOptions options = options_for(etcd, new_prefix());
  options.lease = std::chrono::seconds(10);
  const int leader = etcd.leader();
  options.members = {etcd.address(leader)};
  const auto store = make_etcd_store(options);
  store->commit({.writes = {{"mine", "x", true}}});
  ASSERT_EQ(etcd.leader(), leader) << "another one leads by now";
  for (int member = 0; member < etcd.size(); ++member)
    if (member != leader) ::kill(etcd.pid(member), SIGSTOP);
  // One that was on its way may still count.
  std::chrono::nanoseconds left = store->session_left();
  int longer = 0;
  const Deadline while_it_leads = Deadline::after(std::chrono::seconds(3));
  EXPECT_FALSE(eventually(
      [&] {
        const std::chrono::nanoseconds now = store->session_left();
        if (now > left) ++longer;
        left = now;
        return longer > 1;
      },
      while_it_leads));
  for (int member = 0; member < etcd.size(); ++member)
    if (member != leader) ::kill(etcd.pid(member), SIGCONT);
  EXPECT_TRUE(eventually([&] { return store->session_left() > left; })) << "its quorum is back";
}

TEST_F(EtcdStore, GoesOnAfterACompaction) {
  const EtcdOptions options = options_for(shared_etcd(), new_prefix());
  const auto store = make_etcd_store(options);
  std::uint64_t last = 0;
  for (int i = 0; i < 20; ++i)
    last = store->put("key", std::to_string(i));
  ASSERT_EQ(shared_etcd().control({"compact", std::to_string(last)}).exit_code, 0);
  EXPECT_EQ(store->get("key")->value, "19");
  EXPECT_EQ(store->get("key")->revision, last);
  EXPECT_TRUE(store->compare_and_put("key", last, "20"));
  EXPECT_EQ(store->list("").size(), 1u);
}

TEST_F(EtcdStore, SaysWhenNobodyAnswers) {
  EtcdOptions options = parse_etcd_url(fmt::format("etcd://127.0.0.1:{}", testing::free_port()));
  options.timeout = std::chrono::milliseconds(300);
  const auto store = make_etcd_store(options);
  expect_error(ErrorKind::kTimeout, "etcd does not answer", [&] { store->get("key"); });
  expect_error(ErrorKind::kTimeout, "etcd does not answer", [&] { store->put("key", "x"); });
}

TEST_F(EtcdStore, AFullEtcdRefusesAndGoesOnOnceThereIsRoom) {
  const EtcdCluster etcd(1, {"--quota-backend-bytes", "2000000"});
  const auto store = make_etcd_store(options_for(etcd));
  store->put("key", "old");
  std::optional<Error> full;
  for (int i = 0; i < 100 && !full; ++i) {
    try {
      store->put("big", std::string(500'000, 'x'));
    } catch (const Error& error) {
      full = error;
    }
  }
  ASSERT_TRUE(full);
  EXPECT_EQ(full->kind(), ErrorKind::kResource) << full->what();
  EXPECT_THAT(full->what(), HasSubstr("space exceeded"));
  EXPECT_EQ(store->get("key")->value, "old");
  EXPECT_GT(store->session_left().count(), 0) << "the session is kept";
  // As docs/operations.md says.
  ASSERT_EQ(etcd.control({"compact", std::to_string(store->revision())}).exit_code, 0);
  ASSERT_EQ(etcd.control({"defrag"}).exit_code, 0);
  ASSERT_EQ(etcd.control({"alarm", "disarm"}).exit_code, 0);
  EXPECT_TRUE(eventually([&] {
    try {
      return store->put("key", "new") > 0;
    } catch (const Error&) {
      return false;
    }
  }));
}

TEST_F(EtcdStore, UserAndPasswordAreAskedFor) {
  const EtcdCluster etcd;
  ASSERT_TRUE(eventually([&] { return etcd.control({"user", "add", "root:secret"}).exit_code == 0; }));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"user", "add", "trainer:pass word"},
        {"role", "add", "muster"},
        {"role", "grant-permission", "muster", "--prefix=true", "readwrite", "muster"},
        {"user", "grant-role", "trainer", "muster"},
        {"auth", "enable"}})
    ASSERT_EQ(etcd.control(words).exit_code, 0) << words.front();
  const TemporaryFolder folder;
  spill(folder / "password", "pass word\n");
  EtcdOptions options = options_for(etcd);
  EXPECT_EQ(error_of([&] { make_etcd_store(options)->get("key"); }).kind(), ErrorKind::kInvalidInput);
  options.user = "trainer";
  expect_error(ErrorKind::kInvalidInput, "needs a password", [&] { make_etcd_store(options); });
  options.password = folder / "password";
  expect_error(ErrorKind::kInvalidInput, "others than its owner", [&] { make_etcd_store(options); });
  ASSERT_EQ(::chmod(options.password.c_str(), 0600), 0);
  const auto store = make_etcd_store(options);
  store->put("key", "value");
  EXPECT_EQ(store->get("key")->value, "value");
  EtcdOptions elsewhere = options;
  elsewhere.prefix = "other";
  EXPECT_EQ(error_of([&] { make_etcd_store(elsewhere)->get("key"); }).kind(), ErrorKind::kInvalidInput);
  spill(folder / "password", "wrong");
  expect_error(ErrorKind::kInvalidInput, "invalid user ID or password", [&] { make_etcd_store(options)->get("key"); });
}

TEST_F(EtcdStore, CertificatesOnBothSides) {
  const TemporaryFolder folder;
  // openssl makes them: a member's certificate names its address, which ours do not.
  const std::string at = folder.path().string() + "/";
  const auto openssl = [&](const std::string& command) {
    ASSERT_EQ(testing::run_command({"sh", "-c", "cd " + at + " && openssl " + command}).exit_code, 0) << command;
  };
  for (const std::string name : {"ca", "other"})
    openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" + name + " -keyout " +
            name + ".key -out " + name + ".crt");
  spill(folder / "extensions", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n");
  for (const std::string name : {"member", "client"}) {
    openssl("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name + " -keyout " + name +
            ".key -out " + name + ".csr");
    openssl("x509 -req -days 2 -in " + name +
            ".csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile extensions -out " + name + ".crt");
  }
  const EtcdCluster etcd(1,
                         {"--cert-file", at + "member.crt", "--key-file", at + "member.key", "--client-cert-auth",
                          "--trusted-ca-file", at + "ca.crt"},
                         /*tls=*/true);
  EtcdOptions options = options_for(etcd);
  options.authority = at + "ca.crt";
  options.certificate = at + "client.crt";
  expect_error(ErrorKind::kInvalidInput, "needs its key", [&] { make_etcd_store(options); });
  options.key = at + "client.key";
  const auto store = make_etcd_store(options);
  store->put("key", "value");
  EXPECT_EQ(store->get("key")->value, "value");
  for (const auto& spoil : std::vector<std::function<void(EtcdOptions&)>>{
           [](EtcdOptions& wrong) { wrong.certificate = wrong.key = ""; },
           [&](EtcdOptions& wrong) { wrong.authority = at + "other.crt"; },
           [](EtcdOptions& wrong) { wrong.authority = wrong.certificate = wrong.key = ""; }}) {
    EtcdOptions wrong = options;
    spoil(wrong);
    wrong.timeout = std::chrono::milliseconds(1500);
    EXPECT_EQ(error_of([&] { make_etcd_store(wrong)->get("key"); }).kind(), ErrorKind::kTimeout);
  }
}

TEST(EtcdOptions, AreReadAndWritten) {
  const EtcdOptions two = parse_etcd_url("etcd://a:1,[fd00::1]:2379/teams/x/");
  EXPECT_EQ(two.members, (std::vector<std::string>{"a:1", "[fd00::1]:2379"}));
  EXPECT_EQ(two.prefix, "teams/x");
  EXPECT_EQ(url_of(two), "etcd://a:1,[fd00::1]:2379/teams/x");
  EXPECT_EQ(parse_etcd_url("etcd://a:1").prefix, "muster");
  EtcdOptions all = two;
  all.authority = "/ca";
  all.certificate = "/crt";
  all.key = "/key";
  all.user = "u";
  all.password = "/p";
  all.lease = std::chrono::seconds(9);
  EXPECT_EQ(etcd_from(to_json(all), "here"), all);
  for (const char* wrong : {"", "etcd:/a:1", "http://a:1", "etcd://", "etcd://a", "etcd://a:", "etcd://:1",
                            "etcd://a:x", "etcd://a:1,", "etcd://a:1,,b:2", "etcd://user:word@a:1", "etcd://a:123456"})
    EXPECT_EQ(error_of([&] { parse_etcd_url(wrong); }).kind(), ErrorKind::kInvalidInput) << wrong;
}

}  // namespace
}  // namespace muster::control
