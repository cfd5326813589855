// Models larger than what one process may have: workers of a mesh train them, each under a limit of memory of its own
// that one worker would need 1.6 times, from the first weights over a checkpoint to the end, with the bits of one
// worker.
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/random.h"
#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kMega = 1'000'000;
// What each process may have of memory that it does not share: heap, stacks, what libraries may write to. With nothing
// to train a worker has about 400 MB of that, most of which OpenBLAS sets aside and never touches.
constexpr std::uint64_t kLimit = 480 * kMega;
constexpr std::chrono::minutes kPatience{8};  // for processors that others use, too

// Of the processes that are started while it lives.
class DataLimit {
 public:
  explicit DataLimit(std::uint64_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_DATA, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_DATA, &limit), 0);
  }
  DataLimit(const DataLimit&) = delete;
  DataLimit& operator=(const DataLimit&) = delete;
  ~DataLimit() { ::setrlimit(RLIMIT_DATA, &before_); }

 private:
  rlimit before_{};
};

// 113 M parameters: 453 MB.
std::string large_job() {
  return "[job]\nname = \"large\"\nsteps = 2\nlanes = 2\nthreads = 1\n"
         "[data]\nsource = \"text\"\npath = \"words.txt\"\nwindow = 16\nbatch = 4\nvalidation = 0.1\n"
         "[loss]\ntask = \"language\"\n"
         "[model]\nname = \"transformer\"\nwidth = 1024\ndepth = 9\nheads = 8\n"
         "[optimizer]\nname = \"sgd\"\nlr = 0.01\nmomentum = 0\nclip_norm = 1.0\n";
}

class MemoryLimit : public ::testing::Test {
 protected:
  MemoryLimit() {
    RandomStream random({.seed = 3, .purpose = Purpose::kVerify});
    std::string text;
    while (text.size() < 600)
      text += std::vector<std::string>{"lane ", "stage ", "mesh ", "tree "}[random.below(4)];
    testing::spill(folder_ / "words.txt", text);
    testing::spill(folder_ / "job.toml", large_job());
  }

  testing::Finished train(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train", "job.toml", "--json"};
    for (const std::string& argument : more) {
      if (!argument.starts_with("--")) arguments.emplace_back("--set");
      arguments.push_back(argument);
    }
    return testing::Program(folder_.path(), arguments).wait(kPatience);
  }
  static Json end_of(const testing::Finished& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? testing::rows(result.out).back() : Json::object();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(MemoryLimit, AModelLargerThanItTrainsInTwoStages) {
  const Json alone = end_of(train({"parallel.workers=1", "job.runs=alone"}));
  {
    const DataLimit limit(kLimit * 16 / 10);
    const testing::Finished refused = train({"parallel.workers=1", "job.runs=refused"});
    EXPECT_NE(refused.exit_code, 0) << "one worker needs more";
    // Whatever is the first to find no room: the model, a tensor, a thread's stack.
    EXPECT_THAT(refused.err,
                AnyOf(HasSubstr("cannot be made"), HasSubstr("memory"), HasSubstr("Resource temporarily unavailable")));
  }
  const DataLimit limit(kLimit);
  const std::string mesh = "parallel.mesh={pipeline=2}";
  end_of(train({mesh, "job.runs=staged", "job.steps=1"}));
  const Json staged = end_of(train({mesh, "job.runs=staged", "--resume"}));
  for (const char* key : {"weights", "test_loss", "best_loss", "step"})
    EXPECT_EQ(staged.at(key), alone.at(key)) << key;
}

}  // namespace
}  // namespace muster
