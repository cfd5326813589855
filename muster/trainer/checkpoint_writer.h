// Writes checkpoints in the background, from snapshots, while training goes on.
//
// All that the training thread does is one copy of the state, into memory that the checkpoint before has left (a fresh
// allocation would cost a page fault every 4 KiB). Hashing and writing happen at the lowest priority: on a machine
// whose cores all train, a checkpoint takes what they leave over. A disk that is full or fails does not end training:
// the failure is reported and the next checkpoint tried as usual. Thread safety: one thread submits; the writing
// happens on a thread of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
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

struct CheckpointWriterOptions {
  // Both on the writing thread: called before each checkpoint, which is not written if it throws, and after each
  // attempt. `before` may still be running when the writer is gone, should the disk hang: it owns what it uses.
  std::function<void()> before = [] {};
  std::function<void(const WrittenCheckpoint&)> done = [](const WrittenCheckpoint&) {};
  // For a disk, from the moment at which a checkpoint was begun until its writer is given up.
  std::chrono::nanoseconds patience = std::chrono::minutes(10);
};

class CheckpointWriter {
 public:
  CheckpointWriter(model::CheckpointStore store, CheckpointWriterOptions options);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  // Finishes what was submitted. A disk that hangs for longer than `patience` is left alone, with the thread that waits
  // for it: `done` is not called any more.
  ~CheckpointWriter();

  // What was written last, for its memory: capture() fills it anew. Waits until that is written; nothing when the
  // deadline passed first: a disk that hangs must not stop training for ever.
  std::optional<TrainingState> spare(const Deadline& deadline);
  // Hands a snapshot over. `best_metric`: this is the best so far. REQUIRES: nothing is being written.
  void submit(TrainingState state, std::optional<double> best_metric);
  // Whether something is being written. Takes no lock, which a thread of low priority might hold for long.
  bool busy() const;
  // Until nothing is being written. False when the deadline passed first.
  bool wait(Deadline deadline);

 private:
  struct Desk;  // what both threads know
  static void run(Desk& desk);

  const std::shared_ptr<Desk> desk_;
  std::thread thread_;
};

}  // namespace muster::trainer
