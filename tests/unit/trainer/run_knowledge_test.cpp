// Comes back as it was and always fits its note; no two members of the example have the same value.
#include "muster/trainer/run_knowledge.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/comm/shared_note.h"
#include "muster/trainer/run_folder.h"
#include "support/errors.h"

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// No two members have the same value, so that none can be taken for another.
RunKnowledge of_a_run() {
  RunKnowledge known;
  known.run = "runs/net-20261116-090000";
  known.progress.best_step = 1;
  known.progress.best_loss = 0.1 + 0.2;
  known.progress.loss_sum = 1e-300;
  known.first_step = 2;
  known.ledger_generation = 3;
  known.stop = true;
  known.change = 4;
  known.finished = false;
  known.checkpointed_step = 5;
  known.validated_step = 6;
  known.last_validation = {{"loss", 1.0 / 3}};
  known.pace = {{"failures", 7}};
  known.step = 5;
  known.total_steps = 8;
  known.steps_per_epoch = 9;
  known.batch = 10;
  known.alarm = "the disk is full";
  known.place = control::LeaderNote::kCopy;
  known.saved = 11;
  known.mark = "0f1e";
  return known;
}

TEST(RunKnowledge, ComesBackAsItWas) {
  RunKnowledge known = of_a_run();
  EXPECT_EQ(RunKnowledge::from_text(known.to_text(), "here"), known);
  known.stop = false;
  known.finished = true;
  EXPECT_EQ(RunKnowledge::from_text(known.to_text(), "here"), known);
  EXPECT_EQ(RunKnowledge::from_text(RunKnowledge().to_text(), "here"), RunKnowledge()) << "of a run that begins";
}

TEST(RunKnowledge, WhatIsDamagedIsNamedWithItsPlace) {
  const auto expect_damaged = [](const std::string& text, const std::string& named) {
    const Error error = muster::testing::error_of([&] { RunKnowledge::from_text(text, "the note"); });
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged) << text;
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the note"), HasSubstr(named))) << text;
  };
  const std::string whole = of_a_run().to_text();
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 1})
    expect_damaged(whole.substr(0, length), "JSON");
  expect_damaged("[]", "");
  const Json json = Json::parse(whole);
  for (const auto& [key, value] : json.items()) {
    Json other = json;
    other[key] = Json::array();
    expect_damaged(other.dump(), key);
    other.erase(key);
    const bool optional = key == "checkpointed_step" || key == "validated_step" || key == "last_validation" ||
                          key == "pace" || key == "alarm" || key == "place" || key == "saved" || key == "mark";
    if (!optional) expect_damaged(other.dump(), key == "progress" ? "validated_epochs" : key);
  }
}

TEST(RunKnowledge, FitsIntoANoteWhateverHappens) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  constexpr double kLong = -1.2345678901234567e-300;
  RunKnowledge known;
  known.run = std::string(RunFolder::kLongestPath, 'r');
  known.progress = {kMost, kLong, kLong, kMost, kMost, kMost, kMost, kMost, kLong, kLong, kLong};
  known.first_step = known.ledger_generation = known.change = kMost;
  known.step = known.total_steps = known.steps_per_epoch = known.batch = kMost;
  known.checkpointed_step = known.validated_step = kMost;
  for (const char* metric : {"loss", "accuracy", "a_metric_with_a_long_name", "another_metric_with_a_long_name"})
    known.last_validation[metric] = kLong;
  known.pace = {{"trained_seconds", kLong}, {"failures", kMost}};
  known.alarm = std::string(10000, '"');  // which JSON writes as two
  known.place = control::LeaderNote::kShared;
  known.saved = kMost;
  known.mark = std::string(32, 'f');
  EXPECT_LE(known.to_text().size(), comm::SharedNote::kMost);
}

TEST(RunKnowledge, AnAlarmThatIsNoTextIsToldAllTheSame) {
  RunKnowledge known;
  known.alarm = "disk \xff\n full";
  EXPECT_EQ(RunKnowledge::from_text(known.to_text(), "here").alarm, "disk ?? full");
}

}  // namespace
}  // namespace muster::trainer
