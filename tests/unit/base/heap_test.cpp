// Counts the pages that the kernel gives while memory is freed and taken again.
#include "muster/base/heap.h"

#include <sys/resource.h>

#include <cstring>
#include <memory>

#include <gtest/gtest.h>

namespace muster {
namespace {

// Pages that the kernel gives this process while it fills a block of the size of a tensor.
[[maybe_unused]] long faults_of_a_block() {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  const std::unique_ptr<char[]> block(new char[kBytes]);
  std::memset(block.get(), 1, kBytes);
  asm volatile("" : : "r"(block.get()) : "memory");  // else the compiler sees that nobody reads it
  ::getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(Heap, MemoryThatWasGivenBackIsThereForTheNextStep) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have a heap of their own";
#else
  keep_freed_memory();
  const long first = faults_of_a_block();
  EXPECT_GT(first, 4);
  EXPECT_LT(faults_of_a_block(), first / 2);
#endif
}

}  // namespace
}  // namespace muster
