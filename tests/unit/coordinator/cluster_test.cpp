// The cluster with hosts that are played here, on a clock that is turned by hand; and the line of a host to it.
#include "muster/coordinator/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/version.h"
#include "muster/control/cluster_server.h"
#include "muster/control/job_generation.h"
#include "muster/control/leader_note.h"
#include "muster/coordinator/host_reporter.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::coordinator {
namespace {

using namespace std::chrono_literals;
using control::HostCard;
using control::HostReport;
using control::JobGeneration;
using control::JobHost;
using control::Orders;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TMPDIR", temporary_.path().c_str(), 1);
    ClusterOptions options;
    options.least = 2;
    options.most = 3;
    options.lanes = 8;
    options.workers = 2;
    options.welcome.job = "the job";
    options.tell = [this](const std::string& line) {
      const MutexLock lock(mutex_);
      told_.push_back(line);
    };
    cluster_.emplace(std::move(options), clock_);
  }
  void TearDown() override {
    cluster_.reset();
    ::unsetenv("TMPDIR");
  }

  std::uint64_t join(const std::string& name) { return cluster_->join({.version = version(), .name = name}).host; }
  Orders report(std::uint64_t host, std::uint64_t wanted, std::uint64_t known = 0) {
    return cluster_->report({.host = host, .sequence = ++sequence_, .wanted = wanted}, known, 0ms);
  }
  // Once generation `number` was made.
  JobGeneration generation(std::uint64_t number) {
    EXPECT_TRUE(testing::eventually([&] { return cluster_->generation().number == number; }, Deadline::after(20s)))
        << cluster_->generation().to_text();
    return cluster_->generation();
  }
  // Time passes, and only these hosts are heard of; until `enough`, if that comes first.
  void pass(
      std::chrono::milliseconds time, const std::vector<std::uint64_t>& heard,
      const std::function<bool()>& enough = [] { return false; }) {
    for (; time > 0ms && !enough(); time -= 400ms) {
      clock_.advance(400ms);
      for (const std::uint64_t host : heard)
        report(host, 1);
      look(*cluster_);  // as it does when time passes by itself
    }
  }
  // Once it has looked, and done what it had to do.
  static void look(const Cluster& cluster) {
    const std::uint64_t before = cluster.looks();
    ASSERT_TRUE(testing::eventually([&] { return cluster.looks() > before; }));
  }
  std::vector<std::string> told() {
    const MutexLock lock(mutex_);
    return told_;
  }

  const testing::TemporaryFolder temporary_;
  FakeClock clock_;
  Mutex mutex_;
  std::vector<std::string> told_ MUSTER_GUARDED_BY(mutex_);
  std::uint64_t sequence_ = 0;
  std::optional<Cluster> cluster_;
};

TEST_F(ClusterTest, GivesNumbersAndAGenerationWhenEnoughAreReady) {
  EXPECT_EQ(join("a"), 1U);
  EXPECT_TRUE(testing::eventually([&] { return !told().empty(); }));
  EXPECT_THAT(told(), ElementsAre("waiting for hosts: 1 of 2"));
  const control::Welcome welcome = cluster_->join({.version = version(), .name = "b"});
  EXPECT_EQ(welcome.host, 2U);
  EXPECT_EQ(welcome.job, "the job");
  EXPECT_EQ(welcome.patience, 5s);
  EXPECT_FALSE(report(1, 0b11).generation);
  report(2, 0b1);
  EXPECT_THAT(generation(1).hosts, ElementsAre(JobHost{1, "a", 3, 0, 6}, JobHost{2, "b", 1, 6, 8}));
  EXPECT_EQ(report(1, 0b11).generation, cluster_->generation());
  EXPECT_EQ(report(1, 0b11).workers, 2);
}

