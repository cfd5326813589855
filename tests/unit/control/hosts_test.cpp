// Decisions about hosts, as tables: what is known, at which time, and what follows from it.
#include "muster/control/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace muster::control {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two hosts that have come, of which nothing else is known.
HostsView two_hosts() {
  HostsView view;
  view.now = Clock::Instant(1000s);
  view.decided = view.now;
  view.least = 2;
  view.lanes = 8;
  view.hosts = {{.number = 1, .name = "a", .heard = view.now}, {.number = 2, .name = "b", .heard = view.now}};
  return view;
}

// The same, with generation 1 begun: a worker on each.
HostsView at_work() {
  HostsView view = two_hosts();
  for (HostView& host : view.hosts)
    host.wanted = 1;
  view.present = *decide_hosts(view).next;
  for (HostView& host : view.hosts)
    host.begun = view.present.number;
  return view;
}

std::vector<std::size_t> sizes(const std::vector<double>& weights, std::size_t lanes) {
  std::vector<std::size_t> result;
  std::size_t next = 0;
  for (const LaneRange& range : divide_lanes(weights, lanes)) {
    EXPECT_EQ(range.first, next);
    next = range.last;
    result.push_back(range.size());
  }
  EXPECT_EQ(next, lanes);
  return result;
}

// Whoever is ready sooner: the others have nothing to begin from.
TEST(DecideHosts, TheFirstGenerationHasTheHostWithTheFirstState) {
  HostsView view = two_hosts();
  view.least = 1;
  view.hosts[1].wanted = 1;
  const HostsDecision early = decide_hosts(view);
  EXPECT_FALSE(early.next);
  EXPECT_TRUE(early.waiting);
  EXPECT_THAT(early.reason, HasSubstr("first host"));
  view.hosts[0].wanted = 1;
  ASSERT_TRUE(decide_hosts(view).next);
  EXPECT_THAT(decide_hosts(view).next->hosts, SizeIs(2));
  view.hosts[1].wanted = 0;
  ASSERT_TRUE(decide_hosts(view).next);
  EXPECT_THAT(decide_hosts(view).next->hosts, SizeIs(1));
}

TEST(DivideLanes, GivesEverybodyItsShareAndALaneAtLeast) {
  EXPECT_THAT(sizes({1}, 1), ElementsAre(1));
  EXPECT_THAT(sizes({1}, 7), ElementsAre(7));
  EXPECT_THAT(sizes({1, 1}, 8), ElementsAre(4, 4));
  EXPECT_THAT(sizes({1, 1}, 7), ElementsAre(4, 3));
  EXPECT_THAT(sizes({3, 1}, 8), ElementsAre(6, 2));
  EXPECT_THAT(sizes({1, 1000}, 8), ElementsAre(1, 7));
  EXPECT_THAT(sizes({1, 1000, 1}, 3), ElementsAre(1, 1, 1));
  EXPECT_THAT(sizes({2.5, 1.5, 1}, 10), ElementsAre(5, 3, 2));
}

TEST(DecideHosts, NothingBeginsWhileHostsOfTheCoordinatorBeforeMayComeBack) {
  HostsView view = two_hosts();
  for (HostView& host : view.hosts)
    host.wanted = 1;
  view.present.number = 41;
  view.expecting = true;
  EXPECT_FALSE(decide_hosts(view).next);
  view.expecting = false;
  ASSERT_TRUE(decide_hosts(view).next);
  EXPECT_EQ(decide_hosts(view).next->number, 42U);
}

