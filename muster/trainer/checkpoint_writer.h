// Writes checkpoints in the background, from snapshots, while training goes on.
//
// All that the training thread does is one copy of the state, into memory that the checkpoint before has left (a fresh
// allocation would cost a page fault every 4 KiB). Hashing and writing happen at the lowest priority: on a machine
// whose cores all train, a checkpoint takes what they leave over. A disk that is full or fails does not end training:
// the failure is reported and the next checkpoint tried as usual. Thread safety: one thread submits; the writing
// happens on a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "muster/base/deadline.h"
#include "muster/model/checkpoint.h"
#include "muster/trainer/training_state.h"

namespace muster::trainer {

struct WrittenCheckpoint {
  std::uint64_t step = 0;
  std::filesystem::path path;
  std::string failure;  // empty when it was written
  std::string cause;    // the failure without the names of files
};

class CheckpointWriter {
 public:
  // On the writing thread `before` is called before each checkpoint, which is not written if it throws, and `done`
  // after each attempt.
  CheckpointWriter(
      model::CheckpointStore& store, std::function<void(const WrittenCheckpoint&)> done,
      std::function<void()> before = [] {});
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  // Finishes what was submitted.
  ~CheckpointWriter();

  // What was written last, for its memory: capture() fills it anew. Waits until that is written; nothing when the
  // deadline passed first: a disk that hangs must not stop training for ever.
  std::optional<TrainingState> spare(const Deadline& deadline);
  // Hands a snapshot over. `best_metric`: this is the best so far. REQUIRES: nothing is being written.
  void submit(TrainingState state, std::optional<double> best_metric);
  // Whether something is being written. Takes no lock, which a thread of low priority might hold for long.
  bool busy() const { return unfinished_.load(std::memory_order_relaxed); }
  // Until nothing is being written. False when the deadline passed first.
  bool wait(Deadline deadline);

 private:
  struct Work {
    TrainingState state;
    std::optional<double> best_metric;
  };
  void run();
  void write(const Work& work);

  // constant after construction
  model::CheckpointStore& store_;  // used only by the writing thread while there is work
  const std::function<void(const WrittenCheckpoint&)> done_;
  const std::function<void()> before_;
  // guarded by mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Work> work_;
  TrainingState spare_;
  bool busy_ = false;
  bool stop_ = false;
  // own synchronisation
  std::atomic<bool> unfinished_ = false;

  std::thread thread_;
};

}  // namespace muster::trainer