TEST_F(ClusterTest, AHostThatIsSilentIsGivenUpAndItsNumberIsRefusedFromThenOn) {
  join("a");
  join("b");
  report(1, 1);
  report(2, 1);
  generation(1);
  cluster_->store_set(2, "key", "value");
  pass(60s, {1}, [&] { return cluster_->generation().number == 2; });
  EXPECT_THAT(generation(2).hosts, ElementsAre(JobHost{1, "a", 1, 0, 8}));
  EXPECT_THAT(told(), Contains(HasSubstr("host b (2) was not heard of for 5")));
  for (const auto& call : std::vector<std::function<void()>>{[&] { report(2, 1); }, [&] { cluster_->leave(2, 0, ""); },
                                                             [&] { cluster_->store_set(2, "other", ""); },
                                                             [&] { cluster_->store_get(2, "key", 0ms); }})
    expect_error(ErrorKind::kNotFound, "host 2", call);
  EXPECT_EQ(cluster_->store_get(1, "key", 0ms), "value");
  EXPECT_EQ(join("b"), 3U) << "a number is never given twice";
  report(3, 1);
  EXPECT_THAT(generation(3).hosts, ElementsAre(JobHost{1, "a", 1, 0, 4}, JobHost{3, "b", 1, 4, 8}));
}

TEST_F(ClusterTest, OtherDataOnAHostEndsTheJobBeforeItHasBegunAndThatHostAloneLater) {
  const std::string text =
      control::refusal_text(Error(ErrorKind::kMismatch, "data.path is another", "/data", "Bring the same."));
  join("a");
  join("b");
  EXPECT_FALSE(cluster_->refusal());
  cluster_->store_set(2, control::kOtherDataKey, text);
  ASSERT_TRUE(cluster_->refusal());
  EXPECT_EQ(cluster_->refusal()->kind(), ErrorKind::kMismatch);
  EXPECT_EQ(cluster_->refusal()->message(), "data.path is another");
  EXPECT_EQ(cluster_->refusal()->where(), "/data");
  EXPECT_EQ(cluster_->refusal()->remedy(), "Bring the same.");
  EXPECT_EQ(control::refusal_of("[").message(), "[") << "whatever a worker has said";
  cluster_.reset();
  SetUp();
  join("a");
  join("b");
  report(1, 1);
  report(2, 1);
  generation(1);
  join("c");
  cluster_->store_set(3, control::kOtherDataKey, text);
  EXPECT_FALSE(cluster_->refusal());
}

TEST_F(ClusterTest, PeopleAreToldOnceOfAHostWithOtherKernels) {
  join("a");
  join("b");
  for (int worker = 0; worker < 2; ++worker)
    cluster_->store_set(2, control::other_kernels_key(2), "warning: other kernels");
  cluster_->store_set(2, "other", "not for people");
  EXPECT_TRUE(testing::eventually([&] { return ::testing::Value(told(), Contains("warning: other kernels")); }));
  EXPECT_THAT(told(), Contains("warning: other kernels").Times(1));
  EXPECT_FALSE(cluster_->refusal());
}

TEST_F(ClusterTest, ACoordinatorThatWasStoppedItselfGivesNobodyUp) {
  join("a");
  join("b");
  report(1, 1);
  report(2, 1);
  generation(1);
  clock_.advance(60s);
  look(*cluster_);
  EXPECT_EQ(cluster_->generation().number, 1U);
  report(2, 1);
}

TEST_F(ClusterTest, AHostThatDoesNotBeginItsGenerationIsGivenUpHoweverOftenItIsHeardOf) {
  join("a");
  join("b");
  report(1, 1);
  report(2, 1);
  generation(1);
  for (int turn = 0; turn < 60 && cluster_->generation().number == 1; ++turn) {
    clock_.advance(400ms);
    cluster_->report({.host = 1, .sequence = ++sequence_, .wanted = 1, .begun = 1}, 0, 0ms);
    report(2, 1);
    look(*cluster_);
  }
  EXPECT_THAT(generation(2).hosts, ElementsAre(JobHost{1, "a", 1, 0, 8}));
  EXPECT_THAT(told(), Contains(HasSubstr("host b (2) has not begun generation 1")));
}

