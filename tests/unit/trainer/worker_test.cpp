#include "muster/trainer/worker.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::trainer {
namespace {

TEST(Join, AloneIsAWorldOfOne) {
  const Worker worker = join(0, nullptr);
  EXPECT_EQ(worker.rank(), 0);
  EXPECT_EQ(worker.size(), 1);
  EXPECT_TRUE(worker.is_first());
}

TEST(Join, RefusesSeveralProcessesThatWouldTrainEachForItself) {
  ::setenv("PMI_RANK", "1", 1);
  ::setenv("PMI_SIZE", "2", 1);
  EXPECT_THROW(join(0, nullptr), Error);
  ::unsetenv("PMI_RANK");
  ::unsetenv("PMI_SIZE");
}

}  // namespace
}  // namespace muster::trainer
