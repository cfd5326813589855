// Looks that a process on a host writes are read as they were, while the file grows.
#include "muster/cli/chaos/look.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sandbox.h"

namespace muster::cli {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Look some_look() {
  Look look;
  look.at = 12.5;
  look.live = true;
  look.state = "running";
  look.step = 7;
  look.generation = 3;
  look.term = 2;
  look.hosts = {{"a", 1, 2, 5}, {"b", 100'001, 1, std::nullopt}};
  return look;
}

TEST(LookTest, IsReadAsItWasWritten) {
  const Look look = look_of(to_json(some_look()));
  EXPECT_EQ(to_json(look), to_json(some_look()));
  EXPECT_EQ(look.hosts[0].checkpoint, 5U);
  EXPECT_FALSE(look.hosts[1].checkpoint);
}

TEST(LookTest, AllTrainWhenThereAreAsManyAndEachHasWorkers) {
  Look look = some_look();
  EXPECT_TRUE(look.all_train(2));
  EXPECT_FALSE(look.all_train(3));
  look.hosts[1].workers = 0;
  EXPECT_FALSE(look.all_train(2));
  look = some_look();
  look.live = false;
  EXPECT_FALSE(look.all_train(2));
}

TEST(LookReaderTest, ReadsWholeLinesAndPassesOverWhatAKilledProcessLeft) {
  const testing::TemporaryFolder folder;
  LookReader reader(folder / "looks");
  EXPECT_THAT(reader.next(), IsEmpty()) << "no file yet";
  const std::string line = to_json(some_look()).dump();
  std::ofstream out(folder / "looks");
  out << line << "\n" << line.substr(0, 20) << std::flush;
  EXPECT_THAT(reader.next(), SizeIs(1));
  EXPECT_THAT(reader.next(), IsEmpty());
  out << line << "\n" << line << "\n" << std::flush;  // another process goes on in the middle of a line
  EXPECT_THAT(reader.next(), SizeIs(1));
}

}  // namespace
}  // namespace muster::cli