TEST_F(ClusterTest, WhoEndsIsNotWaitedForAndWhoIsThroughIsNotMissed) {
  join("a");
  join("b");
  join("c");
  for (const std::uint64_t host : {1, 2, 3})
    report(host, 1);
  ASSERT_TRUE(testing::eventually([&] { return cluster_->generation().hosts.size() == 3; }));
  const std::uint64_t all = cluster_->generation().number;
  cluster_->report({.host = 2, .sequence = ++sequence_, .wanted = 1, .ends = "leaves the job"}, 0, 0ms);
  EXPECT_THAT(generation(all + 1).hosts, SizeIs(2));
  EXPECT_THAT(told(), Contains(HasSubstr("host b (2) leaves the job")));
  cluster_->leave(3, 0, "");
  pass(6s, {1});
  EXPECT_EQ(cluster_->generation().number, all + 1);
  expect_error(ErrorKind::kUnsupported, "ending", [&] { join("d"); });
  EXPECT_TRUE(cluster_->wait_until_alone(1, Deadline::after(1s)));
}

TEST_F(ClusterTest, AHostOfFixedWorkersThatIsLostEndsTheJobForAll) {
  const std::uint64_t first = join("a");
  const std::uint64_t second = join("b");
  const auto fixed = [&](std::uint64_t host) {
    return cluster_->report({.host = host, .sequence = ++sequence_, .wanted = 1, .fixed = true}, 0, 0ms);
  };
  fixed(first);
  fixed(second);
  generation(1);
  EXPECT_EQ(cluster_->failure(Deadline::after(0ms)), "");
  cluster_->leave(second, 1, "worker 0 was killed");
  EXPECT_EQ(cluster_->failure(Deadline::after(20s)), "host b (2) has ended: worker 0 was killed");
  EXPECT_EQ(fixed(first).over, "host b (2) has ended: worker 0 was killed");
  EXPECT_EQ(cluster_->generation().number, 1U);
  EXPECT_TRUE(testing::eventually([&] { return told().size() == 2; }, Deadline::after(20s)));
  EXPECT_THAT(told().back(), HasSubstr("the job ends, because its workers cannot be replaced"));
  cluster_->end("the workers ended with exit code 1");
  EXPECT_EQ(fixed(first).over, "host b (2) has ended: worker 0 was killed") << "what came first is the reason";
}

TEST_F(ClusterTest, RefusesWhoDoesNotFit) {
  expect_error(ErrorKind::kMismatch, "0.0.0-other", [&] { cluster_->join({.version = "0.0.0-other", .name = "x"}); });
  join("a");
  join("b");
  join("c");
  expect_error(ErrorKind::kResource, "3 of 3", [&] { join("d"); });
  cluster_->end("the disk is full");
  EXPECT_EQ(report(1, 0).over, "the disk is full");
}

TEST_F(ClusterTest, OrdersArriveWhenTheyChangeAndLateReportsChangeNothing) {
  join("a");
  join("b");
  const Orders before = report(1, 1);
  Orders after;
  std::jthread waits(
      [&] { after = cluster_->report({.host = 1, .sequence = ++sequence_, .wanted = 1}, before.revision, 20s); });
  cluster_->wish(1, true, false);
  waits.join();
  EXPECT_EQ(after.workers, 1);
  EXPECT_TRUE(after.stop);
  report(2, 1);
  generation(1);
  cluster_->report({.host = 2, .sequence = 1, .wanted = 0b100}, 0, 0ms);
  look(*cluster_);
  EXPECT_EQ(cluster_->generation().number, 1U);
}

TEST_F(ClusterTest, ABrokenConnectionBetweenHostsThatLiveMakesAGeneration) {
  join("a");
  join("b");
  report(1, 1);
  report(2, 1);
  generation(1);
  cluster_->store_set(1, control::broken_key(1), "rank 0 lost rank 1");
  pass(200ms, {1, 2});
  EXPECT_THAT(generation(2).hosts, SizeIs(2));
}

