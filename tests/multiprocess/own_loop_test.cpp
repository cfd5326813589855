// A user's own loop that a lost worker ends: started again by muster run it goes on from its own checkpoint, and ends
// with the weights of a run in which nobody was lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

Finished run(const std::filesystem::path& folder, const std::string& mode, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), {"run", "-n", "3"});
  flags.insert(flags.end(), {OWN_LOOP, mode});
  return testing::run_program(folder, flags);
}

TEST(OwnLoop, StartedAgainItEndsWithTheSameWeights) {
  const TemporaryFolder usual;
  const Finished whole = run(usual.path(), "train");
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  ASSERT_THAT(whole.out, ::testing::StartsWith("weights "));
  for (const std::string mode : {"killed", "killed-first"}) {
    const TemporaryFolder folder;
    const Finished hurt = run(folder.path(), mode, {"--max-restarts", "1"});
    EXPECT_EQ(hurt.exit_code, 0) << mode << "\n" << hurt.err;
    EXPECT_EQ(hurt.out, "resumed at 16\n" + whole.out) << mode << "\n" << hurt.err;
  }
}

TEST(OwnLoop, WithoutThatALostWorkerEndsTheJobAndTheNextOneGoesOn) {
  const TemporaryFolder folder;
  const Finished hurt = run(folder.path(), "killed");
  EXPECT_NE(hurt.exit_code, 0);
  EXPECT_EQ(hurt.out, "");
  const Finished next = run(folder.path(), "killed");
  EXPECT_EQ(next.exit_code, 0) << next.err;
  EXPECT_THAT(next.out, HasSubstr("resumed at 16\nweights "));
}

}  // namespace
}  // namespace muster
