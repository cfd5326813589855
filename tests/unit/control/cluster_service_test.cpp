// The wire between agents and coordinator, and between workers and their agent's relay, with a coordinator that is
// played here.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/control/access_token.h"
#include "muster/control/any_coordinator.h"
#include "muster/control/cluster_client.h"
#include "muster/control/cluster_relay.h"
#include "muster/control/cluster_server.h"
#include "muster/control/cluster_store.h"
#include "muster/control/cluster_values.h"
#include "muster/control/take_over_checks.h"
#include "muster/control/trust_files.h"
#include "muster/control/wire.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/fault_proxy.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

using namespace std::chrono_literals;
using testing::expect_error;
using ::testing::HasSubstr;

Deadline in(std::chrono::nanoseconds time) {
  return Deadline::after(time);
}

// Answers what it was told to, and remembers what it was asked.
class PlayedCoordinator final : public ClusterCalls {
 public:
  Welcome join(const HostCard& card) override {
    fail_if_told();
    card_ = card;
    return welcome_;
  }
  Orders report(const HostReport& report, std::uint64_t known, std::chrono::milliseconds wait) override {
    fail_if_told();
    report_ = report;
    known_ = known;
    wait_ = wait;
    return orders_;
  }
  void store_set(std::uint64_t host, std::string_view key, std::string_view value) override {
    fail_if_told();
    host_ = host;
    values_.set(key, value);
  }
  std::optional<std::string> store_get(std::uint64_t host, std::string_view key,
                                       std::chrono::milliseconds wait) override {
    ++gets_;
    fail_if_told();
    host_ = host;
    return values_.get(key, wait);
  }
  void leave(std::uint64_t host, int code, const std::string& reason) override {
    host_ = host;
    code_ = code;
    reason_ = reason;
  }

  JobStatus host_status(std::uint64_t host) override {
    host_ = host;
    JobStatus status;
    status.job = "digits";
    status.coordinator_host = "first";
    status.changes = {{1, "optimizer.lr=0.1", 12}, {2, "optimizer.lr=0.2", std::nullopt}};
    return status;
  }
  WantedState host_scale(std::uint64_t host, const std::string& request, const Scaling& scaling) override {
    host_ = host;
    reason_ = request;
    return {.target_workers = scaling.workers.value_or(-1), .target_servers = scaling.servers.value_or(-1)};
  }
  WantedState host_stop(std::uint64_t host, const std::string& request) override {
    host_ = host;
    reason_ = request;
    return {.stop = true};
  }
  Change host_set(std::uint64_t host, const std::string& request, const std::string& assignment) override {
    fail_if_told();
    host_ = host;
    reason_ = request;
    return {4, assignment, 9};
  }

  void met(const std::string& life) override { met_ = life; }
  std::string met_;
  std::string identity() const override { return identity_; }
  std::string identity_;

  void fail_with(std::optional<Error> error) {
    const MutexLock lock(mutex_);
    failure_ = std::move(error);
  }
  void fail_if_told() {
    const MutexLock lock(mutex_);
    if (failure_) throw Error(*failure_);
  }

  Welcome welcome_;
  Orders orders_;
  HostCard card_;
  HostReport report_;
  std::uint64_t known_ = 0;
  std::chrono::milliseconds wait_{};
  std::atomic<std::uint64_t> host_{0};
  int code_ = 0;
  std::string reason_;
  std::atomic<int> gets_{0};
  ClusterValues values_;
  Mutex mutex_;
  std::optional<Error> failure_ MUSTER_GUARDED_BY(mutex_);
};

class ClusterService : public ::testing::Test {
 protected:
  PlayedCoordinator played_;
  ClusterServer server_{played_, {.address = "127.0.0.1:0"}};
  ClusterClient client_{{.address = server_.address()}};
};

TEST(Life, IsNamedByJobAndTerm) {
  for (const std::uint64_t term : {1, 2, 40})
    EXPECT_EQ(term_of(life_of("job", term, "x"), "job"), term);
  for (const char* life : {"", "jo", "jobs", "job.", "job.2", "job.x.x", "job.2x.x", "other.2.x", "job-2.x"})
    EXPECT_EQ(term_of(life, "job"), 0U) << life;
  EXPECT_EQ(term_of("", ""), 0U);
}

