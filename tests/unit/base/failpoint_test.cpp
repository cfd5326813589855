// Rules, scopes and every action of failpoints, kills and stops in processes of their own.
#include "muster/base/failpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "muster/base/error.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::status_of_child;

void pass_first() {
  MUSTER_FAILPOINT("test.first");
}
void pass_second() {
  MUSTER_FAILPOINT("test.second");
}
[[maybe_unused, gnu::used]] void never_called() {
  MUSTER_FAILPOINT("test.never_called");
}

class Failpoints : public ::testing::Test {
 protected:
  ~Failpoints() override { disarm_failpoints(); }
};

bool fails(void (*pass)()) {
  try {
    pass();
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    return true;
  }
}

TEST_F(Failpoints, AreListedEvenIfNeverHit) {
  const std::vector<std::string> names = failpoint_names();
  EXPECT_THAT(names, Contains("test.first"));
  EXPECT_THAT(names, Contains("test.second"));
  EXPECT_THAT(names, Contains("test.never_called"));
  EXPECT_THAT(names, Not(Contains("test.unknown")));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST_F(Failpoints, DoNothingWhenNothingIsArmed) {
  pass_first();
  EXPECT_EQ(failpoint_hits("test.first"), 0U);
  arm_failpoints("");
  arm_failpoints(";;");
  pass_first();
  EXPECT_EQ(failpoint_hits("test.first"), 0U);
}

TEST_F(Failpoints, FailWithAnErrorThatNamesThePlace) {
  arm_failpoints("test.first=error");
  const FailpointScope scope(2, 7);
  try {
    pass_first();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 2, step 7: failpoint test.first was told to fail here");
  }
  pass_second();
  EXPECT_EQ(failpoint_hits("test.first"), 1U);
  EXPECT_EQ(failpoint_hits("test.second"), 1U);
  EXPECT_EQ(failpoint_hits("test.never_called"), 0U);
}

TEST_F(Failpoints, ActWhereEveryConditionHolds) {
  arm_failpoints("test.first=error@rank=1,step=3,call=2,attempt=1");
  std::vector<std::string> failed;
  for (int rank = 0; rank < 3; ++rank) {
    for (int step = 2; step < 5; ++step) {
      for (int attempt = 0; attempt < 3; ++attempt) {
        for (int call = 0; call < 4; ++call) {
          const FailpointScope scope(rank, step, attempt);  // one each call: the count is the key's, not the scope's
          if (fails(pass_first))
            failed.push_back(std::to_string(rank) + " " + std::to_string(step) + " " + std::to_string(attempt) + " " +
                             std::to_string(call));
        }
      }
    }
  }
  EXPECT_EQ(failed, std::vector<std::string>{"1 3 1 2"});
}

TEST_F(Failpoints, CountTheCallsOfEachNameAndRankByThemselves) {
  arm_failpoints("test.first=error@call=1;test.second=error@call=1");
  const FailpointScope rank0(0, 5);
  EXPECT_FALSE(fails(pass_first));
  EXPECT_FALSE(fails(pass_second));
  std::thread other([] {
    const FailpointScope rank1(1, 5);
    EXPECT_FALSE(fails(pass_first));
    EXPECT_TRUE(fails(pass_first));
  });
  other.join();
  EXPECT_TRUE(fails(pass_first));
  EXPECT_TRUE(fails(pass_second));
  EXPECT_FALSE(fails(pass_first));
}

TEST_F(Failpoints, ScopesNestAndEnd) {
  arm_failpoints("test.first=error@rank=1");
  EXPECT_FALSE(fails(pass_first));
  {
    const FailpointScope outer(1, 0);
    EXPECT_TRUE(fails(pass_first));
    {
      const FailpointScope inner(0, 0);
      EXPECT_FALSE(fails(pass_first));
    }
    EXPECT_TRUE(fails(pass_first));
  }
  EXPECT_FALSE(fails(pass_first));
}

TEST_F(Failpoints, KillTheProcess) {
  const int status = status_of_child([] {
    arm_failpoints("test.first=kill@step=4");
    for (int step = 0; step < 10; ++step) {
      const FailpointScope scope(0, step);
      if (step == 5) return 5;
      pass_first();
    }
    return 1;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST_F(Failpoints, StopTheProcessUntilItIsContinued) {
  const pid_t child = ::fork();
  if (child == 0) {
    arm_failpoints("test.first=stop");
    pass_first();
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) << status;
  ASSERT_EQ(::kill(child, SIGCONT), 0);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST_F(Failpoints, DelayAtLeastAsLongAsTold) {
  arm_failpoints("test.first=delay=30");
  const auto begin = std::chrono::steady_clock::now();
  pass_first();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
}

TEST_F(Failpoints, OfSeveralRulesAllAct) {
  arm_failpoints("test.first=delay=1;test.second=error@step=1;");
  arm_failpoints("test.first=error@step=2");
  {
    const FailpointScope scope(0, 1);
    EXPECT_FALSE(fails(pass_first));
    EXPECT_TRUE(fails(pass_second));
  }
  const FailpointScope scope(0, 2);
  EXPECT_TRUE(fails(pass_first));
  disarm_failpoints();
  EXPECT_FALSE(fails(pass_first));
  EXPECT_EQ(failpoint_hits("test.first"), 0U);
}

TEST_F(Failpoints, RefuseRulesNamingThePlace) {
  struct Row {
    std::string rules;
    std::string place;
    std::string words;
  };
  const std::vector<Row> table{
      {"test.firts=kill", "character 1:", "no failpoint \"test.firts\" (did you mean \"test.first\"?)"},
      {"=kill", "character 1:", "no failpoint"},
      {"test.first", "character 11:", "an action is expected"},
      {"test.first=", "character 12:", "\"\" is no action"},
      {"test.first=explode", "character 12:", "\"explode\" is no action"},
      {"test.first=kill;test.second=di", "character 29:", "\"di\" is no action"},
      {"test.first=delay", "character 17:", "milliseconds"},
      {"test.first=delay=", "character 18:", "not a number"},
      {"test.first=delay=-1", "character 18:", "not a number"},
      {"test.first=delay=99999999999", "character 18:", "from 0 to 3600000"},
      {"test.first=kill@", "character 17:", "no condition"},
      {"test.first=kill@rank", "character 21:", "a number is expected"},
      {"test.first=kill@rank=", "character 22:", "not a number"},
      {"test.first=kill@rank=x", "character 22:", "not a number"},
      {"test.first=kill@rank=1x", "character 22:", "not a number"},
      {"test.first=kill@rank=1,rank=2", "character 24:", "twice"},
      {"test.first=kill@rank=1,", "character 24:", "no condition"},
      {"test.first=kill@hour=1", "character 17:", "\"hour\" is no condition"},
      {"test.first=kill@rank=1=2", "character 23:", "end of the rule"},
      {"test.first=kill=3", "character 16:", "end of the rule"},
      {"test.first=kill@step=99999999999999999999", "character 22:", "not a number"},
  };
  for (const Row& row : table) {
    try {
      arm_failpoints("test.first=error;" + row.rules);
      ADD_FAILURE() << row.rules;
    } catch (const Error&) {
    }
    EXPECT_FALSE(fails(pass_first)) << "a rule before a wrong one was armed: " << row.rules;
    try {
      arm_failpoints(row.rules);
      ADD_FAILURE() << row.rules;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      EXPECT_THAT(error.what(), HasSubstr(row.place)) << row.rules;
      EXPECT_THAT(error.what(), HasSubstr(row.words)) << row.rules;
    }
  }
}

TEST_F(Failpoints, AThreadIsItsStartersWhenItIsTold) {
  arm_failpoints("test.first=error@rank=3,step=7,attempt=1");
  const FailpointScope scope(3, 7, 1);
  bool untold = true;
  bool told = false;
  std::thread([&] { untold = fails(pass_first); }).join();
  std::thread([&, key = FailpointScope::current()] {
    const FailpointScope same(key);
    told = fails(pass_first);
  }).join();
  EXPECT_FALSE(untold);
  EXPECT_TRUE(told);
}

TEST_F(Failpoints, MayBeHitByManyThreads) {
  arm_failpoints("test.first=error@rank=99");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([rank] {
      for (int step = 0; step < 200; ++step) {
        const FailpointScope scope(rank, step);
        pass_first();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(failpoint_hits("test.first"), 800U);
}

}  // namespace
}  // namespace muster
