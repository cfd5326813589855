// Files that grow, shrink, are pipes or links, or meet a full disk or a kill: whole or not there.
#include "muster/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "muster/base/draft_name.h"
#include "muster/base/error.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using testing::error_of;
using testing::limit_file_size;
using testing::slurp;
using testing::spill;
using testing::status_of_child;
using testing::TemporaryFolder;

TEST(OpenForReading, GivesTheSize) {
  const TemporaryFolder folder;
  for (const std::size_t size : {0U, 1U, 4097U}) {
    spill(folder / "data", std::string(size, 'x'));
    EXPECT_EQ(open_for_reading(folder / "data").size, size);
  }
}

TEST(OpenForReading, NamesAFileThatIsNotThere) {
  const TemporaryFolder folder;
  const Error error = error_of([&] { open_for_reading(folder / "none.bin"); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error.where(), (folder / "none.bin").string());
  spill(folder / "file", "x");
  EXPECT_EQ(error_of([&] { open_for_reading(folder / "file/inside"); }).kind(), ErrorKind::kNotFound);
}

TEST(OpenForReading, RefusesAFolder) {
  const TemporaryFolder folder;
  const Error error = error_of([&] { open_for_reading(folder.path()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error.message(), "is a folder, not a file");
}

// Opening a pipe that nobody writes to would wait for ever.
TEST(OpenForReading, RefusesAPipeWithoutWaitingForIt) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { open_for_reading(folder / "pipe"); }).kind(), ErrorKind::kInvalidInput);
}

TEST(OpenForReading, RefusesADevice) {
  EXPECT_EQ(error_of([] { open_for_reading("/dev/zero"); }).message(), "is not a regular file");
}

TEST(ReadExactly, FillsFromTheOffset) {
  const TemporaryFolder folder;
  spill(folder / "data", "0123456789");
  const OpenFile file = open_for_reading(folder / "data");
  std::array<char, 4> out{};
  read_exactly(file, 3, std::as_writable_bytes(std::span(out)), folder / "data");
  EXPECT_EQ(std::string_view(out.data(), out.size()), "3456");
  read_exactly(file, 6, std::as_writable_bytes(std::span(out)), folder / "data");
  EXPECT_EQ(std::string_view(out.data(), out.size()), "6789");
  read_exactly(file, 10, {}, folder / "data");  // nothing, from the end
}

TEST(ReadExactly, RefusesAFileThatEndsBefore) {
  const TemporaryFolder folder;
  spill(folder / "data", "0123456789");
  const OpenFile file = open_for_reading(folder / "data");
  std::array<std::byte, 4> out{};
  for (const std::uint64_t offset : {7ULL, 10ULL, 1000ULL}) {
    const Error error = error_of([&] { read_exactly(file, offset, out, folder / "data"); });
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged) << offset;
    EXPECT_EQ(error.where(), (folder / "data").string());
  }
}

TEST(ReadExactly, RefusesAnOffsetThatNoFileHas) {
  const TemporaryFolder folder;
  spill(folder / "data", "x");
  const OpenFile file = open_for_reading(folder / "data");
  std::array<std::byte, 1> out{};
  for (const std::uint64_t offset : {1ULL << 63, ~0ULL})
    EXPECT_NE(error_of([&] { read_exactly(file, offset, out, folder / "data"); }).kind(), ErrorKind::kInterrupted);
}

TEST(ReadText, GivesTheWholeFile) {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("a"), std::string("a\0b\n", 4)}) {
    spill(folder / "text", text);
    EXPECT_EQ(read_text(folder / "text", 100), text);
  }
}

TEST(ReadText, AcceptsTheLimitAndNotOneMore) {
  const TemporaryFolder folder;
  spill(folder / "text", std::string(100, 'x'));
  EXPECT_EQ(read_text(folder / "text", 100).size(), 100U);
  const Error error = error_of([&] { read_text(folder / "text", 99); });
  EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
  EXPECT_EQ(error.message(), "has 100 bytes; at most 99 are accepted");
}