TEST(DivideLanes, TheSlowestIsDoneAsEarlyAsPossible) {
  // Against every division there is.
  for (const std::vector<double>& weights : {std::vector<double>{1, 1.7, 0.3}, {5, 1, 1}, {2, 3, 4}}) {
    const auto time = [&](std::size_t a, std::size_t b, std::size_t c) {
      return std::max({static_cast<double>(a) / weights[0], static_cast<double>(b) / weights[1],
                       static_cast<double>(c) / weights[2]});
    };
    for (std::size_t lanes = 3; lanes < 20; ++lanes) {
      double best = 1e9;
      for (std::size_t a = 1; a < lanes - 1; ++a)
        for (std::size_t b = 1; a + b < lanes; ++b)
          best = std::min(best, time(a, b, lanes - a - b));
      const std::vector<std::size_t> given = sizes(weights, lanes);
      EXPECT_DOUBLE_EQ(time(given[0], given[1], given[2]), best) << lanes << " lanes";
    }
  }
}

TEST(DecideHosts, WaitsUntilEnoughHaveComeAndAreReady) {
  HostsView view = two_hosts();
  view.hosts.pop_back();
  HostsDecision decision = decide_hosts(view);
  EXPECT_TRUE(decision.waiting);
  EXPECT_EQ(decision.reason, "waiting for hosts: 1 of 2");
  view = two_hosts();
  view.hosts[0].wanted = 3;
  decision = decide_hosts(view);
  EXPECT_TRUE(decision.waiting);
  EXPECT_EQ(decision.reason, "waiting for workers to start: 1 of 2 hosts are ready");
  EXPECT_FALSE(decision.next);
  view.hosts[1].wanted = 1;
  decision = decide_hosts(view);
  EXPECT_FALSE(decision.waiting);
  ASSERT_TRUE(decision.next);
  EXPECT_EQ(decision.next->number, 1U);
  EXPECT_THAT(decision.next->hosts, ElementsAre(JobHost{1, "a", 3, 0, 6}, JobHost{2, "b", 1, 6, 8}))
      << "lanes by workers, as long as no speed is known";
  EXPECT_EQ(JobGeneration::from_text(decision.next->to_text()), *decision.next);
}

TEST(DecideHosts, NothingIsDecidedWhereNothingChanged) {
  const HostsDecision decision = decide_hosts(at_work());
  EXPECT_FALSE(decision.next);
  EXPECT_FALSE(decision.waiting);
  EXPECT_EQ(decision.reason, "");
  EXPECT_THAT(decision.lost, IsEmpty());
}

TEST(DecideHosts, AHostThatIsSilentForTooLongIsLostAndTheOthersGoOn) {
  HostsView view = at_work();
  view.now += view.patience;
  view.hosts[0].heard = view.now;
  EXPECT_THAT(decide_hosts(view).lost, IsEmpty()) << "not longer than the patience";
  view.now += 1ms;
  const HostsDecision decision = decide_hosts(view);
  ASSERT_THAT(decision.lost, SizeIs(1));
  EXPECT_EQ(decision.lost[0].number, 2U);
  EXPECT_EQ(decision.lost[0].reason, "was not heard of for 5.0 s");
  ASSERT_TRUE(decision.next) << "fewer than the least go on: the least is for the beginning";
  EXPECT_EQ(decision.next->number, 2U);
  EXPECT_THAT(decision.next->hosts, ElementsAre(JobHost{1, "a", 1, 0, 8}));
  EXPECT_THAT(decision.reason, HasSubstr("host b (2) is gone"));
}

TEST(DecideHosts, WhoeverCouldNotLookJudgesNobody) {
  HostsView view = at_work();
  view.now += 60s;
  view.watched_since = view.now - 1s;
  EXPECT_THAT(decide_hosts(view).lost, IsEmpty());
  view.watched_since = view.now - 6s;
  EXPECT_THAT(decide_hosts(view).lost, SizeIs(2));
}