TEST_F(ClusterService, WhoBelongsToAnotherLifeIsRefusedAndSaysWhichOneItIs) {
  played_.identity_ = "job.2";
  client_.tell_of("job.3");
  EXPECT_EQ(played_.met_, "job.3");
  played_.welcome_.cluster = "job";
  played_.welcome_.life = "job.2";
  client_.join({});
  EXPECT_EQ(client_.store_get(1, "key", 0ms), std::nullopt) << "it has joined that one";
}

// With several addresses the one that was reached last is called.
TEST(AnyCoordinatorTest, TurnsToTheNextWhenOneIsAwayOrOvertaken) {
  std::vector<PlayedCoordinator*> played;
  std::vector<std::unique_ptr<ClusterCalls>> all;
  for (int i = 0; i < 3; ++i) {
    auto one = std::make_unique<PlayedCoordinator>();
    one->orders_.workers = i;
    one->welcome_.host = static_cast<std::uint64_t>(i);
    played.push_back(one.get());
    all.push_back(std::move(one));
  }
  AnyCoordinator any(std::move(all));
  const auto answers = [&] { return any.report({}, 0, 0ms).workers; };
  EXPECT_EQ(answers(), 0);
  played[0]->fail_with(Error(ErrorKind::kNotFound, "no host of ours"));
  expect_error(ErrorKind::kNotFound, "", answers);
  expect_error(ErrorKind::kNotFound, "", answers);  // it is there, and says no
  played[0]->fail_with(Error(ErrorKind::kPeerLost, "away"));
  expect_error(ErrorKind::kPeerLost, "", answers);
  EXPECT_EQ(answers(), 1);
  played[1]->fail_with(Error(ErrorKind::kTimeout, "away"));
  expect_error(ErrorKind::kTimeout, "", answers);
  EXPECT_EQ(answers(), 2);
  played[2]->welcome_.term = 5;
  EXPECT_EQ(any.join({}).term, 5U);
  played[2]->fail_with(Error(ErrorKind::kPeerLost, "away"));
  expect_error(ErrorKind::kPeerLost, "", answers);
  played[0]->fail_with(std::nullopt);
  played[0]->welcome_.host = 44;
  EXPECT_EQ(any.join({}).term, 1U) << "one that was overtaken and does not know";
  EXPECT_EQ(played[0]->host_, 44U) << "it hears that nobody stays; the number may be somebody else's with the others";
  EXPECT_EQ(played[0]->code_, 1);
  played[1]->fail_with(std::nullopt);
  played[1]->welcome_.term = 6;
  EXPECT_EQ(any.join({}).term, 6U) << "so the next one is asked";
  EXPECT_EQ(answers(), 1);
}

// Who was replaced, or is ending, says nothing of the one at the next address.
TEST(AnyCoordinatorTest, AsksAllBeforeItIsRefused) {
  for (const ErrorKind kind : {ErrorKind::kNotFound, ErrorKind::kUnsupported}) {
    std::vector<PlayedCoordinator*> played;
    std::vector<std::unique_ptr<ClusterCalls>> all;
    for (std::uint64_t i = 0; i < 2; ++i) {
      auto one = std::make_unique<PlayedCoordinator>();
      one->welcome_.host = i;
      played.push_back(one.get());
      all.push_back(std::move(one));
    }
    AnyCoordinator any(std::move(all));
    played[0]->fail_with(Error(kind, "not here"));
    EXPECT_EQ(any.join({}).host, 1U);
    played[1]->fail_with(Error(ErrorKind::kPeerLost, "away"));
    expect_error(ErrorKind::kPeerLost, "away", [&] { any.report({}, 0, 0ms); });
    expect_error(kind, "not here", [&] { any.join({}); });
    played[1]->fail_with(Error(ErrorKind::kUnsupported, "nor here"));
    expect_error(ErrorKind::kUnsupported, "here", [&] { any.join({}); });
    played[1]->fail_with(std::nullopt);
    EXPECT_EQ(any.join({}).host, 1U);
  }
}

TEST_F(ClusterService, ACoordinatorThatRefusesAnswersAllTheSame) {
  played_.identity_ = "job";
  EXPECT_TRUE(coordinator_answers({server_.address()}, Deadline::after(20s)));
  EXPECT_EQ(played_.met_, "") << "it is told of nobody";
  EXPECT_FALSE(coordinator_answers({"127.0.0.1:1"}, Deadline::after(300ms)));
}

