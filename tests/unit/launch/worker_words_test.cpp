// Notes and reasons left in a folder, and folders that are not there.
#include "muster/launch/worker_words.h"

#include <gtest/gtest.h>

#include "support/sandbox.h"

namespace muster::launch {
namespace {

TEST(WorkerWords, TheLastNoteIsRead) {
  const testing::TemporaryFolder store;
  EXPECT_EQ(read_note(store.path()), "");
  leave_note(store.path(), "step 1");
  leave_note(store.path(), "step 2");
  EXPECT_EQ(read_note(store.path()), "step 2");
  EXPECT_EQ(store.names().size(), 1U);
}

TEST(WorkerWords, TheFirstReasonIsRead) {
  const testing::TemporaryFolder store;
  EXPECT_EQ(read_reason(store.path()), "");
  EXPECT_TRUE(leave_reason(store.path(), 1, 0, "the disk is full"));
  EXPECT_TRUE(leave_reason(store.path(), 0, 2, "no such file"));
  EXPECT_EQ(read_reason(store.path()), "no such file");
}

TEST(WorkerWords, OneOfThoseWhoSayTheSameIsToldThatItIsTheFirst) {
  const testing::TemporaryFolder store;
  EXPECT_TRUE(leave_reason(store.path(), 1, 0, "no such file"));
  EXPECT_FALSE(leave_reason(store.path(), 0, 0, "no such file"));
  EXPECT_FALSE(leave_reason(store.path(), 0, 1, "no such file"));
  EXPECT_TRUE(leave_reason(store.path(), 2, 0, "no such folder"));
}

TEST(WorkerWords, WithoutAStoreNothingIsSaid) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "file", "in the way");
  leave_note(folder / "file", "step 1");
  EXPECT_TRUE(leave_reason(folder / "file", 0, 0, "no such file"));
  EXPECT_EQ(read_note(folder / "file"), "");
  EXPECT_EQ(read_reason(folder / "nothing"), "");
}

}  // namespace
}  // namespace muster::launch