// Its agent reports, and whatever begins generations there hangs: the others wait for its workers.
TEST(DecideHosts, AHostThatDoesNotBeginTheGenerationThatItWasGivenIsLost) {
  HostsView view = at_work();
  view.hosts[1].begun = 0;
  const auto pass = [&](std::chrono::nanoseconds time) {
    view.now += time;
    for (HostView& host : view.hosts)
      host.heard = view.now;
  };
  pass(2 * view.patience);
  EXPECT_THAT(decide_hosts(view).lost, IsEmpty());
  pass(1ms);
  const HostsDecision decision = decide_hosts(view);
  ASSERT_THAT(decision.lost, SizeIs(1));
  EXPECT_EQ(decision.lost[0].number, 2U);
  EXPECT_EQ(decision.lost[0].reason, "has not begun generation 1 for 10.0 s, and reports all the same");
  ASSERT_TRUE(decision.next);
  EXPECT_THAT(decision.next->hosts, SizeIs(1));
  view.watched_since = view.now - 1s;
  EXPECT_THAT(decide_hosts(view).lost, IsEmpty()) << "whoever could not look judges nobody";
  view.watched_since = {};
  view.finishing = true;
  EXPECT_THAT(decide_hosts(view).lost, IsEmpty()) << "those who are left when the job is done need none";
  view.finishing = false;
  view.present.hosts.pop_back();
  EXPECT_THAT(decide_hosts(view).lost, IsEmpty()) << "it was given none";
}

TEST(DecideHosts, AHostThatSaysThatItEndsIsNotWaitedFor) {
  HostsView view = at_work();
  view.hosts[1].ends = "leaves the job";
  const HostsDecision decision = decide_hosts(view);
  ASSERT_THAT(decision.lost, SizeIs(1));
  EXPECT_EQ(decision.lost[0].reason, "leaves the job");
  EXPECT_THAT(decision.next->hosts, SizeIs(1));
}

TEST(DecideHosts, OneThatIsThroughWithTheJobIsMissedByNobody) {
  HostsView view = at_work();
  view.hosts[1].done = true;
  view.now += 60s;
  view.hosts[0].heard = view.now;
  const HostsDecision decision = decide_hosts(view);
  EXPECT_FALSE(decision.next);
  EXPECT_THAT(decision.lost, IsEmpty());
}

TEST(DecideHosts, EveryChangeOfWorkersMakesAGenerationForAll) {
  HostsView view = at_work();
  view.hosts[1].wanted = 3;
  const HostsDecision decision = decide_hosts(view);
  ASSERT_TRUE(decision.next);
  EXPECT_EQ(decision.next->hosts[0].members, 1U);
  EXPECT_EQ(decision.next->hosts[1].members, 3U);
  EXPECT_THAT(decision.reason,
              AllOf(HasSubstr("generation 2 with 2 hosts"), HasSubstr("host b (2) has other workers")));
}

TEST(DecideHosts, AHostWithoutWorkersTakesNoPartAndIsNotLost) {
  HostsView view = at_work();
  view.hosts[1].wanted = 0;
  const HostsDecision decision = decide_hosts(view);
  EXPECT_THAT(decision.lost, IsEmpty());
  EXPECT_THAT(decision.next->hosts, ElementsAre(JobHost{1, "a", 1, 0, 8}));
  view.hosts[0].wanted = 0;
  EXPECT_FALSE(decide_hosts(view).next) << "nobody could train";
}

TEST(DecideHosts, ANewHostIsLetInUnlessTheJobFinishes) {
  HostsView view = at_work();
  view.hosts.push_back({.number = 4, .name = "c", .heard = view.now, .wanted = 2});
  HostsDecision decision = decide_hosts(view);
  ASSERT_TRUE(decision.next);
  EXPECT_THAT(decision.next->hosts, SizeIs(3));
  EXPECT_THAT(decision.reason, HasSubstr("host c (4) takes part"));
  view.finishing = true;
  EXPECT_FALSE(decide_hosts(view).next);
}

TEST(DecideHosts, WhoComesWhenAllLanesAreTakenWaits) {
  HostsView view = at_work();
  view.lanes = 2;
  view.present.lanes = 2;
  view.hosts.push_back({.number = 4, .name = "c", .heard = view.now, .wanted = 2});
  EXPECT_FALSE(decide_hosts(view).next);
}

