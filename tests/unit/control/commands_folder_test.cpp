// Of a host that has coordinated a job and later had an agent of it, or the other way round, the record that speaks is
// the one of its present part.
#include "muster/control/commands_folder.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "muster/base/process.h"
#include "muster/control/access_token.h"
#include "muster/control/job_record.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

class CommandsFolderTest : public ::testing::Test {
 protected:
  CommandsFolderTest() { std::filesystem::create_directories(agents()); }
  std::filesystem::path run() const { return folder_.path(); }
  std::filesystem::path agents() const { return host_folder(run()); }

  // Somebody serves commands there, in that term of the job, and is gone again unless it `lives`.
  static void serve(const std::filesystem::path& folder, std::uint64_t term, bool lives = false,
                    const std::string& job = "the job") {
    JobRecord record(make_sqlite_store(store_file(folder)));
    record.take_over(this_process(), true);
    record.begin({"far", folder.string(), "", ""}, {});
    LedCluster cluster;
    cluster.identity = job;
    cluster.term = term;
    record.put_cluster(cluster);
    record.put_endpoint("somewhere");
    if (!lives) record.release();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(CommandsFolderTest, WhoHasOnlyCoordinatedOrOnlyHadAnAgentHasNoChoice) {
  serve(run(), 1);
  EXPECT_EQ(commands_folder(run()), run());
  std::filesystem::remove(store_file(run()));
  serve(agents(), 1);
  EXPECT_EQ(commands_folder(run()), agents());
}

// Its coordinator was lost with all of the host, another host has taken over, and this one is back with an agent.
TEST_F(CommandsFolderTest, AnAgentOfALaterTermSpeaksThoughThisHostCoordinatedBefore) {
  serve(run(), 1);
  serve(agents(), 2, true);
  EXPECT_EQ(commands_folder(run()), agents());
  serve(agents(), 2);  // the agent is lost as well
  EXPECT_EQ(commands_folder(run()), agents());
}

TEST_F(CommandsFolderTest, ACoordinatorOfALaterTermSpeaksThoughThisHostHadAnAgentBefore) {
  serve(agents(), 2);
  serve(run(), 3, true);
  EXPECT_EQ(commands_folder(run()), run());
  serve(run(), 3);
  EXPECT_EQ(commands_folder(run()), run());
}

// Terms of a job that was started anew say nothing about those of the one before: whoever lives speaks.
TEST_F(CommandsFolderTest, OfAJobThatWasStartedAnewTheLivingSpeak) {
  serve(agents(), 5);
  serve(run(), 1, true, "another");
  EXPECT_EQ(commands_folder(run()), run());
  serve(run(), 1, false, "another");
  EXPECT_EQ(commands_folder(run()), run());
  serve(agents(), 1, true, "a third");
  EXPECT_EQ(commands_folder(run()), agents());
}

}  // namespace
}  // namespace muster::control
