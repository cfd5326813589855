// Processes that write where they may only read, and what is said of it before they end.
#include "muster/compute/write_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <new>

namespace muster::compute {
namespace {

constexpr std::size_t kBytes = 4096;

// A page that cannot be written.
class Page {
 public:
  Page() : base_(::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (base_ == MAP_FAILED) throw std::bad_alloc();
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() { ::munmap(base_, kBytes); }
  volatile char* at(std::size_t offset) const { return static_cast<volatile char*>(base_) + offset; }
  std::span<const std::byte> bytes(std::size_t from, std::size_t to) const {
    return {static_cast<const std::byte*>(base_) + from, to - from};
  }

 private:
  void* base_;
};

TEST(WriteGuardDeathTest, NamesTheParameterThatWasWrittenAndWhatToDo) {
  const Page page;
  const WriteGuard guard({{page.bytes(0, 100), "conv.bias"}, {page.bytes(100, kBytes), "fc.weight"}});
  EXPECT_DEATH(*page.at(100) = 1, "writes to parameter fc.weight, which a session holds.*before synchronize");
  EXPECT_DEATH(*page.at(99) = 1, "parameter conv.bias,");
}

TEST(WriteGuardDeathTest, SaysNothingOfOtherMemory) {
  const Page guarded;
  const Page other;
  const WriteGuard guard({{guarded.bytes(0, kBytes), "fc.weight"}});
  EXPECT_DEATH(*other.at(0) = 1, ::testing::Not(::testing::ContainsRegex("fc.weight")));
}

TEST(WriteGuardDeathTest, SaysNothingOnceItIsGone) {
  const Page page;
  { const WriteGuard guard({{page.bytes(0, kBytes), "fc.weight"}}); }
  EXPECT_DEATH(*page.at(0) = 1, ::testing::Not(::testing::ContainsRegex("fc.weight")));
}

TEST(WriteGuardDeathTest, ASignalThatSomebodySentEndsTheProcessAllTheSame) {
  const Page page;
  const WriteGuard guard({{page.bytes(0, kBytes), "fc.weight"}});
  EXPECT_DEATH(
      {
        ::raise(SIGSEGV);
        ::_exit(0);
      },
      "");
}

}  // namespace
}  // namespace muster::compute