TEST(DecideHosts, LanesAreDividedAnewWhenMeasuredSpeedsMakeItPay) {
  struct Case {
    double speed_a, speed_b;
    std::chrono::seconds lasts;
    std::size_t lanes_of_a;  // 4: as before
  };
  // 4 and 4 lanes, a worker each.
  for (const Case& one : {Case{10, 10, 60s, 4}, Case{30, 10, 60s, 6}, Case{30, 10, 9s, 4}, Case{30, 0, 60s, 4},
                          Case{11, 10, 60s, 4}, Case{1, 100, 60s, 1}}) {
    HostsView view = at_work();
    view.now += one.lasts;
    view.watched_since = view.now;
    view.hosts[0].worker_speed = one.speed_a;
    view.hosts[1].worker_speed = one.speed_b;
    const HostsDecision decision = decide_hosts(view);
    EXPECT_EQ(decision.next ? decision.next->hosts[0].last_lane : 4, one.lanes_of_a)
        << one.speed_a << " and " << one.speed_b << ": " << decision.reason;
    EXPECT_EQ(decision.next.has_value(), one.lanes_of_a != 4);
    if (!decision.next) continue;
    view.present = *decision.next;
    EXPECT_FALSE(decide_hosts(view).next) << "and that is that";
  }
}

TEST(DecideHosts, WhereWorkersAreFixedALossIsTheEndAndNothingElseChangesAnything) {
  HostsView view = at_work();
  view.hosts[1].fixed = true;
  view.now += 60s;
  view.hosts.push_back({.number = 3, .name = "c", .wanted = 1});
  for (HostView& host : view.hosts)
    host.heard = view.now;
  view.hosts[0].wanted = 3;
  view.hosts[0].worker_speed = view.hosts[2].worker_speed = 1;
  view.hosts[1].worker_speed = 10;
  HostsDecision decision = decide_hosts(view);
  EXPECT_FALSE(decision.next) << decision.reason;
  EXPECT_EQ(decision.over, "");
  view.hosts[2].ends = "leaves the job";
  EXPECT_EQ(decide_hosts(view).over, "") << "it was no member";
  view.hosts[0].ends = "has ended: out of memory";
  decision = decide_hosts(view);
  EXPECT_FALSE(decision.next);
  EXPECT_EQ(decision.over, "host a (1) has ended: out of memory");
  view.hosts[0].ends.clear();
  view.broken = view.now;
  EXPECT_EQ(decide_hosts(view).over, "") << "who has not been heard of since may be lost";
  for (HostView& host : view.hosts)
    host.heard = view.now + 1s;
  EXPECT_THAT(decide_hosts(view).over, HasSubstr("lost their connection"));
}

TEST(DecideHosts, BeforeTheyHaveBegunFixedWorkersCanWaitForAnotherHost) {
  HostsView view = two_hosts();
  for (HostView& host : view.hosts)
    host.fixed = true;
  view.hosts[0].wanted = 1;
  view.hosts[1].ends = "leaves the job";
  EXPECT_EQ(decide_hosts(view).over, "");
  view.hosts[1].ends.clear();
  view.hosts[1].wanted = 1;
  EXPECT_TRUE(decide_hosts(view).next.has_value());
}

TEST(DecideHosts, ABrokenConnectionMakesAGenerationOnceItIsKnownWhoLives) {
  HostsView view = at_work();
  view.broken = view.now;
  view.now += 1s;
  view.hosts[0].heard = view.now;
  EXPECT_FALSE(decide_hosts(view).next) << "b may be why";
  view.hosts[1].heard = view.now;
  const HostsDecision decision = decide_hosts(view);
  ASSERT_TRUE(decision.next);
  EXPECT_THAT(decision.next->hosts, SizeIs(2));
  EXPECT_THAT(decision.reason, HasSubstr("have lost their connection"));
}

