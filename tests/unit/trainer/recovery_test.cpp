// What is done again when a worker is lost, and what is not.
#include "muster/trainer/recovery.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace muster::trainer {
namespace {

Error peer_lost(const std::string& who) {
  return {ErrorKind::kPeerLost, who};
}

TEST(SurviveLosses, GivesWhatTheWorkGivesAndRecoversFromNothing) {
  int recovered = 0;
  EXPECT_EQ(survive_losses(
                true, [&](const Error&) { ++recovered; }, [] { return 7; }),
            7);
  EXPECT_EQ(recovered, 0);
}

TEST(SurviveLosses, RecoversFromEachLossAndDoesTheWorkAgain) {
  std::vector<std::string> done;
  int tries = 0;
  const int result = survive_losses(
      true, [&](const Error& loss) { done.push_back("recover from " + loss.message()); },
      [&] {
        done.push_back("work");
        if (++tries < 3) throw peer_lost("loss " + std::to_string(tries));
        return tries;
      });
  EXPECT_EQ(result, 3);
  EXPECT_EQ(done, (std::vector<std::string>{"work", "recover from loss 1", "work", "recover from loss 2", "work"}));
}

TEST(SurviveLosses, ALossWhileRecoveringIsRecoveredFromBeforeAnyWork) {
  std::vector<std::string> done;
  bool first = true;
  survive_losses(
      true,
      [&](const Error& loss) {
        done.push_back("recover from " + loss.message());
        if (std::exchange(first, false)) throw peer_lost("the second");
      },
      [&] {
        done.push_back("work");
        if (done.size() == 1) throw peer_lost("the first");
      });
  EXPECT_EQ(done, (std::vector<std::string>{"work", "recover from the first", "recover from the second", "work"}));
}

TEST(SurviveLosses, WhereNobodyIsReplacedALossEndsIt) {
  int recovered = 0;
  EXPECT_THROW(survive_losses(
                   false, [&](const Error&) { ++recovered; }, [] { throw peer_lost("worker 1"); }),
               Error);
  EXPECT_EQ(recovered, 0);
}

TEST(SurviveLosses, OtherErrorsAreNotRecoveredFrom) {
  int recovered = 0;
  try {
    survive_losses(
        true, [&](const Error&) { ++recovered; }, [] { throw Error(ErrorKind::kTimeout, "too late"); });
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  }
  EXPECT_EQ(recovered, 0);
}

}  // namespace
}  // namespace muster::trainer