TEST_F(ClusterService, WhoCannotListenHearsOfItBeforehand) {
  expect_error(ErrorKind::kIo, server_.address(), [&] { require_can_listen({server_.address()}); });
  expect_error(ErrorKind::kInvalidInput, "nowhere", [] { require_can_listen({"nowhere"}); });
  EXPECT_THROW(require_can_listen({"127.0.0.1:0", {.certs = "/nowhere"}}), Error);
  require_can_listen({"127.0.0.1:0"});
}

TEST_F(ClusterService, CarriesCommandsOfThePeopleOnAHost) {
  const JobStatus status = client_.host_status(7);
  EXPECT_EQ(played_.host_, 7U);
  EXPECT_EQ(status.job, "digits");
  EXPECT_EQ(status.coordinator_host, "first");
  EXPECT_THAT(status.changes,
              ::testing::ElementsAre(Change{1, "optimizer.lr=0.1", 12}, Change{2, "optimizer.lr=0.2", std::nullopt}));
  const WantedState scaled = client_.host_scale(8, "one", {.workers = 3});
  EXPECT_EQ(played_.host_, 8U);
  EXPECT_EQ(played_.reason_, "one");
  EXPECT_EQ(scaled.target_workers, 3);
  EXPECT_EQ(scaled.target_servers, -1) << "what was not asked for is not set";
  EXPECT_TRUE(client_.host_stop(9, "two").stop);
  EXPECT_EQ(played_.reason_, "two");
  EXPECT_EQ(client_.host_set(9, "three", "optimizer.lr=0.1"), (Change{4, "optimizer.lr=0.1", 9}));
  EXPECT_EQ(played_.reason_, "three");
  played_.fail_with(Error(ErrorKind::kInvalidInput, "no such key", "here", "Use another."));
  expect_error(ErrorKind::kInvalidInput, "no such key", [&] { client_.host_set(9, "four", "x=1"); });
}

TEST_F(ClusterService, CarriesEveryFieldBothWays) {
  played_.welcome_ = {
      7, std::string("job text \0 with a zero", 21), "a program", {"--verify", "0.5"}, "digits", "life", 123ms, 4567ms};
  const HostCard card{"1.2", "b", 4, 8, 99, "life"};
  EXPECT_EQ(client_.join(card), played_.welcome_);
  EXPECT_EQ(played_.card_, card);
  JobGeneration generation{3, 8, {{1, "a", 1, 0, 5}, {7, "b", 6, 5, 8}}};
  played_.orders_ = {11,
                     generation,
                     3,
                     true,
                     true,
                     "it broke",
                     {{7, "optimizer.lr=0.1", std::nullopt}},
                     {{3, "c", "10.0.0.3:9", true, "a plan"}},
                     {{3, "10.0.0.3:8"}, {7, "[fd00::7]:8"}}};
  HostReport report{7, 5, 6, 2, 1000, 12.5, "leaves", true, "10.0.0.7:9", true, "a plan", "copy", 990, "full"};
  report.calls = "10.0.0.7:8";
  report.links = {true, {3, 4}, {5}};
  EXPECT_EQ(client_.report(report, 10, 20ms), played_.orders_);
  EXPECT_EQ(played_.report_, report);
  EXPECT_EQ(played_.known_, 10U);
  EXPECT_EQ(played_.wait_, 20ms);
  played_.orders_ = {};
  EXPECT_EQ(client_.report(report, 0, 0ms), Orders{}) << "what is not known stays so";
  client_.leave(7, 3, "because");
  EXPECT_EQ(played_.code_, 3);
  EXPECT_EQ(played_.reason_, "because");
}

TEST_F(ClusterService, WhoJoinedAnotherLifeOfTheCoordinatorIsRefusedWhateverItsNumber) {
  played_.identity_ = played_.welcome_.cluster = "first";
  client_.join({});
  client_.report({}, 0, 0ms);
  played_.identity_ = "second";
  expect_error(ErrorKind::kNotFound, "not joined", [&] { client_.report({}, 0, 0ms); });
  expect_error(ErrorKind::kNotFound, "not joined", [&] { client_.store_set(0, "a", "b"); });
  played_.welcome_.cluster = "second";
  client_.join({});
  client_.report({}, 0, 0ms);
}

TEST_F(ClusterService, NobodyWaitsForLongerThanTheServerAllows) {
  client_.report({}, 0, 60min);
  EXPECT_EQ(played_.wait_, kLongestWait);
}

