// What goes to the console and what to the file, from several threads and onto full disks.
#include "muster/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::slurp;
using testing::TemporaryFolder;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

// What standard error gets when `level` is the console's and one message of each level is logged.
std::string console_of(LogLevel level) {
  ::testing::internal::CaptureStderr();
  {
    Log log(level);
    log.debug("m-debug");
    log.info("m-info");
    log.warning("m-warning");
    log.error("m-error");
  }
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, ConsoleGetsItsLevelAndAbove) {
  const std::vector<std::string> messages{"m-debug", "m-info", "m-warning", "m-error"};
  const std::vector<LogLevel> levels{LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError,
                                     LogLevel::kOff};
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const std::string text = console_of(levels[level]);
    for (std::size_t i = 0; i < messages.size(); ++i)
      EXPECT_EQ(text.find(messages[i]) != std::string::npos, i >= level) << "level " << level << ", " << messages[i];
    EXPECT_EQ(lines_of(text).size(), messages.size() - std::min(level, messages.size()));
  }
}

TEST(Log, ConsoleLinesNameProgramAndLevel) {
  EXPECT_EQ(console_of(LogLevel::kError), "muster: error: m-error\n");
}

TEST(Log, FileGetsEveryLevelWhateverTheConsoleShows) {
  const TemporaryFolder folder;
  {
    Log log(LogLevel::kOff);
    log.info("before the file was open");
    log.open_file(folder / "log");
    log.debug("one");
    log.info("two");
    log.warning("three");
    log.error("four");
  }
  const std::vector<std::string> lines = lines_of(slurp(folder / "log"));
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[0], EndsWith("debug: one"));
  EXPECT_THAT(lines[1], EndsWith("info: two"));
  EXPECT_THAT(lines[2], EndsWith("warning: three"));
  EXPECT_THAT(lines[3], EndsWith("error: four"));
  for (const std::string& line : lines)
    EXPECT_THAT(line, ::testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3} [0-9]+ [a-z]+: .*"));
}

TEST(Log, AnInfoLineIsInTheFileAtOnce) {
  const TemporaryFolder folder;
  Log log(LogLevel::kOff);
  log.open_file(folder / "log");
  log.info("a crash may follow");
  EXPECT_THAT(slurp(folder / "log"), HasSubstr("a crash may follow\n"));
}

TEST(Log, AppendsToAFileThatIsThere) {
  const TemporaryFolder folder;
  testing::spill(folder / "log", "earlier run\n");
  Log log(LogLevel::kOff);
  log.open_file(folder / "log");
  log.info("resumed");
  const std::vector<std::string> lines = lines_of(slurp(folder / "log"));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "earlier run");
}

TEST(Log, TakesMessagesAsTheyAre) {
  const TemporaryFolder folder;
  Log log(LogLevel::kOff);
  log.open_file(folder / "log");
  log.info("{} {0} %s %v {");
  log.info("");
  log.info(std::string(100'000, 'x'));
  const std::vector<std::string> lines = lines_of(slurp(folder / "log"));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], EndsWith("info: {} {0} %s %v {"));
  EXPECT_THAT(lines[2], EndsWith(std::string(100'000, 'x')));
}

TEST(Log, RefusesAFileThatCannotBeOpened) {
  const TemporaryFolder folder;
  Log log(LogLevel::kOff);
  try {
    log.open_file(folder.path());  // a folder
    FAIL() << "opened a folder";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_EQ(error.where(), folder.path().string());
  }
  log.info("still usable");
}

// A log that cannot be written must not take the program with it.
TEST(Log, RefusesAPipeThatWouldHoldItUp) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "log.txt").c_str(), 0600), 0);
  Log log(LogLevel::kOff);
  EXPECT_THROW(log.open_file(folder / "log.txt"), Error);
}

TEST(Log, AFullDiskDoesNotThrow) {
  const TemporaryFolder folder;
  const int status = testing::status_of_child([&] {
    testing::limit_file_size(1000);
    std::freopen("/dev/null", "w", stderr);
    Log log(LogLevel::kOff);
    log.open_file(folder / "log");
    for (int i = 0; i < 100; ++i)
      log.info("a line that does not fit a hundred times");
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_LE(slurp(folder / "log").size(), 1000U);
}

TEST(Log, LinesOfSeveralThreadsStayWhole) {
  const TemporaryFolder folder;
  {
    Log log(LogLevel::kOff);
    log.open_file(folder / "log");
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log, t] {
        for (int i = 0; i < 250; ++i)
          log.info("[" + std::string(50, static_cast<char>('a' + t)) + "]");
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }
  const std::vector<std::string> lines = lines_of(slurp(folder / "log"));
  ASSERT_EQ(lines.size(), 1000U);
  for (const std::string& line : lines) {
    const char letter = line[line.size() - 2];
    EXPECT_THAT(line, EndsWith("info: [" + std::string(50, letter) + "]"));
  }
}

}  // namespace
}  // namespace muster
