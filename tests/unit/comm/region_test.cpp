// Shared memory between processes: sealed, untouched until used, refused when it is not what it should be.
#include "muster/comm/region.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <string>

#include "muster/base/error.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::comm {
namespace {

using muster::testing::expect_error;
using muster::testing::slurp;
using muster::testing::spill;
using muster::testing::status_of_child;
using muster::testing::TemporaryFolder;

FileDescriptor duplicate(int descriptor) {
  return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

FileDescriptor memfd(std::size_t bytes, int seals) {
  FileDescriptor descriptor(::memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(descriptor.get(), static_cast<off_t>(bytes)), 0);
  if (seals != 0) {
    EXPECT_EQ(::fcntl(descriptor.get(), F_ADD_SEALS, seals), 0);
  }
  return descriptor;
}

TEST(SharedRegion, IsZeroAndAtLeastAsLargeAsAskedFor) {
  for (const std::size_t bytes : {1UL, 4095UL, 4096UL, 4097UL, (5UL << 20) + 3}) {
    for (const bool huge_pages : {false, true}) {
      const SharedRegion region = SharedRegion::create(bytes, {.huge_pages = huge_pages});
      ASSERT_GE(region.bytes().size(), bytes);
      EXPECT_TRUE(
          std::all_of(region.bytes().begin(), region.bytes().end(), [](std::byte b) { return b == std::byte{0}; }));
      EXPECT_FALSE(region.pages_reason().empty());
      EXPECT_EQ(region.pages() == Pages::kSmall || huge_pages, true) << region.pages_reason();
    }
  }
}

TEST(SharedRegion, TakesNoMemoryUntilItIsTouched) {
  const SharedRegion region = SharedRegion::create(64 << 20, {.huge_pages = false});
  struct stat status {};
  ASSERT_EQ(::fstat(region.descriptor(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
  region.bytes()[12345] = std::byte{1};
  ASSERT_EQ(::fstat(region.descriptor(), &status), 0);
  EXPECT_GT(status.st_blocks, 0);
}

// Bytes of the mapping at `address` that this process has as huge pages, as the kernel counts them.
std::size_t huge_bytes_at(const void* address) {
  std::ifstream file("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool here = false;
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::size_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2) here = begin <= wanted && wanted < end;
    if (here && std::sscanf(line.c_str(), "ShmemPmdMapped: %zu kB", &kibibytes) == 1) return kibibytes << 10;
  }
  return 0;
}

TEST(SharedRegion, JoinsPagesThatAreMadeNowForEveryoneWhoMapsThem) {
  constexpr std::size_t kSize = (8UL << 20) + 5000;
  const SharedRegion region = SharedRegion::create(kSize, {.make_now = true});
  EXPECT_TRUE(std::all_of(region.bytes().begin(), region.bytes().end(), [](std::byte b) { return b == std::byte{0}; }));
  region.bytes()[kSize - 1] = std::byte{7};
  if (region.pages() != Pages::kJoined) {
    // An older kernel, memory in pieces, or one that has huge pages without our help: the reason says which.
    EXPECT_TRUE(region.pages() != Pages::kSmall || region.pages_reason().find("joined") != std::string::npos)
        << region.pages_reason();
    return;
  }
  EXPECT_GE(huge_bytes_at(region.bytes().data()), 2UL << 20) << region.pages_reason();
  const SharedRegion other = SharedRegion::attach(duplicate(region.descriptor()), kSize);
  EXPECT_EQ(other.bytes()[kSize - 1], std::byte{7});
  EXPECT_EQ(other.bytes()[0], std::byte{0});
  EXPECT_GE(huge_bytes_at(other.bytes().data()), 2UL << 20);
  // A part that begins inside a huge page: the next whole one is mapped as one.
  const ReadOnlyMapping part = region.map_read_only(4096, kSize - 4096);
  EXPECT_EQ(part.bytes().back(), std::byte{7});
  EXPECT_EQ(part.bytes()[(2UL << 20)], std::byte{0});
  EXPECT_GE(huge_bytes_at(part.bytes().data()), 2UL << 20);
}

TEST(SharedRegion, IsSharedBetweenProcesses) {
  const SharedRegion region = SharedRegion::create(10000);
  const int status = status_of_child([&] {
    const SharedRegion other = SharedRegion::attach(duplicate(region.descriptor()), 10000);
    other.bytes()[9999] = std::byte{42};
    return other.bytes().size() == region.bytes().size() ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(region.bytes()[9999], std::byte{42});
}

TEST(SharedRegion, CannotBeCutOrGrown) {
  const SharedRegion region = SharedRegion::create(8192);
  EXPECT_NE(::ftruncate(region.descriptor(), 4096), 0);
  EXPECT_NE(::ftruncate(region.descriptor(), 1 << 23), 0);
  EXPECT_NE(::fcntl(region.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(SharedRegion, StaysMappedWhenItMoves) {
  SharedRegion first = SharedRegion::create(100);
  std::byte* const base = first.bytes().data();
  base[5] = std::byte{7};
  SharedRegion second = std::move(first);
  EXPECT_EQ(second.bytes().data(), base);
  SharedRegion third = SharedRegion::create(4096);
  third = std::move(second);
  EXPECT_EQ(third.bytes()[5], std::byte{7});
}

TEST(SharedRegion, RefusesMoreThanTheMemoryThatIsLeft) {
  const Memory memory{1'000'000, "1.0 MB left below the cgroup's limit"};
  EXPECT_EQ(SharedRegion::create(1'000'000, {.huge_pages = false, .memory = memory}).bytes().size(), 1'000'000U);
  expect_error(ErrorKind::kResource,
               "2.0 MB of shared memory are needed and 1.0 MB left below the cgroup's limit. Use fewer lanes",
               [&] { SharedRegion::create(2'000'000, {.huge_pages = false, .memory = memory}); });
}

TEST(SharedRegion, RefusesMoreThanTheMachineHas) {
  for (const std::size_t bytes : {std::size_t{1} << 45, std::size_t{1} << 50, std::numeric_limits<std::size_t>::max()})
    expect_error(ErrorKind::kResource, "of shared memory are needed", [&] { SharedRegion::create(bytes); });
}

TEST(SharedRegion, RefusesWhatIsNoRegion) {
  const TemporaryFolder folder;
  spill(folder / "file", std::string(10000, 'x'));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor write_end(ends[1]);
  FileDescriptor pipe(ends[0]);
  expect_error(ErrorKind::kMismatch, "not that of a memfd", [&] { SharedRegion::attach(std::move(pipe)); });
  expect_error(ErrorKind::kMismatch, "not that of a memfd",
               [&] { SharedRegion::attach(FileDescriptor(::open((folder / "file").c_str(), O_RDWR | O_CLOEXEC))); });
  expect_error(ErrorKind::kIo, "cannot be examined", [&] { SharedRegion::attach(FileDescriptor()); });
}

TEST(SharedRegion, RefusesAMemfdThatItsOwnerCanStillCut) {
  expect_error(ErrorKind::kMismatch, "not sealed", [] { SharedRegion::attach(memfd(8192, 0)); });
  expect_error(ErrorKind::kMismatch, "not sealed",
               [] { SharedRegion::attach(memfd(8192, F_SEAL_GROW | F_SEAL_SEAL)); });
}

TEST(SharedRegion, RefusesAMemfdThatCannotBeWritten) {
  expect_error(ErrorKind::kMismatch, "against writing",
               [] { SharedRegion::attach(memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_WRITE)); });
}

TEST(SharedRegion, RefusesATruncatedRegion) {
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  EXPECT_EQ(SharedRegion::attach(memfd(8192, seals), 8192).bytes().size(), 8192U);
  expect_error(ErrorKind::kDamaged, "has 8192 bytes, and at least 8193 were expected",
               [&] { SharedRegion::attach(memfd(8192, seals), 8193); });
  expect_error(ErrorKind::kDamaged, "has 0 bytes", [&] { SharedRegion::attach(memfd(0, seals)); });
}

TEST(SharedRegion, ForOneProcessAloneNeedsNoDescriptorAndNoFileSize) {
  const int status = status_of_child([] {
    muster::testing::limit_file_size(4096);
    const SharedRegion region = SharedRegion::create(1 << 20, {.shared = false});
    if (region.descriptor() >= 0 || region.bytes().size() != 1 << 20) return 1;
    region.bytes().back() = std::byte{7};
    const ReadOnlyMapping part = region.map_read_only((1 << 20) - 10, 10);
    return part.bytes().back() == std::byte{7} ? 0 : 2;
  });
  EXPECT_EQ(status, 0);
  expect_error(ErrorKind::kResource, "", [] {
    SharedRegion::create(1 << 20, {.shared = false, .memory = Memory{1000, "a test"}});
  });
}

TEST(ReadOnlyMapping, ShowsTheRangeAndItsChanges) {
  ReadOnlyMapping mapping;
  const SharedRegion region = SharedRegion::create(3 * 4096 + 5);
  for (const std::size_t offset : {0UL, 1UL, 4096UL, 5000UL}) {
    mapping = region.map_read_only(offset, 4100);
    ASSERT_EQ(mapping.bytes().size(), 4100U);
    region.bytes()[offset] = std::byte{11};
    region.bytes()[offset + 4099] = std::byte{22};
    EXPECT_EQ(mapping.bytes().front(), std::byte{11});
    EXPECT_EQ(mapping.bytes().back(), std::byte{22});
  }
  EXPECT_TRUE(region.map_read_only(17, 0).bytes().empty());
}

TEST(ReadOnlyMapping, OutlivesTheRegion) {
  ReadOnlyMapping mapping;
  {
    const SharedRegion region = SharedRegion::create(4096);
    region.bytes()[9] = std::byte{5};
    mapping = region.map_read_only(0, 4096);
  }
  EXPECT_EQ(mapping.bytes()[9], std::byte{5});
}

TEST(ReadOnlyMapping, EndsAProcessThatWritesThroughIt) {
  const SharedRegion region = SharedRegion::create(8192);
  const ReadOnlyMapping mapping = region.map_read_only(0, 8192);
  const int status = status_of_child([&] {
    std::signal(SIGSEGV, SIG_DFL);  // without a sanitizer's report
    *const_cast<volatile std::byte*>(&mapping.bytes()[100]) = std::byte{1};
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  EXPECT_EQ(region.bytes()[100], std::byte{0});
}

}  // namespace
}  // namespace muster::comm
