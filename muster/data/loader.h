// Loader: reads batches ahead of the training loop on threads of its own, so that training does not wait for data.
//
// The caller submits the sample ids of the batches to come, a few ahead, and takes them in any order it likes:
//
//   Loader loader(dataset, {.threads = 1});
//   auto ahead = loader.submit(ids_of(step));
//   for (...; ++step) {
//     auto ticket = std::exchange(ahead, loader.submit(ids_of(step + 1)));
//     Batch batch = loader.take(ticket, Deadline::after(30s));
//     ... train on batch ...
//     loader.recycle(std::move(batch));
//   }
//
// Which thread reads a batch never shows in its contents. Batches are started in the order of their submission.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/base/mutex.h"
#include "muster/data/aligned_floats.h"
#include "muster/data/dataset.h"

namespace muster::data {

// Samples as a model takes them. A value that moves.
struct Batch {
  AlignedFloats features;            // sample after sample; empty for tokens
  std::vector<std::int64_t> tokens;  // sample after sample; empty for floats
  std::vector<std::int64_t> labels;  // one a sample, or one for each of its target's places; empty for values
  std::vector<float> values;         // of regression; else empty
  std::vector<float> probabilities;  // {samples, classes}, of samples that were mixed after loading; else empty
  std::vector<std::uint64_t> ids;
  std::vector<std::int64_t> shape;         // of features or tokens: {samples, spec().shape...}
  std::vector<std::int64_t> target_shape;  // of labels or values: {samples, spec().target_shape...}

  std::size_t size() const { return ids.size(); }
};

struct LoaderOptions {
  int threads = 1;  // 0: none; take() reads by itself
};

// Thread safety: submit, take and recycle from any thread; one take at a time for a ticket.
class Loader {
 public:
  using Ticket = std::uint64_t;

  // Throws Error{kInvalidInput} for a negative number of threads, kResource if they cannot be started.
  explicit Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options = {});
  // Gives up what was submitted and not taken; waits for at most one Dataset::read per thread.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Asks for a batch. Never blocks on reading; what is submitted and not taken stays in memory, so the caller
  // bounds how far ahead it asks. With an epoch samples are read as training sees them in it (Dataset::read_in_epoch),
  // without one as they are. REQUIRES: every id below the data set's size.
  Ticket submit(std::vector<std::uint64_t> ids, std::optional<std::uint64_t> epoch = std::nullopt);

  // Waits for the batch and hands it over; the ticket is then spent.
  // Throws Error{kTimeout}, naming the first sample, when the deadline passes first: the ticket stays good
  // for another try. Throws what went wrong in reading: an Error of the data set as it was thrown; kIo
  // (std::system_error), kResource (out of memory) or kCompute (anything else) naming the sample;
  // kInvalidInput for a label that is not a class. The ticket is spent then too. With no threads the deadline
  // is looked at between samples. REQUIRES: a ticket of this loader that is not spent.
  Batch take(Ticket ticket, Deadline deadline);

  // Gives a batch's memory back for batches to come. Never needed, only faster.
  void recycle(Batch batch);

 private:
  struct Job;

  void run();
  // Reads the job's samples from where it stands until done, failed, or told to stop (false: stopped early).
  // An exception ends up in the job. Touches nothing but the job: called without the lock.
  template <typename Stop>
  bool read(Job& job, Stop stop) const;
  void make_room(Batch& batch) const;
  void read_sample(Batch& batch, std::size_t index, std::optional<std::uint64_t> epoch) const;
  void stop();

  // Constant after construction.
  const std::shared_ptr<const Dataset> dataset_;
  const std::uint64_t elements_;         // of an input
  const std::uint64_t target_elements_;  // of a target
  std::vector<std::thread> threads_;

  std::atomic<bool> stopping_{false};  // written under mutex_, looked at between samples without it

  Mutex mutex_;
  Condition submitted_;  // queue_ has grown, or stopping_
  Condition finished_;   // some job is done
  Ticket next_ticket_ MUSTER_GUARDED_BY(mutex_) = 0;
  // A job's contents belong to the thread that reads it, from leaving queue_ until Job::done is set under mutex_.
  std::map<Ticket, std::unique_ptr<Job>> jobs_ MUSTER_GUARDED_BY(mutex_);
  std::deque<Job*> queue_ MUSTER_GUARDED_BY(mutex_);  // not yet started; unused with no threads
  std::vector<Batch> spare_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::data
