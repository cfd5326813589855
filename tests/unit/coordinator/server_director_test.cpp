// Parameter servers of several hosts, without processes: what hosts leave in their stores reaches the one who decides,
// and what that one decides reaches every host. Servers are played by the test: it says where they are.
#include "muster/coordinator/server_director.h"

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/control/cluster_values.h"
#include "muster/control/trust_files.h"
#include "muster/coordinator/host_servers.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::coordinator {
namespace {

using muster::testing::eventually;
using muster::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A coordinator's store, and nothing else of it.
class StoreOfAll final : public control::ClusterCalls {
 public:
  control::Welcome join(const control::HostCard&) override { return {}; }
  control::Orders report(const control::HostReport&, std::uint64_t, std::chrono::milliseconds) override { return {}; }
  void store_set(std::uint64_t, std::string_view key, std::string_view value) override {
    require_there();
    values_.set(key, value);
  }
  std::optional<std::string> store_get(std::uint64_t, std::string_view key, std::chrono::milliseconds wait) override {
    require_there();
    return values_.get(key, wait);
  }
  void leave(std::uint64_t, int, const std::string&) override {}

  std::atomic<bool> away{false};

 private:
  void require_there() const {
    if (away) throw Error(ErrorKind::kPeerLost, "away");
  }
  control::ClusterValues values_;
};

class ServerDirectorTest : public ::testing::Test {
 protected:
  struct TestHost {
    TemporaryFolder folder;
    std::unique_ptr<HostServers> servers;
    std::shared_ptr<comm::Store> store;

    std::filesystem::path store_folder() const { return folder / "store"; }
    std::optional<std::string> value(const std::string& key) const {
      try {
        return store->get(key, Deadline::after(std::chrono::nanoseconds(0)));
      } catch (const Error&) {
        return std::nullopt;
      }
    }
    std::optional<control::ServerMap> map(std::uint64_t generation) const {
      const std::optional<std::string> text = value(control::map_key(generation));
      return text ? std::optional(control::ServerMap::from_text(*text)) : std::nullopt;
    }
    // The server that is placed here says where it is.
    void serve(std::uint32_t number, std::uint32_t attempt = 0) const {
      store->set(control::server_key(number, attempt), fmt::format("at-{}-{}", number, attempt));
    }
    bool runs(std::uint32_t number, std::uint32_t attempt) const {
      for (const launch::OwnServer& own : servers->own())
        if (own.number == number && own.first_attempt == attempt) return true;
      return false;
    }
  };

  void direct(std::uint32_t servers, std::size_t hosts, bool encrypted = false) {
    ServerDirectorOptions options;
    options.servers = servers;
    options.hosts = hosts;
    options.encrypted = encrypted;
    options.own = 1;
    options.living = [this] {
      const MutexLock lock(mutex_);
      return living_;
    };
    director_ = std::make_unique<ServerDirector>(calls_, std::move(options));
  }
  TestHost& come(std::uint64_t number) {
    TestHost& host = hosts_[number];
    HostServersOptions options;
    options.address = fmt::format("10.0.0.{}", number);
    options.first = number == 1;
    options.folder = host.folder.path();
    options.number = [number] { return number; };
    host.servers = std::make_unique<HostServers>(calls_, std::move(options));
    host.store = comm::make_file_store(host.store_folder());
    host.servers->see(host.store_folder());
    const MutexLock lock(mutex_);
    control::HostStatus status;
    status.number = number;
    status.name = fmt::format("name-{}", number);
    living_.push_back(status);
    return host;
  }
  void lose(std::uint64_t number) {
    const MutexLock lock(mutex_);
    std::erase_if(living_, [&](const control::HostStatus& host) { return host.number == number; });
  }
  // What the job's first worker leaves on the first host.
  void plan(int copies) {
    comm::Store& store = *hosts_[1].store;
    store.set("plan/0", "the plan");
    store.set(control::kChunksKey, "8");
    store.set(control::kCopiesKey, std::to_string(copies));
    store.set("plan/count", "1");
  }
  // Two hosts, a server on each, and a first map.
  void begin(int copies) {
    direct(2, 2);
    come(1);
    come(2);
    plan(copies);
    ASSERT_TRUE(eventually([&] { return hosts_[1].runs(0, 0) && hosts_[2].runs(1, 0); }));
    hosts_[1].serve(0);
    hosts_[2].serve(1);
    for (const auto& [number, host] : hosts_)
      ASSERT_TRUE(eventually([&] { return host.map(1).has_value(); })) << number;
  }

