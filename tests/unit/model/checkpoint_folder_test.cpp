// Hidden folders of living and of dead writers: the first are left alone, the second are taken away.
#include "muster/model/checkpoint_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint_example.h"
#include "muster/base/error.h"
#include "support/sandbox.h"

namespace muster::model {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const PointHook kNoHook = [](std::string_view, std::string_view) {};

TEST(CheckpointName, GoesThereAndBack) {
  EXPECT_EQ(checkpoint_name(0), "step-000000000000");
  EXPECT_EQ(checkpoint_name(1234), "step-000000001234");
  for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{999'999'999'999},
                                   std::uint64_t{1'000'000'000'000}, UINT64_MAX}) {
    EXPECT_EQ(step_of(checkpoint_name(step)), step);
  }
}

TEST(CheckpointName, TakesNoOtherName) {
  for (const char* const name : {"", "step-", "step-1", "step-0000000000001", "step--00000000001", "step-+00000000001",
                                 "step-00000000001x", "step-99999999999999999999", "xstep-000000000001"}) {
    EXPECT_FALSE(step_of(name)) << name;
  }
}

TEST(HiddenName, IsOnlyOurPattern) {
  EXPECT_TRUE(is_hidden_name(hidden_path("x", 7).filename().string()));
  EXPECT_TRUE(is_hidden_name(".step-000000000001.42.tmp"));
  for (const char* const name :
       {"", ".", ".tmp", "..tmp", ".step-000000000001.tmp", ".step-000000000001..tmp", ".step-000000000001.x.tmp",
        ".step-1.42.tmp", "step-000000000001.42.tmp", ".step-000000000001.42.tmp~", ".git.42.tmp"}) {
    EXPECT_FALSE(is_hidden_name(name)) << name;
  }
}

TEST(HiddenFolder, RemovesItselfUnlessPublished) {
  const testing::TemporaryFolder scratch;
  {
    HiddenFolder hidden(scratch.path(), 1, kNoHook);
    hidden.write_file("a", [](const HiddenFolder::Sink& sink) { sink(std::as_bytes(std::span("abc", 3))); });
    ASSERT_EQ(names_of(scratch.path()).size(), 1U);
    EXPECT_EQ(file_text(scratch.path() / names_of(scratch.path()).front() / "a"), "abc");
  }
  EXPECT_THAT(names_of(scratch.path()), IsEmpty());
  {
    HiddenFolder hidden(scratch.path(), 1, kNoHook);
    hidden.publish(scratch.path() / "final");
  }
  EXPECT_THAT(names_of(scratch.path()), ElementsAre("final"));
}

TEST(HiddenFolder, IsNotTakenFromALivingWriter) {
  const testing::TemporaryFolder scratch;
  HiddenFolder hidden(scratch.path(), 1, kNoHook);
  const std::vector<std::string> before = names_of(scratch.path());
  ASSERT_EQ(before.size(), 1U);
  CheckpointStore store(scratch.path());
  EXPECT_EQ(names_of(scratch.path()), before);
}

// Such as two hosts that both believe that they lead.
TEST(HiddenFolder, TwoWritersOfOneStepDoNotMeet) {
  const testing::TemporaryFolder scratch;
  const auto text = [](std::string_view text) {
    return [text](const HiddenFolder::Sink& sink) { sink(std::as_bytes(std::span(text))); };
  };
  HiddenFolder first(scratch.path(), 1, kNoHook);
  HiddenFolder second(scratch.path(), 1, kNoHook);
  first.write_file("a", text("first"));
  second.write_file("a", text("second"));
  first.publish(scratch.path() / "final");
  EXPECT_EQ(file_text(scratch.path() / "final" / "a"), "first");
  second.publish(scratch.path() / "final");
  EXPECT_EQ(file_text(scratch.path() / "final" / "a"), "second");
}

TEST(HiddenFolder, OfADeadWriterIsNotInTheWay) {
  const testing::TemporaryFolder scratch;
  std::filesystem::create_directories(hidden_path(scratch.path(), 1) / "deep");
  { HiddenFolder hidden(scratch.path(), 1, kNoHook); }
  EXPECT_EQ(names_of(scratch.path()).size(), 1U);
  CheckpointStore store(scratch.path());
  EXPECT_THAT(names_of(scratch.path()), IsEmpty());
}

TEST(Leftovers, OfDeadWritersGoAtTheNextOpenAndNothingElse) {
  const testing::TemporaryFolder scratch;
  AtomicFile living(scratch.path() / "best.json");
  const std::string draft = names_of(scratch.path()).at(0);
  const pid_t child = ::fork();
  if (child == 0) {
    new AtomicFile(scratch.path() / "best.json");
    ::_exit(0);  // without a destructor, as a kill
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(names_of(scratch.path()).size(), 2U);
  std::filesystem::create_directories(scratch.path() / ".step-000000000001.41.tmp" / "x");
  std::filesystem::create_directories(scratch.path() / ".step-1.42.tmp");
  put_file(scratch.path() / ".best.json.tmp", "x");
  put_file(scratch.path() / ".other.42.tmp", "x");
  std::filesystem::create_directory_symlink("/", scratch.path() / ".step-000000000002.42.tmp");
  CheckpointStore store(scratch.path());
  EXPECT_THAT(names_of(scratch.path()),
              ElementsAre(draft, ".best.json.tmp", ".other.42.tmp", ".step-000000000002.42.tmp", ".step-1.42.tmp"));
}

}  // namespace
}  // namespace muster::model