// Three hosts at work who look for each other, and all do.
HostsView three_that_look() {
  HostsView view = two_hosts();
  view.watched_since = view.now - 60s;
  view.hosts.push_back({.number = 3, .name = "c", .heard = view.now});
  for (HostView& host : view.hosts) {
    host.wanted = 1;
    host.links.looks = true;
    for (const std::uint64_t other : {1, 2, 3})
      if (other != host.number) host.links.heard.push_back(other);
  }
  view.present = *decide_hosts(view).next;
  for (HostView& host : view.hosts)
    host.begun = view.present.number;
  return view;
}

void cut(HostsView& view, std::uint64_t a, std::uint64_t b) {
  for (HostView& host : view.hosts) {
    if (host.number != a && host.number != b) continue;
    const std::uint64_t other = host.number == a ? b : a;
    std::erase(host.links.heard, other);
    host.links.unheard.push_back(other);
  }
}

TEST(DecideHosts, OfTwoThatDoNotHearEachOtherOneIsGivenUpAndTheOthersGoOn) {
  HostsView view = three_that_look();
  EXPECT_FALSE(decide_hosts(view).next);
  cut(view, 2, 3);
  const HostsDecision decision = decide_hosts(view);
  ASSERT_THAT(decision.lost, SizeIs(1));
  EXPECT_EQ(decision.lost[0].number, 3U);
  EXPECT_THAT(decision.lost[0].reason, HasSubstr("host b (2) do not hear each other"));
  ASSERT_TRUE(decision.next);
  EXPECT_THAT(decision.next->hosts, SizeIs(2));
}

// What was said while nobody looked may be old: those who have slept are asked anew.
TEST(DecideHosts, ACoordinatorThatHasSleptJudgesNoLinkAtOnce) {
  HostsView view = three_that_look();
  cut(view, 2, 3);
  view.watched_since = view.now - view.patience / 4;
  EXPECT_THAT(decide_hosts(view).lost, IsEmpty());
}

TEST(DecideHosts, WhoDoesNotHearThoseAtWorkIsNotLetInAndKeepsNobodyOut) {
  HostsView view = three_that_look();
  cut(view, 2, 3);
  view.present = *decide_hosts(view).next;
  view.hosts[2].number = 4;  // it has joined again
  for (HostView& host : view.hosts) {
    host.begun = view.present.number;
    std::ranges::replace(host.links.heard, 3U, 4U);
    std::ranges::replace(host.links.unheard, 3U, 4U);
  }
  HostsDecision decision = decide_hosts(view);
  EXPECT_FALSE(decision.next);
  EXPECT_THAT(decision.lost, IsEmpty());
  EXPECT_THAT(decision.held_up, HasSubstr("host c (4) and host b (2) have to hear each other"));
  view.hosts[1].links = {true, {1, 4}, {}};
  view.hosts[2].links = {true, {1, 2}, {}};
  decision = decide_hosts(view);
  ASSERT_TRUE(decision.next);
  EXPECT_THAT(decision.next->hosts, SizeIs(3));
  EXPECT_THAT(decision.held_up, IsEmpty());
}

// A connection that broke because of a cut would break again.
TEST(DecideHosts, ABrokenConnectionIsMendedByAGenerationWhenAllHearEachOther) {
  HostsView view = three_that_look();
  view.broken = view.now - 1s;
  std::erase(view.hosts[1].links.heard, 3U);
  EXPECT_FALSE(decide_hosts(view).next);
  view.hosts[1].links.heard.push_back(3);
  EXPECT_TRUE(decide_hosts(view).next);
}

TEST(DecideHosts, TheFirstGenerationWaitsForTheNetworkBetweenHosts) {
  HostsView view = two_hosts();
  for (HostView& host : view.hosts) {
    host.wanted = 1;
    host.links.looks = true;
  }
  const HostsDecision decision = decide_hosts(view);
  EXPECT_FALSE(decision.next);
  EXPECT_TRUE(decision.waiting);
  EXPECT_EQ(decision.missing, 0U);
  EXPECT_THAT(decision.reason, HasSubstr("the network between hosts"));
}

}  // namespace
}  // namespace muster::control