TEST_F(ClusterService, ErrorsArriveAsTheyWere) {
  for (const ErrorKind kind : {ErrorKind::kNotFound, ErrorKind::kMismatch, ErrorKind::kResource}) {
    played_.fail_with(Error(kind, "no such host", "there", "Do that."));
    const Error error = testing::error_of([&] { client_.report({}, 0, 0ms); });
    EXPECT_EQ(error.kind(), kind);
    EXPECT_EQ(error.message(), "no such host");
    EXPECT_EQ(error.remedy(), "Do that.");
  }
}

TEST_F(ClusterService, ValuesOfTheStoreAreWrittenOnceAndWaitedFor) {
  client_.store_set(1, "a/b", "one");
  client_.store_set(1, "a/b", "one");
  expect_error(ErrorKind::kMismatch, "already", [&] { client_.store_set(1, "a/b", "two"); });
  EXPECT_EQ(client_.store_get(2, "a/b", 0ms), "one");
  EXPECT_EQ(client_.store_get(2, "c", 0ms), std::nullopt);
  std::jthread later([&] { client_.store_set(1, "c", std::string("\0\xff", 2)); });
  EXPECT_EQ(client_.store_get(2, "c", 1000ms), std::string("\0\xff", 2));
  expect_error(ErrorKind::kInvalidInput, "key", [&] { client_.store_set(1, "no key", ""); });
  client_.store_set(1, "large", std::string(64 * 1024, 'x'));
  EXPECT_THROW(client_.store_set(1, "larger", std::string(64 * 1024 + 1, 'x')), Error);
  EXPECT_THROW(client_.store_set(1, "huge", std::string(1024 * 1024, 'x')), Error) << "refused unread";
  EXPECT_EQ(client_.store_get(2, "a/b", 0ms), "one") << "and others are served after it";
}

TEST_F(ClusterService, ACoordinatorThatIsNotThereIsLostAtOnceAndFoundWhenItComesBack) {
  const std::string address = server_.address();
  PlayedCoordinator played;
  std::optional<ClusterServer> server(std::in_place, played, ClusterListen{.address = "127.0.0.1:0"});
  const std::string place = server->address();
  ClusterClient client({.address = place});
  client.join({});
  server.reset();
  expect_error(ErrorKind::kPeerLost, "", [&] { client.report({}, 0, 0ms); });
  server.emplace(played, ClusterListen{.address = place});
  EXPECT_TRUE(testing::eventually(
      [&] {
        try {
          client.report({}, 0, 0ms);
          return true;
        } catch (const Error&) {
          return false;
        }
      },
      in(20s)));
}

TEST_F(ClusterService, AnAddressThatIsTakenOrIsNoneIsNamed) {
  expect_error(ErrorKind::kIo, server_.address(), [&] { ClusterServer(played_, {.address = server_.address()}); });
  expect_error(ErrorKind::kInvalidInput, "10.0.0.1:7400", [&] { ClusterServer(played_, {.address = "nowhere"}); });
}

TEST_F(ClusterService, WhoIsNotAnAgentOfTheJobsAuthorityIsRefusedAndReachesNobody) {
  const testing::TemporaryFolder folder;
  CertificateTerms terms{.hosts = {"one"}};
  terms.now = std::chrono::system_clock::now();
  create_certificates(folder / "certs", terms);
  create_certificates(folder / "foreign", terms);
  ClusterServer server(played_, {.address = "127.0.0.1:0", .trust = {.certs = folder / "certs/coordinator"}});
  const auto client = [&](const std::string& holder) {
    return ClusterClient({.address = server.address(), .trust = {.certs = folder / holder}});
  };
  for (const char* stranger : {"certs/user", "certs/reader", "foreign/agent-one"})
    EXPECT_THROW(client(stranger).join({.name = "stranger"}), Error) << stranger;
  EXPECT_THROW(ClusterClient({.address = server.address()}).join({.name = "stranger"}), Error) << "no TLS";
  EXPECT_EQ(played_.card_.name, "");
  ClusterClient agent({.address = server.address(), .trust = {.certs = folder / "certs/agent-one"}});
  agent.join({.name = "one"});
  EXPECT_EQ(played_.card_.name, "one");
  agent.report({}, 0, 0ms);
  agent.store_set(0, "a", "b");
  EXPECT_EQ(agent.store_get(0, "a", 0ms), "b");
  agent.leave(0, 0, "");
}

