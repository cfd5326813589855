// A note names the samples of a lane; any other text is no note.
#include "muster/trainer/session_note.h"

#include <gtest/gtest.h>

#include "muster/control/leader_note.h"

namespace muster::trainer {
namespace {

TEST(SessionNote, IsReadByThoseWhoWatch) {
  const control::LeaderNote note = control::LeaderNote::read(SessionNote{{10, 4, 2}, 7}.to_text());
  EXPECT_EQ(note.batch, 4U);
  EXPECT_EQ(note.steps_per_epoch, 3U);
  EXPECT_EQ(note.lanes, (control::LaneSource{10, 2, 7}));
  EXPECT_EQ(note.run, "") << "a program of a user's own has no folder of ours";
}

}  // namespace
}  // namespace muster::trainer
