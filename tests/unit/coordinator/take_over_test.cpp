// Coordinators that follow each other: what of the one before counts with the next, whom agents follow, and what they
// bring along. Coordinators and agents are all in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "muster/base/error.h"
#include "muster/base/version.h"
#include "muster/comm/store.h"
#include "muster/control/any_coordinator.h"
#include "muster/control/cluster_server.h"
#include "muster/control/cluster_store.h"
#include "muster/control/job_generation.h"
#include "muster/coordinator/cluster.h"
#include "muster/coordinator/heralds.h"
#include "muster/coordinator/host_reporter.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::coordinator {
namespace {

using namespace std::chrono_literals;
using control::HostCard;
using control::HostReport;
using control::Orders;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// The way to a coordinator, which can be cut and can lead to another one.
class Way final : public control::ClusterCalls {
 public:
  explicit Way(Cluster* cluster) : cluster_(cluster) {}
  // How often somebody has asked to be let in, and how many reports were answered.
  int joins() const { return joins_; }
  int answers() const { return answers_; }
  // Null: nobody answers.
  void lead_to(Cluster* cluster) {
    const MutexLock lock(mutex_);
    cluster_ = cluster;
  }

  control::Welcome join(const HostCard& card) override {
    ++joins_;
    return there().join(card);
  }
  Orders report(const HostReport& report, std::uint64_t known, std::chrono::milliseconds wait) override {
    Orders orders = there().report(report, known, wait);
    ++answers_;
    return orders;
  }
  void store_set(std::uint64_t host, std::string_view key, std::string_view value) override {
    there().store_set(host, key, value);
  }
  std::optional<std::string> store_get(std::uint64_t host, std::string_view key,
                                       std::chrono::milliseconds wait) override {
    return there().store_get(host, key, wait);
  }
  void leave(std::uint64_t host, int code, const std::string& reason) override { there().leave(host, code, reason); }

 private:
  Cluster& there() {
    const MutexLock lock(mutex_);
    if (cluster_ == nullptr) throw Error(ErrorKind::kPeerLost, "nobody answers");
    return *cluster_;
  }
  std::atomic<int> joins_ = 0;
  std::atomic<int> answers_ = 0;
  Mutex mutex_;
  Cluster* cluster_ MUSTER_GUARDED_BY(mutex_);
};

class TakeOver : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TMPDIR"); }

  ClusterOptions options(std::uint64_t term, std::size_t least = 1) {
    ClusterOptions options{.least = least, .most = 3, .lanes = 8};
    options.welcome.cluster = "job";
    options.welcome.term = term;
    return options;
  }
  HostReporterOptions called(const std::string& name) {
    HostReporterOptions options;
    options.card = {.version = version(), .name = name};
    return options;
  }
  static HostCard card(const std::string& name, std::uint64_t begun = 0, const std::string& cluster = "") {
    return {.version = version(), .name = name, .begun = begun, .cluster = cluster};
  }
  // Once it has looked, and done what it had to do.
  static void look(const Cluster& cluster) {
    const std::uint64_t before = cluster.looks();
    ASSERT_TRUE(testing::eventually([&] { return cluster.looks() > before; }));
  }
  Orders report(Cluster& cluster, std::uint64_t host) {
    return cluster.report({.host = host, .sequence = ++sequence_, .wanted = 1}, 0, 0ms);
  }

  const testing::TemporaryFolder temporary_;
  FakeClock clock_;
  std::uint64_t sequence_ = 0;
};

TEST_F(TakeOver, AnAgentOfAnotherLifeIsRefusedAndTheJobWaitsForItsHostsAllTheSame) {
  Cluster anew(options(1, /*least=*/2), clock_);
  const std::uint64_t first = anew.join(card("a")).host;
  expect_error(ErrorKind::kMismatch, "started anew", [&] { anew.join(card("b", 7, "the life before")); });
  EXPECT_THAT(anew.hosts(), SizeIs(1));
  report(anew, first);
  look(anew);
  EXPECT_EQ(anew.generation().number, 0U);
  const std::uint64_t second = anew.join(card("b")).host;
  report(anew, second);
  EXPECT_TRUE(testing::eventually([&] { return anew.generation().number == 1; }));
}

TEST_F(TakeOver, ABrokenConnectionIsThatOfTheGenerationThatWasOrderedWhateverNumberSomebodyComesWith) {
  Cluster second(options(2), clock_);
  const std::uint64_t a = second.join(card("a", 7, "job")).host;
  second.expect({7, 8, {{1, "a", 1, 0, 8}}});
  report(second, a);
  ASSERT_TRUE(testing::eventually([&] { return second.generation().number == 8; }));
  // Another one was further when the coordinator before was lost; its workers are not ready.
  const std::uint64_t b = second.join(card("b", 9, "job")).host;
  second.store_set(a, control::broken_key(8), "rank 0 lost rank 1");
  ASSERT_TRUE(testing::eventually([&] {
    clock_.advance(100ms);
    report(second, a);
    second.report({.host = b, .sequence = ++sequence_}, 0, 0ms);
    return second.generation().number == 10;
  }));
}

