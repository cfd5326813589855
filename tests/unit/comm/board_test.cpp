// The board with ranks as threads, where the thread sanitizer sees them, and as processes that die, stop and leave.
#include "muster/comm/board.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/ranks.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;

// A board and one word for each rank, in memory that children share.
class SharedBoard {
 public:
  explicit SharedBoard(int ranks) : ranks_(ranks) {
    memory_ = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }
  ~SharedBoard() { ::munmap(memory_, kBytes); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;

  Board board(int self) const { return {{static_cast<std::byte*>(memory_), kBytes / 2}, ranks_, self}; }
  std::atomic<std::uint64_t>& word(int rank) const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(static_cast<std::byte*>(memory_) + kBytes / 2 + rank * 64);
  }

 private:
  static constexpr std::size_t kBytes = 65536;
  int ranks_;
  void* memory_;
};

std::string nothing() {
  return "done what the test waits for";
}

void barrier(const SharedBoard& shared, Board& board, std::uint64_t round) {
  shared.word(board.self()).store(round);
  board.announce();
  for (int peer = 0; peer < board.ranks(); ++peer)
    board.wait(
        peer, [&] { return shared.word(peer).load() >= round; }, Deadline::after(60s), nothing);
}

class BoardRanks : public ::testing::TestWithParam<int> {};
// 16 threads on a few cores: nearly every wait ends in a sleep.
INSTANTIATE_TEST_SUITE_P(Board, BoardRanks, ::testing::Values(1, 2, 3, 4, 7, 16));

TEST_P(BoardRanks, NoWakeUpIsMissedInThousandsOfBarriers) {
  const SharedBoard shared(GetParam());
  std::vector<std::uint64_t> plain(static_cast<std::size_t>(GetParam()));  // the barrier alone orders accesses to it
  muster::testing::run_ranks(GetParam(), [&](int rank) {
    Board board = shared.board(rank);
    board.sit();
    for (std::uint64_t round = 1; round <= 4000; round += 2) {
      plain[static_cast<std::size_t>(rank)] = round;
      barrier(shared, board, round);
      for (const std::uint64_t value : plain)
        ASSERT_EQ(value, round);
      barrier(shared, board, round + 1);
    }
  });
}

TEST(Board, ADeadlineEndsAWaitAndTheErrorNamesTheRank) {
  const SharedBoard shared(3);
  Board board = shared.board(0);
  board.sit();
  shared.board(2).sit();
  try {
    board.wait(
        2, [] { return false; }, Deadline::after(20ms), nothing);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_NE(error.message().find("rank 2 (pid"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("running) has not done what the test waits for"), std::string::npos) << error.what();
  }
  try {
    board.wait(
        1, [] { return false; }, Deadline::after(20ms), nothing);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("rank 1 (which never joined)"), std::string::npos) << error.what();
  }
}

TEST(Board, WhoTakesASeatHasNothingOfWhatTheOneBeforeWasAt) {
  const SharedBoard shared(2);
  Board first = shared.board(1);
  first.sit();
  first.begin(Activity::kComputing);
  const Board::Doing before = shared.board(kAnyRank).doing(1);
  ASSERT_EQ(before.activity, Activity::kComputing);
  shared.board(1).sit();
  const Board::Doing after = shared.board(kAnyRank).doing(1);
  EXPECT_EQ(after.activity, Activity::kNothing);
  EXPECT_GE(after.since, before.since);
}

TEST(Board, AFailureWakesEveryoneNamesTheRankAndTheFirstOneStays) {
  const SharedBoard shared(4);
  std::atomic<int> waiting{0};
  muster::testing::run_ranks(4, [&](int rank) {
    Board board = shared.board(rank);
    board.sit();
    if (rank == 3) {
      while (waiting.load() < 3)
        std::this_thread::yield();
      EXPECT_TRUE(board.fail(2, ErrorKind::kPeerLost, "rank 2 was eaten"));
      EXPECT_FALSE(board.fail(1, ErrorKind::kTimeout, "later"));
      return;
    }
    ++waiting;
    try {
      board.wait(
          kAnyRank, [] { return false; }, Deadline::after(60s), nothing);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
      EXPECT_EQ(error.message(), "rank 2 was eaten");
    }
  });
  const std::optional<Failure> failure = shared.board(0).failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
}

