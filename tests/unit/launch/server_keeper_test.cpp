// When processes of parameter servers are replaced and killed, on a clock that is turned by hand. What they hold is
// decided in control/server_map.h; servers that serve are in tests/faults/server_loss_test.cpp.
#include "muster/launch/server_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/control/server_places.h"
#include "muster/launch/worker_words.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ServerKeeperTest : public ::testing::Test {
 protected:
  ServerKeeper keep(const std::string& script, int servers = 1) {
    ServerKeeperOptions options;
    options.command = {"sh", {"-c", script}, {}};
    options.servers = servers;
    options.tell = [this](const std::string& line) { told_ += line + "\n"; };
    return ServerKeeper(std::move(options), store_.path(), clock_);
  }
  // Looks, without any time of the policy's, until its process is another one than `before`.
  static std::int32_t next_after(ServerKeeper& keeper, std::int32_t before) {
    const bool changed = testing::eventually([&] {
      keeper.look();
      return keeper.pids()[0] != before;
    });
    EXPECT_TRUE(changed) << "nothing happened to process " << before;
    return keeper.pids()[0];
  }

  // Looks until it throws; what it says then.
  std::string words_of_giving_up(ServerKeeper& keeper) {
    std::string words;
    const bool threw = testing::eventually([&] {
      try {
        keeper.look();
        clock_.advance(1s);
        return false;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
        words = error.what();
        return true;
      }
    });
    EXPECT_TRUE(threw) << "nobody gave up; told: " << told_;
    return words;
  }
  // What workers and the first process of each server say when they are ready.
  void let_them_serve(std::uint32_t servers, int copies) {
    const auto store = comm::make_file_store(store_.path());
    store->set(control::kChunksKey, "4");
    store->set(control::kCopiesKey, std::to_string(copies));
    for (std::uint32_t number = 0; number < servers; ++number)
      store->set(control::server_key(number, 0), "somewhere");
  }

  FakeClock clock_;
  const muster::testing::TemporaryFolder store_;
  std::string told_;
};

