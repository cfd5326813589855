// Texts as the kernel writes them, and this process before and after it takes memory.
#include "muster/base/process_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <vector>

#include "muster/base/temporary_folder.h"

namespace muster {
namespace {

TEST(ProcessMemoryTest, ReadsWhatTheKernelWrites) {
  const TemporaryFolder folder("muster-test");
  std::ofstream(folder.path() / "status") << "Name:\tmuster\nVmRSS:\t    7000 kB\nRssAnon:\t    5000 kB\n"
                                             "RssFile:\t    1500 kB\nRssShmem:\t     500 kB\n";
  const ProcessMemory memory = process_memory(folder.path() / "status");
  EXPECT_EQ(memory.anonymous_bytes, 5000u * 1024);
  EXPECT_EQ(memory.file_bytes, 1500u * 1024);
}

TEST(ProcessMemoryTest, WhatCannotBeReadIsNothing) {
  EXPECT_EQ(process_memory("/nonexistent").anonymous_bytes, 0u);
  EXPECT_EQ(proportional_bytes(-1), 0u);
  EXPECT_EQ(proportional_memory(-1).anonymous_bytes, 0u);
}

TEST(ProcessMemoryTest, GrowsByWhatThisProcessTakes) {
  const std::uint64_t anonymous = process_memory().anonymous_bytes;
  const std::uint64_t proportional = proportional_bytes(::getpid());
  const std::uint64_t own = proportional_memory(::getpid()).anonymous_bytes;
  const std::vector<char> taken(64 << 20, 'x');  // more than a heap keeps
  EXPECT_GE(process_memory().anonymous_bytes, anonymous + (60u << 20)) << taken.size();
  EXPECT_GE(proportional_bytes(::getpid()), proportional + (60u << 20));
  EXPECT_GE(proportional_memory(::getpid()).anonymous_bytes, own + (60u << 20));
}

// Whoever else runs this program or uses its libraries.
TEST(ProcessMemoryTest, PagesOfFilesCountInFull) {
  const std::uint64_t files = proportional_memory(::getpid()).file_bytes;
  EXPECT_GT(files, 0u);
  const pid_t other = ::fork();
  if (other == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_GT(other, 0);
  const std::uint64_t then = proportional_memory(::getpid()).file_bytes;
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_GE(then, files);
}

}  // namespace
}  // namespace muster