TEST(Board, AnotherGenerationLeavesFailuresBehindAndLateReportsOutside) {
  const SharedBoard shared(2);
  Board old_member = shared.board(0);
  Board member = shared.board(1);
  EXPECT_TRUE(old_member.fail(1, ErrorKind::kPeerLost, "first"));
  EXPECT_TRUE(member.failed());
  member.set_generation(1);
  EXPECT_FALSE(member.failed());
  EXPECT_TRUE(member.fail(0, ErrorKind::kTimeout, "second"));
  EXPECT_FALSE(old_member.fail(1, ErrorKind::kPeerLost, "too late"));
  EXPECT_EQ(member.failure()->reason, "second");
}

TEST(Board, ALongReasonIsCutAndNotSpilled) {
  const SharedBoard shared(1);
  Board board = shared.board(0);
  board.fail(0, ErrorKind::kIo, std::string(5000, 'x'));
  EXPECT_LT(board.failure()->reason.size(), 500U);
  EXPECT_FALSE(board.seated(0));
}

TEST(Board, HeartbeatsMoveForward) {
  const SharedBoard shared(2);
  Board board = shared.board(1);
  EXPECT_EQ(shared.board(0).last_beat(1).count(), 0);
  board.sit();
  const auto first = shared.board(0).last_beat(1);
  EXPECT_GT(first.count(), 0);
  board.beat();
  EXPECT_GE(shared.board(0).last_beat(1), first);
}

// A child in seat 1 that sits down and then does `body`.
template <typename Body>
pid_t start_rank(const SharedBoard& shared, const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    Board board = shared.board(1);
    board.sit();
    body(board);
    ::_exit(0);
  }
  while (!shared.board(0).seated(1))
    std::this_thread::yield();
  return child;
}

void sleep_for_ever(Board&) {
  for (;;)
    ::pause();
}

Error error_of_wait(Board& board, std::chrono::nanoseconds limit) {
  try {
    board.wait(
        1, [] { return false; }, Deadline::after(limit), nothing);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kIo, "the wait ended well");
}

TEST(Board, TheDeathOfAPeerEndsTheWaitWithoutAnyoneReportingIt) {
  const SharedBoard shared(2);
  Board board = shared.board(0);
  board.sit();
  const pid_t child = start_rank(shared, sleep_for_ever);
  ASSERT_EQ(::kill(child, SIGKILL), 0);  // and not reaped until the wait is over
  const Error error = error_of_wait(board, 60s);
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
  EXPECT_NE(error.message().find("rank 1 (pid " + std::to_string(child) + ") died"), std::string::npos) << error.what();
  ::waitpid(child, nullptr, 0);
}

TEST(Board, AStoppedPeerIsATimeoutThatSaysStopped) {
  const SharedBoard shared(2);
  Board board = shared.board(0);
  board.sit();
  const pid_t child = start_rank(shared, sleep_for_ever);
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  ::waitpid(child, nullptr, WUNTRACED);
  const Error error = error_of_wait(board, 100ms);
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
  EXPECT_NE(error.message().find("stopped) has not"), std::string::npos) << error.what();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Board, APeerThatLeftIsLostAtOnceButWhatItDidBeforeCounts) {
  const SharedBoard shared(2);
  Board board = shared.board(0);
  board.sit();
  const pid_t child = start_rank(shared, [&](Board& peer) {
    shared.word(1).store(7);
    peer.announce();
    peer.leave();
    sleep_for_ever(peer);
  });
  board.wait(
      1, [&] { return shared.word(1).load() == 7; }, Deadline::after(60s), nothing);
  const Error error = error_of_wait(board, 60s);
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
  EXPECT_NE(error.message().find("rank 1 left and had not"), std::string::npos) << error.what();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Board, AWaitEndsWithWhatItsInterruptionThrows) {
  const SharedBoard shared(2);
  Board board = shared.board(0);
  board.sit();
  int calls = 0;
  board.set_interruption([&] {
    if (++calls == 2) throw Error(ErrorKind::kInterrupted, "enough");
  });
  EXPECT_EQ(error_of_wait(board, 60s).kind(), ErrorKind::kInterrupted);
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(board.failed()) << "it is this rank's own affair";
  board.set_interruption({});
  EXPECT_EQ(error_of_wait(board, 60ms).kind(), ErrorKind::kTimeout);
}

TEST(Board, ADeathIsToldEvenIfTheWaitIsInterruptedAsWell) {
  const SharedBoard shared(2);
  Board board = shared.board(0);
  board.sit();
  const pid_t child = start_rank(shared, sleep_for_ever);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  board.set_interruption([] { throw Error(ErrorKind::kInterrupted, "enough"); });
  EXPECT_EQ(error_of_wait(board, 60s).kind(), ErrorKind::kPeerLost);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace muster::comm
