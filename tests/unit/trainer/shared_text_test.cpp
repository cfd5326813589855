// What one has all get, also when it comes late.
#include "muster/trainer/shared_text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "muster/comm/shm_backend.h"
#include "support/ranks.h"

namespace muster::trainer {
namespace {

using namespace std::chrono_literals;

TEST(SharedText, WhoHasItMayTakeLongerThanCallsOfTheGroupDo) {
  const comm::SharedRegion region = comm::create_shm_group_region(2);
  testing::run_ranks(2, [&](int rank) {
    auto mapping = comm::SharedRegion::attach(FileDescriptor(::dup(region.descriptor())));
    const comm::Group group(comm::join_shm_group(std::move(mapping), rank, Deadline::after(60s)), 20ms);
    std::string text;
    if (rank == 0) {
      std::this_thread::sleep_for(200ms);  // sleeps: at work on its disk
      text = "known";
    }
    share_text(group, text, 0);
    EXPECT_EQ(text, "known");
  });
}

}  // namespace
}  // namespace muster::trainer