  StoreOfAll calls_;
  Mutex mutex_;
  std::vector<control::HostStatus> living_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::uint64_t, TestHost> hosts_;
  std::unique_ptr<ServerDirector> director_;  // ends before the hosts
};

TEST_F(ServerDirectorTest, AllHostsHaveThePlanTheMapsAndTheSameSecrets) {
  direct(2, 2, true);
  come(1);
  EXPECT_TRUE(hosts_[1].servers->own().empty());
  come(2);
  ASSERT_TRUE(eventually([&] { return hosts_[1].runs(0, 0) && hosts_[2].runs(1, 0); }));
  plan(2);
  ASSERT_TRUE(eventually([&] { return hosts_[2].value("plan/count").has_value(); }));
  EXPECT_EQ(hosts_[2].value("plan/0"), "the plan");
  hosts_[2].serve(1);
  EXPECT_FALSE(hosts_[1].map(1)) << "all servers are waited for";
  hosts_[1].serve(0);
  ASSERT_TRUE(eventually([&] { return hosts_[1].map(1) && hosts_[2].map(1); }));
  const control::ServerMap map = *hosts_[2].map(1);
  EXPECT_EQ(map.servers, (std::vector<control::ServerSeat>{{"at-0-0", 0, "1"}, {"at-1-0", 0, "2"}}));
  EXPECT_TRUE(eventually([&] { return director_->serving() == 2; }));

  const auto first = control::ServerHost::from_text(*hosts_[1].value(control::kServerHostKey));
  const auto second = control::ServerHost::from_text(*hosts_[2].value(control::kServerHostKey));
  EXPECT_EQ(first.address, "10.0.0.1");
  EXPECT_EQ(second.address, "10.0.0.2");
  EXPECT_EQ(first.token, second.token);
  EXPECT_NE(first.certs, second.certs) << "each on its own disk";
  EXPECT_EQ(control::read_certificate_files(first.certs).certificate,
            control::read_certificate_files(second.certs).certificate);
  EXPECT_EQ(std::filesystem::status(std::filesystem::path(second.certs) / "cert.key").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ServerDirectorTest, AProcessThatEndsIsReplacedByTheNextAttempt) {
  begin(2);
  hosts_[2].store->set(control::server_gone_key(1, 0), "1");
  ASSERT_TRUE(eventually([&] { return hosts_[1].map(2).has_value(); }));
  EXPECT_TRUE(hosts_[1].map(2)->servers[1].address.empty());
  EXPECT_TRUE(hosts_[1].map(2)->lost().empty());
  hosts_[2].serve(1, 1);
  ASSERT_TRUE(eventually([&] { return hosts_[1].map(3).has_value(); }));
  EXPECT_EQ(hosts_[1].map(3)->servers[1], (control::ServerSeat{"at-1-1", 1, "2"}));
  EXPECT_EQ(hosts_[1].map(3)->filling(), std::vector<std::uint32_t>{1});
  hosts_[2].store->set(control::filled_key(3, 1), "1");
  ASSERT_TRUE(eventually([&] { return hosts_[1].map(4).has_value(); }));
  EXPECT_FALSE(hosts_[1].map(4)->unsettled());
  EXPECT_EQ(director_->failure(), "");
}

TEST_F(ServerDirectorTest, ServersOfALostHostAreStartedElsewhereAndANewHostGetsOne) {
  begin(2);
  lose(2);
  ASSERT_TRUE(eventually([&] { return hosts_[1].runs(1, control::kAttemptsOfAPlace); }));
  ASSERT_TRUE(eventually([&] { return hosts_[1].map(2).has_value(); }));
  EXPECT_TRUE(hosts_[1].map(2)->lost().empty()) << "the copies have all of it";
  EXPECT_EQ(hosts_[1].map(2)->primary(0), 0U);
  EXPECT_TRUE(eventually([&] { return !hosts_[2].runs(1, 0); })) << "one that comes back has nothing to do with it";
  hosts_[1].serve(1, control::kAttemptsOfAPlace);
  ASSERT_TRUE(eventually([&] { return hosts_[1].map(3).has_value(); }));
  come(3);
  hosts_[1].store->set(control::filled_key(3, 1), "1");
  ASSERT_TRUE(eventually([&] { return hosts_[1].map(4).has_value(); }));
  // Only now that nothing is missing.
  ASSERT_TRUE(eventually([&] { return hosts_[3].runs(0, 2 * control::kAttemptsOfAPlace); }));
  EXPECT_TRUE(eventually([&] { return !hosts_[1].runs(0, 0); }));
  ASSERT_TRUE(eventually([&] { return hosts_[3].map(5).has_value(); }));
  EXPECT_TRUE(hosts_[3].map(5)->lost().empty());
  EXPECT_EQ(hosts_[3].map(5)->primary(0), 1U);
  EXPECT_EQ(hosts_[3].value("plan/0"), "the plan");
  EXPECT_EQ(director_->failure(), "");
}

TEST_F(ServerDirectorTest, AHostThatAloneHadPartsOfTheModelIsTheEndAndIsNamed) {
  begin(1);
  lose(2);
  ASSERT_TRUE(eventually([&] { return !director_->failure().empty(); }));
  EXPECT_THAT(director_->failure(), AllOf(HasSubstr("alone had parts"), HasSubstr("lost: host name-2 (2)")));
}

TEST_F(ServerDirectorTest, ALossOfAllCopiesIsTheEndAndNamesTheHosts) {
  direct(3, 3);
  for (const std::uint64_t number : {1U, 2U, 3U})
    come(number);
  plan(2);
  ASSERT_TRUE(eventually([&] { return hosts_[3].runs(2, 0); }));
  for (const std::uint32_t server : {0U, 1U, 2U})
    hosts_[server + 1].serve(server);
  ASSERT_TRUE(eventually([&] { return hosts_[1].map(1).has_value(); }));
  {
    const MutexLock lock(mutex_);
    living_.resize(1);
  }
  ASSERT_TRUE(eventually([&] { return !director_->failure().empty(); }));
  EXPECT_THAT(director_->failure(), AllOf(HasSubstr("all copies of"), HasSubstr("host name-2 (2), host name-3 (3)")));
}

TEST_F(ServerDirectorTest, AHostThatGoesBeforeTheJobBeginsIsWaitedForAgain) {
  direct(2, 2);
  come(1);
  come(2);
  ASSERT_TRUE(eventually([&] { return hosts_[2].runs(1, 0); }));
  lose(2);
  plan(2);
  hosts_[1].serve(0);
  come(3);
  ASSERT_TRUE(eventually([&] { return hosts_[3].runs(1, control::kAttemptsOfAPlace); }));
  EXPECT_FALSE(hosts_[1].map(1)) << "copies would be on one host";
  hosts_[3].serve(1, control::kAttemptsOfAPlace);
  ASSERT_TRUE(eventually([&] { return hosts_[1].map(1).has_value(); }));
  EXPECT_EQ(hosts_[1].map(1)->servers[1].host, "3");
}

TEST_F(ServerDirectorTest, ACoordinatorThatIsAwayForAWhileCostsNothing) {
  direct(1, 1);
  come(1);
  ASSERT_TRUE(eventually([&] { return hosts_[1].runs(0, 0); }));
  director_.reset();  // it goes with its coordinator
  calls_.away = true;
  hosts_[1].serve(0);
  EXPECT_TRUE(hosts_[1].runs(0, 0)) << "what it was told counts";
  calls_.away = false;
  EXPECT_TRUE(eventually([&] { return calls_.store_get(1, control::server_key(0, 0), {}).has_value(); }));
}

TEST_F(ServerDirectorTest, AStoreThatIsMadeAnewGetsEverything) {
  begin(2);
  TestHost& second = hosts_[2];
  const std::filesystem::path anew = second.folder / "store-1";
  second.store = comm::make_file_store(anew);
  second.servers->see(anew);
  EXPECT_TRUE(eventually([&] { return second.map(1) && second.value("plan/count"); }));
  EXPECT_TRUE(second.value(control::kServerHostKey));
}

}  // namespace
}  // namespace muster::coordinator
