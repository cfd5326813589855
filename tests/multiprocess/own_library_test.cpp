// A model from a user's shared object through the real program: trained, resumed, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using testing::rows;
using testing::run_program;
using testing::spill;

class OwnLibraryTest : public ::testing::Test {
 protected:
  OwnLibraryTest() {
    spill(folder_ / "job.toml",
          testing::small_job("own", {"data.shape=[1, 8, 8]", "data.samples=512", "data.test_samples=128",
                                     "model.library=\"libmine.so\"", "model.name=\"highway\"",
                                     "model.hidden=", "model.width=32", "optimizer.lr=0.1"}));
    std::filesystem::copy_file(MUSTER_OWN_LIBRARY, folder_ / "libmine.so");
  }
  Finished muster(std::vector<std::string> arguments) { return run_program(folder_.path(), std::move(arguments)); }
  Finished train(const std::string& change) { return muster({"train", "job.toml", "--json", "--set", change}); }
  const testing::TemporaryFolder folder_;
};

TEST_F(OwnLibraryTest, IsTrainedByAnyNumberOfWorkersAndItsOptionsAreTheJobs) {
  const Finished one = train("job.lanes=2");
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_GT(rows(one.out).back().at("test_accuracy").get<double>(), 0.5);  // one in ten by chance
  const Finished two = muster(
      {"train", "job.toml", "--json", "--set", "job.lanes=2", "--set", "parallel.workers=2", "--set", "job.name=two"});
  ASSERT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(rows(one.out).back().at("weights"), rows(two.out).back().at("weights"));
  const Finished refused = train("model.dropout=0.5");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("there is no option dropout"));
}

TEST_F(OwnLibraryTest, AResumedRunNoticesAnotherFile) {
  ASSERT_EQ(train("job.epochs=1").exit_code, 0);
  // Another file to every tool, and the same code.
  std::ofstream(folder_ / "libmine.so", std::ios::app | std::ios::binary) << "changed";
  const Finished refused = muster({"train", "job.toml", "--json", "--resume"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("model.library_sha256"), HasSubstr("cannot change")));
  std::filesystem::copy_file(MUSTER_OWN_LIBRARY, folder_ / "libmine.so",
                             std::filesystem::copy_options::overwrite_existing);
  const Finished resumed = muster({"train", "job.toml", "--json", "--resume"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

TEST_F(OwnLibraryTest, WrongLibrariesAreTheUsersMistake) {
  spill(folder_ / "text.so", "no library");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"model.library=none.so", "none.so"},
      {"model.library=text.so", "cannot load the library"},
      {std::string("model.library=") + MUSTER_NO_MODELS, "the library has no models"},
      {std::string("model.library=") + MUSTER_OTHER_MUSTER, "headers of another Muster"},
      {std::string("model.library=") + MUSTER_OTHER_TORCH, "was built for LibTorch 0.0.1"},
      {"model.name=highwa", "no model \"highwa\" (did you mean \"highway\"?); it has highway"},
      {"model.library_sha256=0000", "not the file that the job was started with"},
  };
  for (const auto& [change, message] : cases) {
    const Finished finished = train(change);
    EXPECT_EQ(finished.exit_code, 2) << change;
    EXPECT_THAT(finished.err, HasSubstr(message)) << change;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "runs")) << change;
  }
}

}  // namespace
}  // namespace muster