// A coordinator and agents with certificates.
class TrustedCluster : public ::testing::Test {
 protected:
  TrustedCluster() {
    CertificateTerms terms{.hosts = {"one"}};
    terms.now = std::chrono::system_clock::now();
    create_certificates(folder_ / "certs", terms);
  }
  ClusterListen listen(const std::string& address) {
    return {.address = address, .trust = {.certs = folder_ / "certs/coordinator"}, .note = [this](const auto& line) {
              const MutexLock lock(mutex_);
              notes_.push_back(line);
            }};
  }
  ClusterTarget agent_of(const std::string& address) const {
    return {.address = address, .trust = {.certs = folder_ / "certs/agent-one"}};
  }
  // Whether it comes in, when it tries as agents do.
  static bool joins(ClusterClient& client) {
    return testing::eventually(
        [&] {
          try {
            client.join({.name = "one"});
            return true;
          } catch (const Error& error) {
            EXPECT_TRUE(error.retryable()) << error.what();
            return false;
          }
        },
        in(60s));
  }
  static std::uint16_t port_of(const std::string& address) {
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  std::vector<std::string> notes() {
    const MutexLock lock(mutex_);
    return notes_;
  }

  const testing::TemporaryFolder folder_;
  PlayedCoordinator played_;
  Mutex mutex_;
  std::vector<std::string> notes_ MUSTER_GUARDED_BY(mutex_);
};

// A handshake on a link, or between machines, that take their time: longer than a second in all.
TEST_F(TrustedCluster, AHandshakeMayTakeItsTime) {
  const ClusterServer server(played_, listen("127.0.0.1:0"));
  testing::FaultProxy link(port_of(server.address()));
  link.delay(400ms);
  ClusterClient client(agent_of(link.address()));
  EXPECT_TRUE(joins(client));
  EXPECT_THAT(notes(), ::testing::ElementsAre(HasSubstr("took Join by agent one from ipv4:127.0.0.1:")));
}

TEST_F(TrustedCluster, AHandshakeComesThroughWhileManyCallsWait) {
  const ClusterServer server(played_, listen("127.0.0.1:0"));
  ClusterClient busy(agent_of(server.address()));
  std::atomic<bool> over{false};
  std::vector<std::jthread> waiting;
  for (int i = 0; i < 64; ++i)
    waiting.emplace_back([&, i] {
      while (!over) {
        try {
          busy.store_get(1, fmt::format("never/{}", i), kLongestWait);
        } catch (const Error&) {
          // As agents do: again.
        }
      }
    });
  EXPECT_TRUE(testing::eventually([&] { return played_.gets_ >= 64; }));
  ClusterClient late(agent_of(server.address()));
  EXPECT_TRUE(joins(late));
  over = true;
}

TEST_F(TrustedCluster, WhoCallsWithoutTlsIsToldThatTheHandshakeFailed) {
  const ClusterServer server(played_, listen("127.0.0.1:0"));
  ClusterClient plain({.address = server.address()});
  EXPECT_EQ(testing::error_of([&] { plain.join({}); }).kind(), ErrorKind::kPeerLost);
  EXPECT_TRUE(testing::eventually([&] { return !notes().empty(); }));
  EXPECT_THAT(notes(), ::testing::Each(HasSubstr("not TLS")));
  ClusterServer open(played_, {.address = "127.0.0.1:0"});
  ClusterClient trusting(agent_of(open.address()));
  expect_error(ErrorKind::kPeerLost, "andshake", [&] { trusting.join({}); });
}

TEST_F(TrustedCluster, AHostThatMayCallAndCannotJoinIsWrittenDown) {
  const ClusterServer server(played_, listen("127.0.0.1:0"));
  played_.fail_with(Error(ErrorKind::kMismatch, "host one has Muster 0.0.1"));
  ClusterClient client(agent_of(server.address()));
  expect_error(ErrorKind::kMismatch, "0.0.1", [&] { client.join({.name = "one"}); });
  EXPECT_THAT(notes(), ::testing::Contains(::testing::AllOf(HasSubstr("refused Join from ipv4:127.0.0.1:"),
                                                            HasSubstr("has Muster 0.0.1"))));
}

class Relay : public ::testing::Test {
 protected:
  std::shared_ptr<comm::Store> open() const { return open_cluster_store(relay_.address()); }

