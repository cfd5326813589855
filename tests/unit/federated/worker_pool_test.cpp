// Workers that are copies of this test: what they answer, and what happens when they die, hang or throw.
#include "muster/federated/worker_pool.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "support/errors.h"

namespace muster::federated {
namespace {

using testing::expect_error;

constexpr auto kGoOn = [] { return true; };

// A counter that the workers share with the test.
class SharedCounter {
 public:
  SharedCounter()
      : value_(new (::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                           0)) std::atomic<int>(0)) {}
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter() { ::munmap(value_, sizeof *value_); }
  std::atomic<int>& operator*() const { return *value_; }

 private:
  std::atomic<int>* value_;
};

std::vector<Order> orders_of(std::size_t count) {
  std::vector<Order> orders(count);
  for (std::size_t i = 0; i < count; ++i)
    orders[i].piece = i;
  return orders;
}

TEST(WorkerPool, AnswersEveryOrderOnce) {
  WorkerPool pool({.workers = 3}, []() -> WorkerPool::Work {
    return [](const Order& order) {
      return Answer{
          .piece = order.piece, .count = order.piece * order.piece, .weight = static_cast<double>(::getpid())};
    };
  });
  const auto orders = orders_of(40);
  std::multiset<std::uint64_t> pieces;
  std::set<double> workers;
  pool.run(
      orders,
      [&](const Answer& answer) {
        EXPECT_EQ(answer.count, answer.piece * answer.piece);
        pieces.insert(answer.piece);
        workers.insert(answer.weight);
      },
      kGoOn);
  EXPECT_EQ(pieces.size(), 40U);
  EXPECT_EQ(std::set<std::uint64_t>(pieces.begin(), pieces.end()).size(), 40U);
  EXPECT_LE(workers.size(), 3U);
  EXPECT_FALSE(workers.contains(static_cast<double>(::getpid()))) << "this process does not compute";
}

// kill -9, and a process that is stopped: both are replaced, and the order is carried out by another.
TEST(WorkerPool, ReplacesThoseWhoDieOrStop) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    const SharedCounter first;
    WorkerPool pool({.workers = 2, .hang = std::chrono::milliseconds(300)}, [&]() -> WorkerPool::Work {
      return [&](const Order& order) {
        if (order.piece == 2 && (*first)++ == 0) ::raise(signal);
        return Answer{.piece = order.piece, .count = 1};
      };
    });
    std::uint64_t answered = 0;
    pool.run(
        orders_of(6), [&](const Answer& answer) { answered += answer.count; }, kGoOn);
    EXPECT_EQ(answered, 6U);
    EXPECT_EQ(pool.replaced(), 1U);
  }
}

TEST(WorkerPool, AnOrderThatKillsEverybodyEndsTheRun) {
  WorkerPool pool({.workers = 1}, []() -> WorkerPool::Work {
    return [](const Order& order) -> Answer {
      if (order.piece == 1) ::raise(SIGKILL);
      return {.piece = order.piece};
    };
  });
  expect_error(ErrorKind::kCompute, "ended 2 workers", [&] {
    pool.run(
        orders_of(2), [](const Answer&) {}, kGoOn);
  });
}

TEST(WorkerPool, ErrorsKeepTheirKindAndThePoolCanBeUsedAgain) {
  WorkerPool pool({.workers = 2}, []() -> WorkerPool::Work {
    return [](const Order& order) -> Answer {
      if (order.what == 1) throw Error(ErrorKind::kInvalidInput, "a bad piece", "place", "Do better.");
      return {.piece = order.piece, .count = 1};
    };
  });
  auto orders = orders_of(3);
  orders[1].what = 1;
  expect_error(ErrorKind::kInvalidInput, "place: a bad piece. Do better.", [&] {
    pool.run(
        orders, [](const Answer&) {}, kGoOn);
  });
  std::uint64_t answered = 0;
  pool.run(
      orders_of(5), [&](const Answer& answer) { answered += answer.count; }, kGoOn);
  EXPECT_EQ(answered, 5U);
}

TEST(WorkerPool, AWorkerThatCannotBeMadeSaysWhy) {
  WorkerPool pool({.workers = 2}, []() -> WorkerPool::Work { throw Error(ErrorKind::kMismatch, "no such model"); });
  expect_error(ErrorKind::kMismatch, "no such model", [&] {
    pool.run(
        orders_of(1), [](const Answer&) {}, kGoOn);
  });
}

TEST(WorkerPool, IsBrokenOffWhenAsked) {
  WorkerPool pool({.workers = 2}, []() -> WorkerPool::Work {
    return [](const Order& order) -> Answer {
      ::pause();
      return {.piece = order.piece};
    };
  });
  expect_error(ErrorKind::kInterrupted, "stopped", [&] {
    pool.run(
        orders_of(2), [](const Answer&) {}, [] { return false; });
  });
}

}  // namespace
}  // namespace muster::federated