// A sparse file of a tebibyte: reading any of it, or allocating for it, would not end well.
TEST(ReadText, RefusesAHugeFileBeforeAllocating) {
  const TemporaryFolder folder;
  spill(folder / "text", "");
  ASSERT_EQ(::truncate((folder / "text").c_str(), off_t{1} << 40), 0);
  EXPECT_EQ(error_of([&] { read_text(folder / "text", 1 << 20); }).kind(), ErrorKind::kDamaged);
}

TEST(AtomicFile, AppearsOnlyByCommit) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder / "out");
    file.write("one, ");
    file.write("two");
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
    file.commit();
    EXPECT_EQ(slurp(folder / "out"), "one, two");
  }
  EXPECT_EQ(slurp(folder / "out"), "one, two");
  EXPECT_EQ(folder.names().size(), 1U);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  spill(folder / "out", "old");
  { AtomicFile(folder / "out").write("new"); }
  EXPECT_EQ(slurp(folder / "out"), "old");
  EXPECT_EQ(folder.names().size(), 1U);
}

TEST(AtomicFile, WritesNothingAndMuch) {
  const TemporaryFolder folder;
  write_atomically(folder / "out", "");
  EXPECT_TRUE(std::filesystem::exists(folder / "out"));
  EXPECT_EQ(slurp(folder / "out"), "");
  const std::string much(5'000'001, 'm');
  write_atomically(folder / "out", much);
  EXPECT_EQ(slurp(folder / "out"), much);
}