  const testing::TemporaryFolder folder_;
  PlayedCoordinator played_;
  std::atomic<std::uint64_t> host_{5};
  ClusterRelay relay_{played_, [this] { return host_.load(); }, folder_.path()};
};

TEST(RelayOfAnother, IsMetUnderTheSameNameByWorkersThatHaveOutlivedTheOneBefore) {
  const testing::TemporaryFolder folder;
  PlayedCoordinator played;
  const auto host = [] { return std::uint64_t{5}; };
  std::optional<ClusterRelay> first(std::in_place, played, host, folder.path());
  const std::string address = first->address();
  const auto store = open_cluster_store(address);
  store->set("a", "1");
  first.reset();
  expect_error(ErrorKind::kPeerLost, "", [&] { store->set("b", "2"); });
  expect_error(ErrorKind::kPeerLost, "", [&] { store->get("a", in(1s)); });
  const ClusterRelay second(played, host, address);
  EXPECT_EQ(second.address(), address);
  store->set("b", "2");
  EXPECT_EQ(store->get("a", in(10s)), "1");
  EXPECT_EQ(store->get("b", in(10s)), "2");
  expect_error(ErrorKind::kDamaged, "no address",
               [&] { const ClusterRelay none(played, host, std::string("somewhere")); });
}

TEST_F(Relay, IsAStoreForWorkersUnderTheHostsPresentNumber) {
  const auto one = open();
  const auto other = open();
  one->set("rank/0", "here");
  EXPECT_EQ(played_.host_, 5U);
  EXPECT_EQ(other->get("rank/0", in(10s)), "here");
  expect_error(ErrorKind::kMismatch, "already", [&] { other->set("rank/0", "there"); });
  host_ = 9;
  one->set("rank/1", "here");
  EXPECT_EQ(played_.host_, 9U);
  std::jthread later([&] { one->set("rank/2", "late"); });
  EXPECT_EQ(other->get("rank/2", in(10s)), "late");
  expect_error(ErrorKind::kTimeout, "rank/3", [&] { other->get("rank/3", in(20ms)); });
}

TEST_F(Relay, AsksOnceHoweverOftenWorkersAsk) {
  const auto store = open();
  const auto interruptible = comm::with_interruption(store, [] {});
  expect_error(ErrorKind::kTimeout, "", [&] { interruptible->get("missing", in(500ms)); });
  EXPECT_LE(played_.gets_, 2) << "a hundred looks, one wait at the coordinator";
  store->set("found", "x");
  store->get("found", in(10s));
  const int before = played_.gets_;
  store->get("found", in(10s));
  EXPECT_EQ(played_.gets_, before) << "a value is written once";
}

TEST_F(Relay, AHostThatWasGivenUpHasLostTheOthers) {
  const auto store = open();
  played_.fail_with(Error(ErrorKind::kNotFound, "host 5 is no part of this job any more"));
  expect_error(ErrorKind::kPeerLost, "host 5", [&] { store->set("a", "b"); });
  expect_error(ErrorKind::kPeerLost, "host 5", [&] { store->get("a", in(10s)); });
}

TEST_F(Relay, ACoordinatorThatIsAwayIsWaitedFor) {
  const auto store = open();
  played_.values_.set("a", "b");
  played_.fail_with(Error(ErrorKind::kPeerLost, "away"));
  std::jthread later([&] {
    EXPECT_TRUE(testing::eventually([&] { return played_.gets_ > 2; }));
    played_.fail_with(std::nullopt);
  });
  EXPECT_EQ(store->get("a", in(20s)), "b");
  store->set("c", "d");
}

TEST_F(Relay, IsForTheStoreAndForThoseWithTheToken) {
  const std::string socket = relay_.address().substr(0, relay_.address().find(','));
  const std::string file = relay_.address().substr(relay_.address().find(',') + 1);
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  const testing::TemporaryFolder other;
  make_token(other / "token");
  const auto stranger = open_cluster_store(socket + "," + (other / "token").string());
  expect_error(ErrorKind::kInvalidInput, "token", [&] { stranger->set("a", "b"); });
  EXPECT_EQ(played_.values_.get("a", 0ms), std::nullopt);
}

TEST(ClusterStore, KnowsItsAddresses) {
  const testing::TemporaryFolder folder;
  const auto store = open_cluster_store("file:" + (folder / "store").string());
  store->set("a", "b");
  EXPECT_EQ(comm::make_file_store(folder / "store")->get("a", in(1s)), "b");
  expect_error(ErrorKind::kInvalidInput, "MUSTER_CLUSTER", [] { open_cluster_store("10.0.0.1:7400"); });
  make_token(folder / "token");
  expect_error(ErrorKind::kPeerLost, "agent",
               [&] { open_cluster_store("unix-abstract:muster-nobody," + (folder / "token").string()); });
}

}  // namespace
}  // namespace muster::control
