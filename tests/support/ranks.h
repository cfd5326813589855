// Runs the ranks of a group as threads of the test: the thread sanitizer sees them, and failures are the test's own.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace muster::testing {

// Calls body(rank) in one thread for each rank and waits for all. An exception is a failure of the test.
inline void run_ranks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&body, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

}  // namespace muster::testing
