// What an agent decides, and how fast its host's workers are.
#include "muster/coordinator/agent.h"

#include <signal.h>

#include <gtest/gtest.h>

#include "muster/coordinator/host_speed.h"

namespace muster::coordinator {
namespace {

using namespace std::chrono_literals;
using control::Orders;

TEST(AgentDecision, SaysWhatEndsTheWorkersAndWhen) {
  const Clock::Instant now(100s);
  const auto decide = [&](AgentView view) {
    view.now = now;
    view.grace = 10s;
    const AgentDecision decision = decide_agent(view);
    EXPECT_EQ(decision.reason.empty(), decision.signal == 0 && !decision.announce);
    return std::pair(decision.announce, decision.signal);
  };
  EXPECT_EQ(decide({}), std::pair(false, 0));
  // Ctrl-C here: the others are told first.
  EXPECT_EQ(decide({.requested = SIGINT, .asked = now}), std::pair(true, 0));
  EXPECT_EQ(decide({.requested = SIGINT, .asked = now, .gone = true}), std::pair(true, SIGKILL));
  EXPECT_EQ(decide({.requested = SIGINT, .asked = now - 4s}), std::pair(true, SIGKILL))
      << "nobody may be there to hear";
  EXPECT_EQ(decide({.requested = SIGKILL, .asked = now}), std::pair(true, SIGKILL));
  EXPECT_EQ(decide({.at_once = true}), std::pair(false, SIGKILL));
  EXPECT_EQ(decide({.over = now - 5s}), std::pair(false, 0)) << "workers see themselves that all is done";
  EXPECT_EQ(decide({.over = now - 31s}), std::pair(false, SIGKILL));
  EXPECT_EQ(decide({.over = now - 5s, .failed = true}), std::pair(false, SIGTERM));
  EXPECT_EQ(decide({.over = now - 11s, .failed = true}), std::pair(false, SIGKILL));
  EXPECT_EQ(decide({.abandoned = now - 1s}), std::pair(false, SIGTERM));
  EXPECT_EQ(decide({.abandoned = now - 11s}), std::pair(false, SIGKILL));
}

TEST(AgentDecision, ASignalToAllHostsStopsTheJobInsteadOfLeavingIt) {
  const Clock::Instant now(100s);
  const AgentView all{.now = now, .requested = SIGTERM, .asked = now, .together = true, .grace = 10s};
  AgentDecision decision = decide_agent(all);
  EXPECT_TRUE(decision.stop);
  EXPECT_FALSE(decision.announce);
  EXPECT_EQ(decision.signal, 0) << "the order to stop comes from the coordinator";
  AgentView late = all;
  late.asked = now - 14s;
  EXPECT_EQ(decide_agent(late).signal, SIGKILL) << "it had its grace";
  // Without a coordinator, and for a second signal, all is as it was.
  AgentView alone = all;
  alone.abandoned = now;
  EXPECT_TRUE(decide_agent(alone).announce);
  AgentView again = all;
  again.requested = SIGKILL;
  EXPECT_EQ(decide_agent(again).signal, SIGKILL);
}

TEST(AgentDecision, SaysHowAnAgentEndsWhateverCameFirst) {
  const Error away(ErrorKind::kPeerLost, "away");
  const auto end = [](const AgentEndView& view) {
    const AgentEnd decided = decide_agent_end(view);
    return decided.failure ? decided.failure->message() : std::to_string(decided.code);
  };
  // The job has finished, whether or not that was heard of, and somebody stopped it too late.
  for (const Orders& orders : {Orders{}, Orders{.over = ""}, Orders{.stop = true}, Orders{.stop = true, .over = ""}})
    EXPECT_EQ(end({.code = 0, .orders = orders}), "0");
  // It was stopped: workers know it from each other before the order came, or from the order; or they were killed.
  for (const Orders& orders : {Orders{}, Orders{.over = ""}, Orders{.stop = true}, Orders{.stop = true, .over = ""}})
    EXPECT_EQ(end({.code = 143, .orders = orders}), "143");
  for (const int code : {1, 130, 137})
    EXPECT_EQ(end({.code = code, .orders = {.stop = true, .over = ""}}), "143");
  EXPECT_EQ(end({.code = 137, .orders = {.at_once = true}}), "143");
  EXPECT_EQ(end({.code = 1}), "1") << "as the workers";
  EXPECT_EQ(end({.code = 143, .orders = {.stop = true, .over = "the disk is full"}}),
            "the job has failed: the disk is full");
  EXPECT_EQ(end({.code = 143, .abandoned = away}), "away");
  EXPECT_EQ(end({.code = 137, .left = SIGINT, .abandoned = away, .orders = {.stop = true}}), "130");
}

TEST(HostSpeed, CountsLanesAgainstTheTimeInWhichWorkersCompute) {
  HostSpeed speed;
  HostSpeed::Moment moment{.now = Clock::Instant(0s), .generation = 1, .step = 0, .lanes = 4, .computing = 1};
  EXPECT_EQ(speed.lanes_per_second(), 0);
  const auto train = [&](int seconds, int computing) {
    for (int tenth = 0; tenth < 10 * seconds; ++tenth) {
      moment.now += 100ms;
      moment.step += 1;  // 40 lanes a second
      moment.computing = computing;
      speed.see(moment);
    }
  };
  train(1, 1);
  EXPECT_EQ(speed.lanes_per_second(), 0) << "not enough to tell";
  train(9, 1);
  EXPECT_NEAR(speed.lanes_per_second(), 40, 1);
  train(100, 2);
  EXPECT_NEAR(speed.lanes_per_second(), 20, 1) << "of one worker; what was before is forgotten";
  const double before = speed.lanes_per_second();
  moment.now += 60s;
  moment.step += 1000;
  speed.see(moment);
  EXPECT_EQ(speed.lanes_per_second(), before) << "nobody looked for a while";
  moment.now += 100ms;
  moment.generation = 2;
  moment.step += 1000;
  speed.see(moment);
  EXPECT_EQ(speed.lanes_per_second(), before) << "in another generation it had other lanes";
}

}  // namespace
}  // namespace muster::coordinator
