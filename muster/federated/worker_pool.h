// Processes that share the work of a simulation: copies of this one, which take orders and answer.
//
// Processes and not threads, because LibTorch's random numbers are the process's. An order is a pure function of the
// memory that all share and of itself, so that it does not matter who carries it out, and one whose worker has died is
// given to another. A worker that gets no further (stopped, or hung without using a processor) is killed and replaced.
//
// Thread safety: one thread. REQUIRES: this process has not computed with LibTorch, and has no thread that holds a lock
// while the pool starts workers.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/launch/child_process.h"

namespace muster::federated {

// Both travel as they stand, between copies of one program.
struct Order {
  std::uint32_t what = 0;
  std::uint64_t round = 0;
  std::uint64_t piece = 0;
  std::array<char, 2048> text{};  // ends with 0
};

struct Answer {
  std::uint64_t piece = 0;
  std::uint64_t count = 0;
  std::uint64_t samples = 0;         // of those that count
  std::uint64_t refused = 0;         // updates that were not used
  std::uint64_t refused_client = 0;  // the first of them
  std::uint64_t update_bytes = 0;    // of all updates, as clients send them
  double weight = 0;
  double loss = 0;
  std::array<double, 8> weights{};  // of the whole model and of narrower ones
  std::uint64_t tested = 0;         // samples that clients evaluated on; of these the sums of loss and first metric
  double test_loss = 0;
  double test_metric = 0;    // `text` has its name
  std::uint32_t failed = 0;  // then `text`, `where` and `remedy` say why, and `error` is the kind
  std::uint32_t error = 0;
  std::array<char, 4096> text{};  // ends with 0, as the next two
  std::array<char, 1024> where{};
  std::array<char, 2048> remedy{};
};

// Copies what fits.
void put_text(std::span<char> room, std::string_view text);

struct PoolOptions {
  int workers = 1;
  // Without processor time for so long while it has an order, a worker hangs.
  std::chrono::nanoseconds hang = std::chrono::seconds(60);
  int most_deaths = 2;  // of workers at one order; then it is the order's fault
};

class WorkerPool {
 public:
  using Work = std::function<Answer(const Order&)>;

  // `make` is called in every worker, once, before its first order. Workers are started by the first order for them.
  WorkerPool(const PoolOptions& options, std::function<Work()> make, const Clock& clock = system_clock());
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  // Has all orders carried out, and tells of each answer as it comes. `keep_on` is asked several times a second; false
  // ends it with Error{kInterrupted}. Throws what a worker threw, and kCompute when an order has killed workers.
  void run(std::span<const Order> orders, const std::function<void(const Answer&)>& answered,
           const std::function<bool()>& keep_on);

  std::uint64_t replaced() const { return replaced_; }  // workers, so far
  // The most that each worker has held, added up.
  std::uint64_t peak_memory() const;

 private:
  struct Worker {
    std::unique_ptr<launch::ChildProcess> process;
    FileDescriptor line;
    std::optional<std::size_t> order;  // that it works on
    std::chrono::nanoseconds processor{};
    Clock::Instant advanced;  // when that was last seen to grow
  };

  Worker start() const;
  void give(Worker& worker, const Order& order, std::size_t index);
  // Ends a worker; its order is to be done again.
  void give_up(Worker& worker, std::deque<std::size_t>& waiting, std::vector<int>& deaths);
  bool hangs(Worker& worker) const;
  void wait_for_news() const;

  const PoolOptions options_;
  const std::function<Work()> make_;
  const Clock& clock_;
  std::vector<Worker> workers_;
  std::uint64_t replaced_ = 0;
};

}  // namespace muster::federated
