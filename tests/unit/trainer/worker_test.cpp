// A process alone, and processes that find each other, from a given environment.
#include "muster/trainer/worker.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/compute/threads.h"
#include "muster/trainer/worker_place.h"
#include "support/ranks.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

TEST(Join, AloneIsAWorldOfOne) {
  const Worker worker = join(0, nullptr);
  EXPECT_EQ(worker.rank(), 0);
  EXPECT_EQ(worker.size(), 1);
  EXPECT_TRUE(worker.is_first());
}

// Whoever starts the program: what a library finds by itself depends on the launcher.
TEST(Join, SetsTheThreadsOfLibTorchAndTheBlas) {
  compute::set_threads(2);
  ASSERT_EQ(compute::compute_libraries().aten_threads, 2);
  join(0, nullptr);
  EXPECT_EQ(compute::compute_libraries().aten_threads, 1);
  EXPECT_LE(compute::compute_libraries().blas_threads, 1);
}

TEST(ConnectWorker, RefusesSeveralProcessesThatWouldTrainEachForItself) {
  try {
    connect_worker({1, 2, "srun", ""});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("MUSTER_STORE"), std::string::npos) << error.what();
  }
}

TEST(ConnectWorker, ProcessesWithAStoreFindEachOther) {
  const testing::TemporaryFolder folder;
  testing::run_ranks(2, [&](int rank) {
    const Worker worker(connect_worker({rank, 2, "muster", folder.path().string()}));
    EXPECT_EQ(worker.rank(), rank);
    EXPECT_EQ(worker.is_first(), rank == 0);
    std::vector<std::int32_t> value{rank + 1};
    worker.group().all_reduce(std::span(value));
    EXPECT_EQ(value[0], 3);
  });
}

// One that is started again finds the first one's words in the folder.
TEST(ConnectWorker, AFolderServesJobsOfDifferentNames) {
  const testing::TemporaryFolder folder;
  for (const std::string name : {"workers", "second-try"}) {
    testing::run_ranks(2, [&](int rank) {
      const Worker worker(connect_worker({rank, 2, "srun", folder.path().string()}, name));
      std::vector<std::int32_t> value{rank + 1};
      worker.group().all_reduce(std::span(value));
      EXPECT_EQ(value[0], 3) << name;
    });
  }
  for (const char* wrong : {"", "a/b", "two words"}) {
    try {
      join(0, nullptr, {.name = wrong});
      FAIL() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    }
  }
}

}  // namespace
}  // namespace muster::trainer
