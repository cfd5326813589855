#include "muster/trainer/session_note.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::trainer {
namespace {

TEST(SessionNote, SaysWhichSamplesALaneHas) {
  const std::optional<SessionNote> note = SessionNote::from_text(SessionNote{{10, 4, 2}, 7}.to_text());
  ASSERT_TRUE(note);
  // Every sample once in an epoch of three steps: two lanes of two, and a last step of one lane with two.
  for (const std::uint64_t epoch : {0, 1}) {
    std::multiset<std::uint64_t> samples;
    for (std::uint64_t step = 3 * epoch; step < 3 * epoch + 3; ++step)
      for (const std::size_t lane : {0, 1})
        for (const std::uint64_t id : note->samples_of(step, lane))
          samples.insert(id);
    EXPECT_EQ(samples, (std::multiset<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  EXPECT_EQ(note->samples_of(2, 0).size(), 2U);
  EXPECT_TRUE(note->samples_of(2, 1).empty());
  EXPECT_NE(note->samples_of(0, 0), (SessionNote{{10, 4, 2}, 8}.samples_of(0, 0))) << "the seed decides";
}

TEST(SessionNote, IsNothingElse) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"run":"r","batch":4,"steps_per_epoch":3})",
        R"({"samples":0,"batch":4,"lanes":2,"seed":1})", R"({"samples":10,"batch":4,"lanes":5,"seed":1})",
        R"({"samples":10,"batch":4,"lanes":-1,"seed":1})"})
    EXPECT_FALSE(SessionNote::from_text(text)) << text;
}

}  // namespace
}  // namespace muster::trainer
