// When a round of real clients is over, and what is said of those who did not answer.
#include "muster/federated/live_round.h"

#include <gtest/gtest.h>

namespace muster::federated {
namespace {

using Reply = AskedClient::Reply;

std::vector<AskedClient> replies(std::initializer_list<Reply> all) {
  std::vector<AskedClient> asked;
  for (const Reply reply : all)
    asked.push_back({asked.size(), reply});
  return asked;
}

Options round_of(std::int64_t per_round) {
  Options options;
  options.clients = 10;
  options.per_round = per_round;
  return options;
}

TEST(LiveRound, EndsWithEnoughUpdatesAndTheRestIsLate) {
  const auto asked = replies({Reply::kAccepted, Reply::kNone, Reply::kAccepted, Reply::kRefused});
  EXPECT_FALSE(judge_round(round_of(3), asked, 5).over);
  const RoundVerdict verdict = judge_round(round_of(2), asked, 5);
  EXPECT_TRUE(verdict.over);
  EXPECT_TRUE(verdict.changes);
  EXPECT_EQ(verdict.accepted, 2U);
  EXPECT_EQ(verdict.refused, 1U);
  EXPECT_EQ(verdict.late, 1U);
  EXPECT_EQ(verdict.dropped, 0U);
}

TEST(LiveRound, EndsWhenNobodyIsLeftOrAtTheDeadline) {
  auto asked = replies({Reply::kAccepted, Reply::kNone, Reply::kNone});
  Options options = round_of(3);
  options.least = 2;
  EXPECT_FALSE(judge_round(options, asked, 1e6).over);
  options.deadline_seconds = 10;
  EXPECT_FALSE(judge_round(options, asked, 9.9).over);
  const RoundVerdict at_deadline = judge_round(options, asked, 10);
  EXPECT_TRUE(at_deadline.over);
  EXPECT_FALSE(at_deadline.changes);
  EXPECT_EQ(at_deadline.dropped, 2U);
  EXPECT_NE(at_deadline.reason.find("federated.least is 2"), std::string::npos);
  asked[1].silent = asked[2].silent = true;
  EXPECT_TRUE(judge_round(options, asked, 1).over);
  asked[2].reply = Reply::kAccepted;
  EXPECT_TRUE(judge_round(options, asked, 1).changes);
}

TEST(LiveRound, WithNoiseAllThatWereDrawnCountAndNoneIsFine) {
  Options options = round_of(1);
  options.noise = 1;
  options.clip = 1;
  EXPECT_FALSE(judge_round(options, replies({Reply::kAccepted, Reply::kNone}), 1).over);
  const RoundVerdict none = judge_round(options, {}, 0);
  EXPECT_TRUE(none.over);
  EXPECT_TRUE(none.changes);
}

}  // namespace
}  // namespace muster::federated
