// Ranks under a real mpirun (mpi_ranks.cpp), on the loopback interface alone.
#include "muster/comm/mpi_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "support/command.h"
#include "support/sandbox.h"

namespace muster::comm {
namespace {

using ::testing::HasSubstr;

testing::CommandResult run_mpi_ranks(int ranks, const std::string& argument) {
  const testing::TemporaryFolder session;  // where mpirun keeps its sockets and shared memory
  const testing::TemporaryFolder shared;
  std::istringstream text(
      fmt::format("env ASAN_OPTIONS=detect_leaks=0 MUSTER_TEST_FOLDER={} TMPDIR={} "  // MPI keeps what it allocates
                  "mpirun --allow-run-as-root --oversubscribe --bind-to none -n {} "
                  "--mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include lo",
                  shared.path().string(), session.path().string(), ranks));
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  words.insert(words.end(), {MUSTER_MPI_RANKS, argument});
  return testing::run_command(words);
}

class MpiJob : public ::testing::TestWithParam<int> {};

TEST_P(MpiJob, RanksPassAllTheirCases) {
  const auto result = run_mpi_ranks(GetParam(), "--gtest_brief=1");
  EXPECT_EQ(result.exit_code, 0) << result.out;
}
INSTANTIATE_TEST_SUITE_P(Ranks, MpiJob, ::testing::Values(1, 2, 3, 4, 7));

TEST(MpiTransport, AStoppedPeerIsATimeOutThatNamesIt) {
  const auto result = run_mpi_ranks(2, "stop");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.signal, 0) << "mpirun did not end: " << result.out;
  EXPECT_THAT(result.out, HasSubstr("rank 0: timeout: rank 0 of scene: mpi: waited in vain for 8 B from rank 1"));
}

TEST(MpiTransport, AKilledRankEndsTheJob) {
  const auto result = run_mpi_ranks(3, "die");
  EXPECT_NE(result.exit_code, 0) << result.out;
  EXPECT_EQ(result.signal, 0) << "mpirun did not end: " << result.out;
}

TEST(MpiTransport, AMessageGivenUpHalfWayEndsTheUseOfMpi) {
  const auto result = run_mpi_ranks(2, "give-up");
  EXPECT_NE(result.exit_code, 0) << "the job must not look well";
  EXPECT_EQ(result.signal, 0) << "mpirun did not end: " << result.out;
  EXPECT_THAT(result.out, HasSubstr("rank 1 did not take"));
  EXPECT_THAT(result.out, HasSubstr("this process can no longer use MPI: a message to rank 1 of scene"));
}

TEST(MpiTransport, AnAbortReachesEveryRank) {
  const auto result = run_mpi_ranks(3, "abort");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(result.out,
                HasSubstr(fmt::format(
                    "rank {0}: peer_lost: rank {0} of scene: mpi: rank 1 is lost: its parent saw it die", rank)));
}

TEST(MpiTransport, TheEndDoesNotWaitForeverForARankAtWork) {
  const auto result = run_mpi_ranks(2, "leave");
  EXPECT_NE(result.exit_code, 0) << result.out;
  EXPECT_EQ(result.signal, 0) << "mpirun did not end: " << result.out;
}

TEST(MpiTransport, TheLibraryIsNamedWithoutStartingIt) {
  EXPECT_TRUE(mpi_available());
  EXPECT_THAT(mpi_library(), HasSubstr("MPI"));
  EXPECT_THAT(mpi_library(), ::testing::Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace muster::comm
