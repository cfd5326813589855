// The main example on its real pictures: it converges, and twice to the same bits.
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using testing::Finished;
using testing::rows;
using testing::run_program;

Json train(const testing::TemporaryFolder& folder, std::vector<std::string> more) {
  std::vector<std::string> arguments{"train", MUSTER_EXAMPLES "/fashion.toml", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Finished result = run_program(folder.path(), arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? rows(result.out).back() : Json::object();
}

TEST(Fashion, OneEpochIsOnItsWayToTheExamplesAccuracy) {
  const testing::TemporaryFolder folder;
  const Json result = train(folder, {"--set", "job.epochs=1"});
  EXPECT_GT(result.at("test_accuracy").get<double>(), 0.86);
}

TEST(Fashion, TwoRunsGiveTheSameBitsAndAnotherSeedOthers) {
  const testing::TemporaryFolder folder;
  const Json first = train(folder, {"--set", "job.steps=60"});
  const Json second = train(folder, {"--set", "job.steps=60", "--set", "data.loader_threads=3"});
  const Json other = train(folder, {"--set", "job.steps=60", "--set", "job.seed=2"});
  EXPECT_EQ(first.at("weights"), second.at("weights"));
  EXPECT_NE(first.at("weights"), other.at("weights"));
}

}  // namespace
}  // namespace muster
