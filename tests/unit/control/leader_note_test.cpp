// Notes as leaders of several releases leave them, and what is none.
#include "muster/control/leader_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "muster/base/error.h"
#include "support/errors.h"

namespace muster::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// No two members have the same value, so that none can be taken for another.
LeaderNote whole_note() {
  return {.run = "runs/net-1",
          .step = 1,
          .total_steps = 2,
          .steps_per_epoch = 3,
          .batch = 40,
          .alarm = "the disk is full",
          .lanes = LaneSource{50, 6, 7}};
}

TEST(LeaderNote, ComesBackAsItWas) {
  EXPECT_EQ(LeaderNote::read(whole_note().to_json().dump()), whole_note());
  EXPECT_EQ(LeaderNote::read(LeaderNote().to_json().dump()), LeaderNote());
}

TEST(LeaderNote, WhatIsMissingIsEmptyAndWhatIsUnknownIsLeftAlone) {
  const LeaderNote note = LeaderNote::read(R"({"run":"r","batch":4,"progress":{"best":1},"stop":true})");
  EXPECT_EQ(note, (LeaderNote{.run = "r", .batch = 4}));
}

TEST(LeaderNote, WhateverSomebodyHasLeftThereIsRead) {
  for (const char* text : {"", "{", "[]", "8 steps are done", "null", R"({"run":5})", R"({"step":-1,"run":"r"})",
                           R"({"alarm":["a"]})", R"({"batch":1.5})", "\xff"})
    EXPECT_EQ(LeaderNote::read(text), LeaderNote()) << text;
}

TEST(LeaderNote, ThoseWhoGoOnByItAreToldWhatIsDamaged) {
  const Json whole = whole_note().to_json();
  for (const auto& [key, value] : whole.items()) {
    Json other = whole;
    other[key] = Json::array();
    const Error error = muster::testing::error_of([&] { LeaderNote::from_json(other, "the note"); });
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged) << key;
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the note"), HasSubstr(key)));
  }
}

TEST(LeaderNote, TheEpochInWorkIsCountedFromOne) {
  const LeaderNote note{.total_steps = 90, .steps_per_epoch = 30};
  EXPECT_EQ(note.epoch_after(0), 1U);
  EXPECT_EQ(note.epoch_after(29), 1U);
  EXPECT_EQ(note.epoch_after(30), 2U);
  EXPECT_EQ(note.epoch_after(90), 3U) << "all is done";
  EXPECT_EQ(LeaderNote().epoch_after(90), 0U) << "not known";
}

TEST(LeaderNote, SaysWhichSamplesALaneHas) {
  const LeaderNote note{.batch = 4, .lanes = LaneSource{10, 2, 7}};
  // Every sample once in an epoch of three steps: two lanes of two, and a last step of one lane with two.
  for (const std::uint64_t epoch : {0, 1}) {
    std::multiset<std::uint64_t> samples;
    for (std::uint64_t step = 3 * epoch; step < 3 * epoch + 3; ++step)
      for (const std::size_t lane : {0, 1})
        for (const std::uint64_t id : note.samples_of(step, lane))
          samples.insert(id);
    EXPECT_EQ(samples, (std::multiset<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  EXPECT_EQ(note.samples_of(2, 0).size(), 2U);
  EXPECT_TRUE(note.samples_of(2, 1).empty());
  const LeaderNote other{.batch = 4, .lanes = LaneSource{10, 2, 8}};
  EXPECT_NE(note.samples_of(0, 0), other.samples_of(0, 0)) << "the seed decides";
}

TEST(LeaderNote, LanesThatCannotBeAreNotSaid) {
  for (const char* text : {R"({"batch":4,"steps_per_epoch":3})", R"({"samples":0,"batch":4,"lanes":2,"seed":1})",
                           R"({"samples":10,"batch":4,"lanes":5,"seed":1})", R"({"samples":10,"batch":4,"lanes":2})",
                           R"({"samples":10,"batch":4,"lanes":-1,"seed":1})"}) {
    EXPECT_FALSE(LeaderNote::read(text).lanes) << text;
    EXPECT_TRUE(LeaderNote::read(text).samples_of(0, 0).empty()) << text;
  }
}

}  // namespace
}  // namespace muster::control