TEST_F(ServerKeeperTest, AHostOfSeveralRunsWhatIsPlacedThereAndLeavesMapsToOthers) {
  std::vector<OwnServer> own;
  ServerKeeperOptions options;
  options.command = {"sh", {"-c", "sleep 1000"}, {}};
  options.servers = 3;
  options.own = [&] { return own; };
  ServerKeeper keeper(std::move(options), store_.path(), clock_);
  let_them_serve(3, 1);
  keeper.look();
  EXPECT_THAT(keeper.pids(), ::testing::Each(0)) << "nothing is placed yet";
  own = {{1, 0}};
  keeper.look();
  const std::int32_t process = keeper.pids()[1];
  EXPECT_NE(process, 0);
  EXPECT_EQ(keeper.pids()[0] + keeper.pids()[2], 0);
  EXPECT_FALSE(keeper.map()) << "another one decides";
  const auto store = comm::make_file_store(store_.path());
  store->set(control::map_key(1), control::first_map(4, 1, {{}, {"here", 0}, {}}).to_text());
  keeper.look();
  ASSERT_TRUE(keeper.map());
  EXPECT_EQ(keeper.map()->generation, 1U);
  EXPECT_EQ(keeper.processes(), (std::vector<std::uint32_t>{0, 1, 0}));

  // It dies: whoever decides has to know.
  ::kill(process, SIGKILL);
  const auto gone = [&](std::uint32_t server, std::uint32_t attempt) {
    return comm::values_in_file_store(store_.path(), control::kServersGone)
        .contains(control::server_gone_key(server, attempt));
  };
  EXPECT_FALSE(gone(1, 0));
  EXPECT_TRUE(testing::eventually([&] {
    keeper.look();
    return gone(1, 0) && keeper.pids()[1] != 0 && keeper.pids()[1] != process;
  }));
  EXPECT_FALSE(gone(1, 1));

  // Placed elsewhere, and back again under later attempts.
  own = {{0, 10'000}};
  EXPECT_TRUE(testing::eventually([&] {
    keeper.look();
    return keeper.pids()[1] == 0 && keeper.pids()[0] != 0;
  }));
  EXPECT_TRUE(gone(1, 1));
  EXPECT_FALSE(gone(0, 0)) << "a process that was never here";
  EXPECT_EQ(keeper.processes()[0], 10'001U);
  own = {{1, 20'000}};
  EXPECT_TRUE(testing::eventually([&] {
    keeper.look();
    return keeper.pids()[0] == 0 && keeper.pids()[1] != 0;
  }));
  EXPECT_EQ(keeper.processes()[1], 20'001U);
}

TEST_F(ServerKeeperTest, AKeeperThatBeginsAnewCountsOnAndSaysWhoIsGone) {
  ServerKeeperOptions options;
  options.command = {"sh", {"-c", "sleep 1000"}, {}};
  options.servers = 1;
  options.own = [] { return std::vector<OwnServer>{{0, 0}}; };
  options.used = {2};
  ServerKeeper keeper(std::move(options), store_.path(), clock_);
  keeper.look();
  EXPECT_EQ(keeper.processes(), std::vector<std::uint32_t>{3});
  EXPECT_EQ(comm::values_in_file_store(store_.path(), control::kServersGone).size(), 2U);
}

TEST_F(ServerKeeperTest, OneThatDiesAgainAndAgainIsReplacedLessAndLessOften) {
  ServerKeeper keeper = keep("exit 3");
  std::int32_t process = next_after(keeper, keeper.pids()[0]);
  EXPECT_NE(process, 0) << "the first failure is made good at once";
  for (const std::chrono::seconds pause : {1s, 2s, 4s}) {
    EXPECT_EQ(next_after(keeper, process), 0) << pause.count() << " s";
    clock_.advance(pause - 1ns);
    keeper.look();
    EXPECT_EQ(keeper.pids()[0], 0) << "before its time";
    clock_.advance(1ns);
    keeper.look();
    process = keeper.pids()[0];
    EXPECT_NE(process, 0) << pause.count() << " s";
  }
  EXPECT_THAT(words_of_giving_up(keeper), HasSubstr("exit code 3"));
  EXPECT_THAT(told_, HasSubstr("is lost: exit code 3"));
}

// A job without servers waits for them, and nobody would tell it that they never come.
TEST_F(ServerKeeperTest, OneThatCanNeverStartEndsTheJobWithWhatItSaid) {
  ServerKeeper keeper = keep("exit 1");
  for (std::uint32_t attempt = 0; attempt < 5; ++attempt)
    leave_server_reason(store_.path(), 0, attempt, fmt::format("no room for try {}", attempt));
  EXPECT_THAT(words_of_giving_up(keeper),
              AllOf(HasSubstr("parameter server 0 has failed 5 times in a row"),
                    HasSubstr("before the job could begin"), HasSubstr("no room for try 4")));
}

TEST_F(ServerKeeperTest, OneThatSaidNothingIsNamedWithItsEnd) {
  ServerKeeper keeper = keep("kill -XFSZ $$");
  EXPECT_THAT(words_of_giving_up(keeper), HasSubstr("signal"));
}

// It may have waited for the job's data before it failed: that it took long does not make it a good one.
TEST_F(ServerKeeperTest, OneThatTakesLongToFailIsNoBetter) {
  ServerKeeper keeper = keep("exec sleep 600");
  std::string words;
  for (int tries = 0; words.empty() && tries < 20; ++tries) {
    clock_.advance(10min);
    try {
      const std::int32_t process = keeper.pids()[0];
      if (process != 0) ::kill(process, SIGKILL);
      next_after(keeper, process);
    } catch (const Error& error) {
      words = error.what();
    }
  }
  EXPECT_THAT(words, HasSubstr("has failed 5 times in a row"));
}

TEST_F(ServerKeeperTest, OneThatAloneHadChunksAndNeverComesBackEndsTheJob) {
  let_them_serve(1, 1);
  ServerKeeper keeper = keep("[ $MUSTER_ATTEMPT = 0 ] && exec sleep 600; exit 7");
  keeper.look();
  ASSERT_EQ(keeper.count().serving, 1);
  ASSERT_EQ(::kill(keeper.pids()[0], SIGKILL), 0);
  EXPECT_THAT(words_of_giving_up(keeper), AllOf(HasSubstr("nobody else has its part of the model"),
                                                HasSubstr("exit code 7"), HasSubstr("--resume")));
}

TEST_F(ServerKeeperTest, OneWhoseChunksOthersHaveIsTriedAgainAfterAWhile) {
  let_them_serve(2, 2);
  ServerKeeper keeper = keep("[ $MUSTER_RANK-$MUSTER_ATTEMPT = 1-0 -o $MUSTER_RANK = 0 ] && exec sleep 600; exit 7", 2);
  keeper.look();
  ASSERT_EQ(keeper.count().serving, 2);
  ASSERT_EQ(::kill(keeper.pids()[1], SIGKILL), 0);
  for (int tries = 0; tries < 8; ++tries) {
    const std::int32_t before = keeper.pids()[1];
    ASSERT_TRUE(testing::eventually([&] {
      keeper.look();
      return keeper.pids()[1] != before;
    })) << tries;
    if (keeper.pids()[1] == 0) clock_.advance(10min);
  }
  EXPECT_EQ(keeper.count().serving, 1);
}

TEST_F(ServerKeeperTest, OneThatIsStoppedIsKilledAfterItsTime) {
  ServerKeeper keeper = keep("exec sleep 600");
  const std::int32_t process = keeper.pids()[0];
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  ASSERT_TRUE(testing::eventually([&] { return state_of(process_of(process)) == ProcessState::kStopped; }));
  keeper.look();
  clock_.advance(2s);
  keeper.look();
  EXPECT_EQ(keeper.pids()[0], process);
  clock_.advance(1ns);
  EXPECT_NE(next_after(keeper, process), 0);
  EXPECT_THAT(told_, HasSubstr("has been stopped for 2.0 s: it is killed"));
}

}  // namespace
}  // namespace muster::launch
