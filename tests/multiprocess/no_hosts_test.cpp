// A build without Gloo, as with the LibTorch of pip's PyTorch: commands that span hosts say so at once, and what runs
// on one host does not mind. Only such a build has this test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using testing::run_program;
using testing::small_job;
using testing::spill;
using testing::TemporaryFolder;
using testing::train_arguments;

void expect_refused(const Finished& result) {
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("cannot train on several hosts"), HasSubstr("Gloo")));
}

TEST(NoHosts, CommandsThatSpanHostsAreRefusedBeforeAnythingStarts) {
  const TemporaryFolder folder;
  spill(folder / "job.toml", small_job("small"));
  expect_refused(run_program(folder.path(), train_arguments(1, {"parallel.hosts=\"1:2\"", "--listen=127.0.0.1:0"})));
  expect_refused(run_program(folder.path(), {"agent", "--join", "127.0.0.1:7400"}));
  expect_refused(run_program(folder.path(), {"run", "-n", "1", "--listen=127.0.0.1:0", "/bin/true"}));
}

TEST(NoHosts, OneHostTrains) {
  const TemporaryFolder folder;
  spill(folder / "job.toml", small_job("small"));
  const Finished result = run_program(folder.path(), train_arguments(2, {}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

}  // namespace
}  // namespace muster
