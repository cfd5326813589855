// Folders of this process, of children, and of processes that were killed.
#include "muster/base/temporary_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "muster/base/process.h"
#include "support/eventually.h"

namespace muster {
namespace {

TEST(TemporaryFolder, IsEmptyAndPrivateAndGoesAwayWithAllInIt) {
  std::filesystem::path path;
  {
    const TemporaryFolder folder("muster-test-");
    path = folder.path();
    EXPECT_TRUE(path.filename().string().starts_with("muster-test-"));
    EXPECT_TRUE(std::filesystem::is_empty(path));
    EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::all,
              std::filesystem::perms::owner_all);
    std::filesystem::create_directory(path / "inside");
    std::ofstream(path / "inside" / "file") << "text";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolder, TwoAreNotTheSame) {
  const TemporaryFolder first("muster-test-");
  const TemporaryFolder second("muster-test-");
  EXPECT_NE(first.path(), second.path());
}

TEST(TemporaryFolder, OneThatIsUsedIsNotAbandoned) {
  const TemporaryFolder mine("muster-test-used-");
  const TemporaryFolder moved = TemporaryFolder::adopt(mine.path());
  remove_abandoned("muster-test-used-");
  EXPECT_TRUE(std::filesystem::exists(mine.path()));
}

TEST(TemporaryFolder, OneWhoseProcessesWereAllKilledIsRemoved) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  // A process that makes a folder and starts another one: the second keeps it.
  const pid_t first = ::fork();
  if (first == 0) {
    const TemporaryFolder folder("muster-test-left-");
    const pid_t second = ::fork();
    if (second == 0) ::execl("/bin/sleep", "sleep", "600", nullptr);
    const std::string text = std::to_string(second) + " " + folder.path().string() + "\n";
    [[maybe_unused]] const ssize_t written = ::write(ends[1], text.data(), text.size());
    ::kill(::getpid(), SIGKILL);
  }
  ::close(ends[1]);
  std::string text;
  for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';)
    text += c;
  ::close(ends[0]);
  ::waitpid(first, nullptr, 0);
  const auto second = static_cast<pid_t>(std::stol(text));
  const std::filesystem::path path = text.substr(text.find(' ') + 1);
  remove_abandoned("muster-test-left-");
  EXPECT_TRUE(std::filesystem::exists(path)) << "a process that was started from there lives";
  ::kill(second, SIGKILL);
  ASSERT_TRUE(testing::eventually(
      [&] { return state_of(process_of(second)) == ProcessState::kGone || process_of(second).start_time == 0; }));
  remove_abandoned("muster-test-left-");
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace muster
