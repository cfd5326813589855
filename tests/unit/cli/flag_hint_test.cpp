// Words that people type instead of --set, and old names of commands.
#include "muster/cli/flag_hint.h"

#include <gtest/gtest.h>

namespace muster::cli {
namespace {

TEST(FlagHint, SaysHowToSetAKey) {
  EXPECT_EQ(flag_hint({"train", "job.toml", "--epochs", "3"}), "A key of the job is set with --set job.epochs=3");
  EXPECT_EQ(flag_hint({"train", "job.toml", "--lr=0.1"}), "A key of the job is set with --set optimizer.lr=0.1");
  EXPECT_EQ(flag_hint({"train", "--weight-decay", "0.1", "job.toml"}),
            "A key of the job is set with --set optimizer.weight_decay=0.1");
  EXPECT_EQ(flag_hint({"check", "job.toml", "--parallel.workers"}),
            "A key of the job is set with --set parallel.workers=...");
}

TEST(FlagHint, SaysHowToSetSeveralKeys) {
  EXPECT_EQ(flag_hint({"train", "job.toml", "--set", "job.epochs=3", "data.batch=8"}),
            "Every key has a --set of its own: --set data.batch=8");
  EXPECT_EQ(flag_hint({"check", "job.toml", "--set", "job.epochs", "3"}),
            "A key and its value are one word: --set job.epochs=3");
  EXPECT_EQ(flag_hint({"train", "job.toml", "--set", "job.epochs=3", "--set", "data.batch=8"}), "");
  EXPECT_EQ(flag_hint({"train", "job.toml", "--set", "job.epochs=3", "nothing.known=8"}), "");
}

TEST(FlagHint, IsSilentOtherwise) {
  EXPECT_EQ(flag_hint({}), "");
  EXPECT_EQ(flag_hint({"train", "job.toml", "--frobnicate", "3"}), "");
  EXPECT_EQ(flag_hint({"train", "epochs"}), "");
  EXPECT_EQ(flag_hint({"status", "--epochs"}), "");
}

TEST(RenamedCommandHint, SaysTheNewCommandForAnOldNameOnly) {
  EXPECT_EQ(renamed_command_hint("models"), "muster models is muster model list now, with the same flags.");
  for (const char* word : {"", "model", "model list", "Models", "modelss", "train"})
    EXPECT_EQ(renamed_command_hint(word), "") << word;
}

}  // namespace
}  // namespace muster::cli