TEST_F(ClusterTest, GoesOnAboveTheGenerationsOfACoordinatorBefore) {
  const std::string job = cluster_->job_identity();
  cluster_->join({.version = version(), .name = "a", .begun = 41, .cluster = job});
  cluster_->join({.version = version(), .name = "b", .begun = 17, .cluster = job});
  report(1, 1);
  report(2, 1);
  EXPECT_TRUE(testing::eventually([&] { return cluster_->generation().hosts.size() == 2; }));
  EXPECT_GE(cluster_->generation().number, 42U);
}

TEST_F(ClusterTest, ShowsItsHosts) {
  join("a");
  join("b");
  report(1, 0b11);
  cluster_->report({.host = 2, .sequence = 100, .wanted = 1, .step = 12}, 0, 0ms);
  generation(1);
  clock_.advance(2s);
  const std::vector<control::HostStatus> hosts = cluster_->hosts();
  ASSERT_THAT(hosts, SizeIs(2));
  EXPECT_EQ(hosts[1], (control::HostStatus{2, "b", 1, 6, 8, 12, 2.0}));
}

TEST_F(ClusterTest, KnowsWhichHostsHaveTheRunAndTellsWhatIsWrongThereOnce) {
  join("a");
  join("b");
  report(1, 1);
  control::HostReport second{.host = 2, .sequence = 100, .wanted = 1, .place = control::LeaderNote::kCopy, .saved = 40};
  const auto tell = [&](const std::string& alarm) {
    ++second.sequence;
    second.alarm = alarm;
    cluster_->report(second, 0, 0ms);
  };
  tell("");
  EXPECT_EQ(cluster_->hosts().at(1).place, "copy");
  EXPECT_EQ(cluster_->hosts().at(1).checkpoint, 40U);
  EXPECT_FALSE(cluster_->hosts().at(0).checkpoint);
  tell("no checkpoint was written since step 45 (1 attempts): disk full");
  tell("no checkpoint was written since step 45 (2 attempts): disk full");
  EXPECT_EQ(cluster_->hosts().at(1).alarm, "no checkpoint was written since step 45 (2 attempts): disk full");
  tell("");
  const auto lines = [&](const std::string& part) {
    const std::vector<std::string> all = told();
    return std::count_if(all.begin(), all.end(),
                         [&](const std::string& line) { return line.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(testing::eventually([&] { return lines("host b (2) writes its copy of checkpoints again") == 1; }));
  EXPECT_EQ(lines("host b (2), which keeps a copy of the run: no checkpoint was written since step 45 (1 attempts)"),
            1);
  EXPECT_EQ(lines("2 attempts"), 0) << "once, until it is over";
}

class HostReporterTest : public ClusterTest {
 protected:
  HostReporterOptions options(const std::string& name) {
    HostReporterOptions options;
    options.card = {.version = version(), .name = name};
    return options;
  }
};

TEST_F(HostReporterTest, LetsThroughWhatNamesItsHostAndLeavesTheTextForTheWorkers) {
  HostReporter a(*cluster_, options("a"));
  HostReporter b(*cluster_, options("b"));
  a.join();
  b.join();
  const auto gate = a.gate();
  const launch::MembersWanted ready{.wanted = 0b11, .changed = true, .possible = 0b11};
  EXPECT_EQ(gate->admit(ready), std::nullopt);
  b.gate()->admit({.wanted = 0b1, .changed = true, .possible = 0b1});
  std::optional<std::uint64_t> members;
  ASSERT_TRUE(testing::eventually([&] { return (members = gate->admit(ready)).has_value(); }));
  EXPECT_EQ(*members, 0b11U);
  const auto store = comm::make_memory_store();
  EXPECT_TRUE(gate->prepare(1, *store));
  gate->begun();
  const JobGeneration text = JobGeneration::from_text(store->get(control::hosts_key(1), Deadline::after(1s)));
  EXPECT_EQ(text, cluster_->generation());
  EXPECT_EQ(gate->admit({.wanted = 0b11, .present = 0b11, .possible = 0b11}), std::nullopt) << "it has begun";
  // The other host changes: this one begins a generation for its sake.
  b.gate()->admit({.wanted = 0b11, .changed = true, .possible = 0b11});
  ASSERT_TRUE(testing::eventually(
      [&] { return gate->admit({.wanted = 0b11, .present = 0b11, .possible = 0b11}).has_value(); }));
  store->set(control::hosts_key(2), "left by somebody who died");
  EXPECT_FALSE(gate->prepare(2, *store));
  EXPECT_TRUE(gate->prepare(3, *store));
  a.leave(0, "");
  b.leave(0, "");
}

TEST_F(HostReporterTest, DoesNotLetThroughWhatDoesNotFitAnyMore) {
  HostReporter a(*cluster_, options("a"));
  HostReporter b(*cluster_, options("b"));
  a.join();
  b.join();
  a.gate()->admit({.wanted = 0b11, .changed = true, .possible = 0b11});
  b.gate()->admit({.wanted = 0b1, .changed = true, .possible = 0b1});
  generation(1);
  ASSERT_TRUE(testing::eventually([&] { return a.orders().generation.has_value(); }));
  // One has died meanwhile: the coordinator hears of it, and names the one that is left.
  const launch::MembersWanted one{.wanted = 0b01, .changed = true, .possible = 0b01};
  EXPECT_EQ(a.gate()->admit(one), std::nullopt);
  EXPECT_THAT(generation(2).hosts.front().members, 0b01U);
  EXPECT_TRUE(testing::eventually([&] { return a.gate()->admit(one).has_value(); }));
  a.leave(0, "");
  b.leave(0, "");
}

TEST_F(HostReporterTest, AHostThatWasGivenUpJoinsAgainAndItsWorkersLearnItsNewNumber) {
  HostReporter a(*cluster_, options("a"));
  HostReporter b(*cluster_, options("b"));
  a.join();
  b.join();
  const launch::MembersWanted one{.wanted = 1, .changed = true, .possible = 1};
  a.gate()->admit(one);
  b.gate()->admit(one);
  generation(1);
  EXPECT_EQ(b.gate()->environment().at("MUSTER_HOST"), "2");
  cluster_->report({.host = 2, .sequence = 1'000'000, .ends = "was given up"}, 0, 0ms);
  ASSERT_TRUE(testing::eventually([&] { return b.host() == 3; })) << b.host();
  std::optional<std::uint64_t> members;
  ASSERT_TRUE(testing::eventually([&] { return (members = b.gate()->admit(one)).has_value(); }));
  const auto store = comm::make_memory_store();
  EXPECT_TRUE(b.gate()->prepare(5, *store));
  const JobGeneration text = JobGeneration::from_text(store->get(control::hosts_key(5), Deadline::after(1s)));
  EXPECT_THAT(text.hosts, ElementsAre(JobHost{1, "a", 1, 0, 4}, JobHost{3, "b", 1, 4, 8}));
  EXPECT_EQ(store->get(control::own_host_key(5), Deadline::after(1s)), "3");
  EXPECT_EQ(b.gate()->environment().at("MUSTER_HOST"), "3");
  a.leave(0, "");
  b.leave(0, "");
}

// Agents call whichever is there.
struct Whichever final : control::ClusterCalls {
  control::ClusterCalls& calls() const {
    const MutexLock lock(mutex);
    return *one;
  }
  control::Welcome join(const HostCard& card) override { return calls().join(card); }
  Orders report(const HostReport& report, std::uint64_t known, std::chrono::milliseconds wait) override {
    return calls().report(report, known, wait);
  }
  void store_set(std::uint64_t, std::string_view, std::string_view) override {}
  std::optional<std::string> store_get(std::uint64_t, std::string_view, std::chrono::milliseconds) override {
    return std::nullopt;
  }
  void leave(std::uint64_t host, int code, const std::string& reason) override { calls().leave(host, code, reason); }
  mutable Mutex mutex;
  control::ClusterCalls* one MUSTER_GUARDED_BY(mutex) = nullptr;

  explicit Whichever(control::ClusterCalls& first) : one(&first) {}
  void turn_to(control::ClusterCalls& other) {
    const MutexLock lock(mutex);
    one = &other;
  }
};

TEST_F(HostReporterTest, ACoordinatorThatWasStartedAnewDoesNotGetTheWorkersOfTheOneBefore) {
  Whichever whichever(*cluster_);
  Cluster anew(ClusterOptions{.least = 1, .most = 2});
  HostReporter a(whichever, options("a"));
  a.join();
  EXPECT_FALSE(a.abandoned());
  whichever.turn_to(anew);
  ASSERT_TRUE(testing::eventually([&] { return a.abandoned().has_value(); }));
  EXPECT_EQ(a.abandoned()->kind(), ErrorKind::kMismatch);
  EXPECT_THAT(a.abandoned()->message(), HasSubstr("started anew"));
}

TEST_F(HostReporterTest, ACoordinatorThatTakesOverIsFollowedAndTheOneBeforeIsNotAnyMore) {
  Whichever whichever(*cluster_);
  HostReporter a(whichever, options("a"));
  a.join();
  EXPECT_EQ(a.host(), 1U);
  ClusterOptions next{.least = 1, .most = 2, .lanes = 8};
  next.welcome.cluster = cluster_->job_identity();
  next.welcome.term = 2;
  next.patience = 60s;
  FakeClock clock;
  Cluster second(next, clock);
  whichever.turn_to(second);
  ASSERT_TRUE(testing::eventually([&] { return a.host() == 100'001; })) << a.host();
  EXPECT_FALSE(a.abandoned());
  // A second one that has taken over at the same moment, and the one before, would be glad to have it.
  Cluster rival(next, clock);
  whichever.turn_to(rival);
  ASSERT_TRUE(testing::eventually([&] { return !rival.hosts().empty(); }));
  whichever.turn_to(*cluster_);
  const auto asked = [&] { return ::testing::Value(told(), Contains(HasSubstr("host a (2) has come"))); };
  ASSERT_TRUE(testing::eventually(asked));
  EXPECT_EQ(a.host(), 100'001U);
  whichever.turn_to(second);
  ASSERT_TRUE(testing::eventually([&] { return a.host() > 100'001; })) << a.host();
  a.leave(0, "");
}

TEST_F(ClusterTest, ACoordinatorThatHearsOfAHigherTermMakesNoGenerationAnyMoreAndAnswersNobody) {
  join("a");
  join("b");
  report(1, 1);
  report(2, 1);
  const std::uint64_t made = generation(1).number;
  for (const std::string& life : {std::string("other.7"), cluster_->job_identity(), cluster_->job_identity() + ".1.x"})
    cluster_->met(life);
  EXPECT_EQ(cluster_->superseded(), 0U);
  report(1, 1);
  cluster_->met(control::life_of(cluster_->job_identity(), 2, "x"));
  EXPECT_EQ(cluster_->superseded(), 2U);
  EXPECT_THAT(told(), Contains(HasSubstr("(term 2)")));
  for (const auto& call : std::vector<std::function<void()>>{[&] { report(1, 3); }, [&] { join("c"); },
                                                             [&] { cluster_->store_get(1, "key", 0ms); }})
    expect_error(ErrorKind::kNotFound, "term 2", call);
  clock_.advance(60s);
  look(*cluster_);
  EXPECT_EQ(cluster_->generation().number, made);
}

// Remembers what it was asked.
class Commanded final : public control::ControlCalls {
 public:
  control::JobStatus status() override { return {.job = "digits"}; }
  control::WantedState scale(const std::string& request, const control::Scaling& scaling) override {
    asked_.push_back(fmt::format("{}: {} workers", request, scaling.workers.value_or(0)));
    return {};
  }
  control::WantedState stop(const std::string& request) override {
    asked_.push_back(request + ": stop");
    return {.stop = true};
  }
  control::Change set(const std::string& request, const std::string& assignment) override {
    asked_.push_back(request + ": " + assignment);
    return {1, assignment, std::nullopt};
  }
  std::vector<std::string> asked_;
};

TEST(ClusterCommands, ComeFromHostsOfTheJobAndTheLogSaysFromWhich) {
  Commanded commanded;
  std::vector<std::string> noted;
  Mutex mutex;
  ClusterOptions options{.least = 1, .most = 2};
  options.commands = &commanded;
  options.note = [&](const std::string& line) {
    const MutexLock lock(mutex);
    noted.push_back(line);
  };
  Cluster cluster(std::move(options));
  const std::uint64_t host = cluster.join({.version = version(), .name = "b"}).host;
  EXPECT_EQ(cluster.host_status(host).job, "digits");
  cluster.host_scale(host, "one", {.workers = 2});
  EXPECT_TRUE(cluster.host_stop(host, "two").stop);
  EXPECT_EQ(cluster.host_set(host, "three", "optimizer.lr=0.1").number, 1U);
  EXPECT_THAT(commanded.asked_, ElementsAre("one: 2 workers", "two: stop", "three: optimizer.lr=0.1"));
  {
    const MutexLock lock(mutex);
    EXPECT_THAT(noted, Contains("host b (1) passes on: muster stop"));
    EXPECT_THAT(noted, Contains(HasSubstr("host b (1) passes on: muster set optimizer.lr=0.1")));
  }
  expect_error(ErrorKind::kNotFound, "host 9", [&] { cluster.host_stop(9, "four"); });
  EXPECT_THAT(commanded.asked_, SizeIs(3));
  Cluster deaf(ClusterOptions{.least = 1, .most = 2});
  const std::uint64_t other = deaf.join({.version = version(), .name = "c"}).host;
  expect_error(ErrorKind::kUnsupported, "no commands", [&] { deaf.host_stop(other, "five"); });
}

TEST_F(ClusterTest, OrdersSayWhichChangesWereAskedFor) {
  join("a");
  const Orders before = report(1, 1);
  const std::vector<control::Change> changes{{1, "optimizer.lr=0.1", std::nullopt}};
  cluster_->ask(changes);
  const Orders after = report(1, 1, before.revision);
  EXPECT_GT(after.revision, before.revision);
  EXPECT_EQ(after.changes, changes);
  cluster_->ask(changes);
  EXPECT_EQ(report(1, 1).revision, after.revision) << "nothing is new";
}

TEST(ClusterArrival, HostsThatDoNotComeInTimeEndTheJob) {
  FakeClock clock;
  const auto options = [](std::size_t least) {
    ClusterOptions made;
    made.least = least;
    made.most = 2;
    made.lanes = 4;
    made.arrival = 300s;
    return made;
  };
  Cluster missing(options(2), clock);
  Cluster complete(options(1), clock);
  missing.join({.version = version(), .name = "a"});
  complete.join({.version = version(), .name = "a"});
  clock.advance(299s);
  missing.wish(1, false, false);
  EXPECT_FALSE(missing.refusal());
  clock.advance(2s);
  EXPECT_TRUE(testing::eventually([&] { return missing.refusal().has_value(); }, Deadline::after(20s)));
  EXPECT_EQ(missing.refusal()->kind(), ErrorKind::kTimeout);
  EXPECT_THAT(missing.refusal()->message(), HasSubstr("of 2"));
  EXPECT_FALSE(complete.refusal()) << "nobody is missing there";
}

}  // namespace
}  // namespace muster::coordinator