TEST_F(TakeOver, WhoTakesOverWaitsForTheHostsThatWereThereAndGoesOnAboveTheirGeneration) {
  Cluster third(options(3), clock_);
  EXPECT_THAT(third.identity(), ::testing::StartsWith("job.3."));
  EXPECT_EQ(third.join(card("b", 41, "job")).host, 200'001U);
  third.report({.host = 200'001, .sequence = 1, .wanted = 1}, 0, 0ms);
  const std::uint64_t own = third.join(card("a", 0, "job")).host;
  third.expect({42, 8, {{1, "a", 1, 0, 4}, {2, "b", 1, 4, 6}, {3, "c", 1, 6, 8}}});
  third.report({.host = own, .sequence = 1, .wanted = 1}, 0, 0ms);
  look(third);
  EXPECT_TRUE(third.generation().hosts.empty());
  // The third does not come back.
  ASSERT_TRUE(testing::eventually([&] {
    clock_.advance(400ms);
    for (const std::uint64_t host : {std::uint64_t{200'001}, own})
      third.report({.host = host, .sequence = ++sequence_ + 1, .wanted = 1}, 0, 0ms);
    return !third.generation().hosts.empty();
  }));
  EXPECT_EQ(third.generation().number, 43U);
  EXPECT_THAT(third.generation().hosts, SizeIs(2));
  // All come back.
  Cluster fourth(options(3), clock_);
  fourth.expect({42, 8, {{1, "a", 1, 0, 4}, {2, "b", 1, 4, 8}}});
  for (const char* name : {"a", "b"}) {
    const std::uint64_t host = fourth.join(card(name, 42, "job")).host;
    fourth.report({.host = host, .sequence = 1, .wanted = 1}, 0, 0ms);
  }
  EXPECT_TRUE(testing::eventually([&] { return fourth.generation().hosts.size() == 2; }));
}

TEST_F(TakeOver, HeraldsTellACoordinatorThatWasReplaced) {
  Cluster first(options(1));
  const control::ClusterServer server(first, {.address = "127.0.0.1:0"});
  const Heralds heralds({{.address = "127.0.0.1:1"}, {.address = server.address()}},
                        control::life_of(first.job_identity(), 4, "x"));
  EXPECT_TRUE(testing::eventually([&] { return first.superseded() == 4; }));
}

TEST_F(TakeOver, WhatWorkersHaveAgreedOnIsComparedByTheNextCoordinatorToo) {
  ClusterOptions options = this->options(2);
  options.agreed = {{"agreement/files", "of the hosts that train"}};
  Cluster second(options, clock_);
  const std::uint64_t newcomer = second.join(card("d")).host;
  expect_error(ErrorKind::kMismatch, "agreement/files",
               [&] { second.store_set(newcomer, "agreement/files", "others"); });
  EXPECT_EQ(second.store_get(newcomer, "agreement/files", 0ms), "of the hosts that train");
  EXPECT_EQ(second.agreed(), options.agreed);
}

TEST_F(TakeOver, OtherDataOnANewcomerDoesNotEndAJobThatWasTakenOver) {
  Cluster second(options(2), clock_);
  second.expect({42, 8, {{1, "a", 1, 0, 4}, {2, "b", 1, 4, 8}}});
  const std::uint64_t newcomer = second.join(card("d")).host;
  second.store_set(newcomer, control::kOtherDataKey,
                   control::refusal_text(Error(ErrorKind::kMismatch, "data.path is another")));
  EXPECT_FALSE(second.refusal());
}

TEST_F(TakeOver, AgentsKnowWhatTheirWorkersHaveAgreedOnAndBringItToTheNextCoordinator) {
  Cluster first(options(1));
  Way way(&first);
  HostReporter a(way, called("a"));
  HostReporter b(way, called("b"));
  a.join();
  b.join();
  EXPECT_THAT(a.agreed(), IsEmpty());
  const auto of_a = control::open_cluster_store(a.relay());
  const auto of_b = control::open_cluster_store(b.relay());
  of_a->set("agreement/files", "of a");
  of_a->set("anything", "else");
  expect_error(ErrorKind::kMismatch, "", [&] { of_b->set("agreement/files", "of b"); });
  EXPECT_EQ(of_b->get("agreement/files", Deadline::after(5s)), "of a");
  EXPECT_THAT(a.agreed(), ElementsAre(Pair("agreement/files", "of a")));
  EXPECT_THAT(b.agreed(), ElementsAre(Pair("agreement/files", "of a")));
  Cluster second(options(2));
  way.lead_to(&second);
  ASSERT_TRUE(testing::eventually([&] { return a.host() > 100'000 && b.host() > 100'000; }));
  EXPECT_THAT(second.agreed(), ElementsAre(Pair("agreement/files", "of a")));
  EXPECT_FALSE(a.abandoned());
  // Somebody else was there first, and nobody can tell whether it has the same.
  ClusterOptions taken = options(3);
  taken.agreed = {{"agreement/files", "of d"}};
  Cluster third(taken);
  way.lead_to(&third);
  ASSERT_TRUE(testing::eventually([&] { return a.abandoned() && b.abandoned(); }));
  EXPECT_EQ(a.abandoned()->kind(), ErrorKind::kMismatch);
}

TEST_F(TakeOver, ACoordinatorThatIsSupersededDoesNotTakeItsAgentsWithIt) {
  Cluster first(options(1));
  Cluster second(options(2));
  std::vector<std::unique_ptr<control::ClusterCalls>> ways;
  for (Cluster* const one : {&first, &second})
    ways.push_back(std::make_unique<Way>(one));
  control::AnyCoordinator any(std::move(ways));
  HostReporter c(any, called("c"));
  c.join();
  EXPECT_EQ(c.host(), 1U);
  first.met(second.identity());
  EXPECT_TRUE(testing::eventually([&] { return c.host() > 100'000; }));
  EXPECT_FALSE(c.abandoned()) << c.abandoned()->what();
}

TEST_F(TakeOver, AnAgentThatKnowsNoOtherAddressWaitsForTheCoordinatorThatHasTakenOver) {
  Cluster first(options(1));
  Cluster second(options(2));
  Way way(&first);
  HostReporter c(way, called("c"));
  c.join();
  first.met(second.identity());
  ASSERT_TRUE(testing::eventually([&] { return c.gone(); }));
  const int before = way.joins();
  ASSERT_TRUE(testing::eventually([&] { return way.joins() > before + 3; })) << "it does not try";
  EXPECT_FALSE(c.abandoned()) << c.abandoned()->what();
  way.lead_to(&second);
  EXPECT_TRUE(testing::eventually([&] { return c.host() > 100'000; }));
}

TEST_F(TakeOver, OneThatWasAwayForTooLongIsNotFollowedAgainWhileTheWorkersEnd) {
  Cluster first(options(1));
  Way way(&first);
  HostReporter a(way, called("a"), clock_);
  a.join();
  a.set_job(60s, "");
  way.lead_to(nullptr);
  ASSERT_TRUE(testing::eventually([&] {
    clock_.advance(10s);
    return a.abandoned().has_value();
  }));
  EXPECT_EQ(a.abandoned()->kind(), ErrorKind::kPeerLost);
  const auto heard = [&] { return first.hosts().at(0).silent_seconds; };
  way.lead_to(&first);
  ASSERT_TRUE(testing::eventually([&] { return heard() < 0.1; }));
  // Of two that ask at once: one of them has taken what it was answered before.
  const int before = way.answers();
  ASSERT_TRUE(testing::eventually([&] { return way.answers() > before + 2; }));
  ASSERT_TRUE(a.abandoned()) << "the workers were told to end";
  EXPECT_EQ(a.abandoned()->kind(), ErrorKind::kPeerLost);
}

TEST_F(TakeOver, WorkersLearnTheNumberThatTheirGenerationHasForThemAlsoWhenItsHostIsGivenUpMeanwhile) {
  Cluster cluster(options(1));
  HostReporter a(cluster, called("a"));
  a.join();
  const launch::MembersWanted one{.wanted = 1, .changed = true, .possible = 1};
  ASSERT_TRUE(testing::eventually([&] { return a.gate()->admit(one).has_value(); }));
  cluster.report({.host = 1, .sequence = 1'000'000, .ends = "was given up"}, 0, 0ms);
  ASSERT_TRUE(testing::eventually([&] { return a.host() == 2; }));
  const auto store = comm::make_memory_store();
  EXPECT_TRUE(a.gate()->prepare(1, *store));
  const auto text = control::JobGeneration::from_text(store->get(control::hosts_key(1), Deadline::after(1s)));
  EXPECT_EQ(store->get(control::own_host_key(1), Deadline::after(1s)), std::to_string(text.hosts.at(0).number));
}

}  // namespace
}  // namespace muster::coordinator