TEST(AtomicFile, WritesIntoTheCurrentFolder) {
  const TemporaryFolder folder;
  const int status = status_of_child([&] {
    if (::chdir(folder.path().c_str()) != 0) return 1;
    write_atomically("bare-name", "here");
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(slurp(folder / "bare-name"), "here");
}

TEST(AtomicFile, KilledBeforeCommitLeavesTheOldFile) {
  const TemporaryFolder folder;
  spill(folder / "out", "old");
  const int status = status_of_child([&] {
    AtomicFile file(folder / "out");
    file.write("half of the new");
    ::raise(SIGKILL);
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(slurp(folder / "out"), "old");
  // What the dead process left is hidden and does not stand in the way.
  for (const std::string& name : folder.names())
    EXPECT_TRUE(name == "out" || (name.starts_with(".out.") && name.ends_with(".tmp"))) << name;
  write_atomically(folder / "out", "new");
  EXPECT_EQ(slurp(folder / "out"), "new");
}

// What looks like ours may be written at this moment by a process of another host that has our number.
TEST(AtomicFile, LeavesTheDraftsOfOthersAlone) {
  const TemporaryFolder folder;
  const std::string theirs = fmt::format(".out.{}.tmp", ::getpid());
  spill(folder / theirs, "theirs");
  write_atomically(folder / "out", "ours");
  EXPECT_EQ(slurp(folder / "out"), "ours");
  EXPECT_EQ(slurp(folder / theirs), "theirs");
}

TEST(DraftName, IsHiddenAndAnotherOneAtEveryCall) {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i)
    names.insert(draft_name("step-000000000001"));
  EXPECT_EQ(names.size(), 1000U);
  for (const std::string& name : names)
    EXPECT_THAT(name, ::testing::MatchesRegex("\\.step-000000000001\\.[1-9][0-9]*\\.tmp"));
}

TEST(AtomicFile, AReaderNeverSeesHalfAFile) {
  const TemporaryFolder folder;
  const std::string first(100'000, 'a');
  const std::string second(150'001, 'b');
  write_atomically(folder / "out", first);
  const pid_t writer = ::fork();
  if (writer == 0) {
    while (true) {
      write_atomically(folder / "out", second);
      write_atomically(folder / "out", first);
    }
  }
  ASSERT_GT(writer, 0);
  bool seen_second = false;
  for (int i = 0; i < 100'000 && !(seen_second && i >= 300); ++i) {
    const std::string text = slurp(folder / "out");
    ASSERT_TRUE(text == first || text == second) << text.size() << " bytes";
    seen_second = seen_second || text == second;
  }
  ::kill(writer, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(seen_second);
  const std::string text = slurp(folder / "out");
  EXPECT_TRUE(text == first || text == second);
}

TEST(AtomicFile, AFullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  spill(folder / "out", "old");
  const int status = status_of_child([&] {
    limit_file_size(4096);
    const Error error = error_of([&] { write_atomically(folder / "out", std::string(10'000, 'n')); });
    return error.kind() == ErrorKind::kResource && error.where() == (folder / "out").string() ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(slurp(folder / "out"), "old");
  EXPECT_EQ(folder.names().size(), 1U);
}

TEST(AtomicFile, RefusesAFolderThatIsNotThere) {
  const TemporaryFolder folder;
  const Error error = error_of([&] { AtomicFile file(folder / "none/out"); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error.where(), (folder / "none/out").string());
}

TEST(AtomicFile, DoesNotReplaceAFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "out/inside");
  EXPECT_EQ(error_of([&] { write_atomically(folder / "out", "x"); }).kind(), ErrorKind::kIo);
  EXPECT_TRUE(std::filesystem::is_directory(folder / "out/inside"));
  EXPECT_EQ(folder.names().size(), 1U);
}

// In a folder that others can write to, a link under the temporary name would send the bytes to a file of their choice.
TEST(AtomicFile, DoesNotFollowALinkUnderItsTemporaryName) {
  const TemporaryFolder folder;
  spill(folder / "victim", "precious");
  const std::string temporary = ".out." + std::to_string(::getpid()) + ".tmp";
  std::filesystem::create_symlink(folder / "victim", folder / temporary);
  write_atomically(folder / "out", "new");
  EXPECT_EQ(slurp(folder / "victim"), "precious");
  EXPECT_EQ(slurp(folder / "out"), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "out"));
}

TEST(MakeFolder, MakesAllAboveAndAcceptsOneThatIsThere) {
  const TemporaryFolder folder;
  make_folder(folder / "a/b/c");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c"));
  make_folder(folder / "a/b/c");
}

TEST(MakeFolder, RefusesAFileOnTheWay) {
  const TemporaryFolder folder;
  spill(folder / "file", "x");
  for (const std::string name : {"file", "file/below"}) {
    const Error error = error_of([&] { make_folder(folder / name); });
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound) << name;
    EXPECT_EQ(error.where(), (folder / name).string());
  }
}

TEST(SyncFolder, NamesAFolderThatIsNotThere) {
  const TemporaryFolder folder;
  sync_folder(folder.path());
  EXPECT_EQ(error_of([&] { sync_folder(folder / "none"); }).kind(), ErrorKind::kNotFound);
}

TEST(SystemError, HasTheKindOfItsCause) {
  const auto kind_of = [](int code) {
    return error_of([&] {
             errno = code;
             throw_system_error("cannot be written", "out.bin");
           })
        .kind();
  };
  EXPECT_EQ(kind_of(ENOENT), ErrorKind::kNotFound);
  EXPECT_EQ(kind_of(ENOTDIR), ErrorKind::kNotFound);
  for (const int code : {ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM})
    EXPECT_EQ(kind_of(code), ErrorKind::kResource) << code;
  EXPECT_EQ(kind_of(EIO), ErrorKind::kIo);
  EXPECT_EQ(kind_of(EACCES), ErrorKind::kIo);
  EXPECT_EQ(kind_of(EROFS), ErrorKind::kIo);
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}

TEST(FileDescriptor, ClosesWhatItHolds) {
  int number = -1;
  {
    const FileDescriptor descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(descriptor.valid());
    number = descriptor.get();
  }
  EXPECT_FALSE(is_open(number));
}

TEST(FileDescriptor, MovesAndReleases) {
  FileDescriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.get();
  FileDescriptor second(std::move(first));
  EXPECT_EQ(second.get(), number);
  FileDescriptor third(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_FALSE(second.valid());  // NOLINT(bugprone-use-after-move): empty after a move is the promise
  EXPECT_EQ(third.release(), number);
  EXPECT_FALSE(third.valid());
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

}  // namespace
}  // namespace muster
