// One checkpoint at a time, and its memory goes back to be filled again. A disk that is stuck keeps its thread: after a
// while that is left behind with all it uses, and nobody is told anything more.
#include "muster/trainer/checkpoint_writer.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"

namespace muster::trainer {
namespace {

// Nice 19 has a seventieth of a training thread's claim to a core: not SCHED_IDLE, which a busy machine starves. Where
// it is refused the checkpoint costs more, and nothing else.
void give_way_to_training() {
  const auto thread = static_cast<id_t>(::gettid());
  constexpr int kLowest = 19;
  // By number (ioprio_set(2)): <linux/ioprio.h> of newer kernels, Debian 12's 6.1.192 among them, is no C++.
  constexpr int kWhoProcess = 1;
  constexpr int kLastOfBestEffort = (2 << 13) | 7;
  static_cast<void>(::setpriority(PRIO_PROCESS, thread, kLowest));
  static_cast<void>(::syscall(SYS_ioprio_set, kWhoProcess, thread, kLastOfBestEffort));
}

struct Work {
  TrainingState state;
  std::optional<double> best_metric;
};

}  // namespace

struct CheckpointWriter::Desk {
  Desk(CheckpointWriterOptions its_options, model::CheckpointStore its_store)
      : options(std::move(its_options)), store(std::move(its_store)) {}

  // constant after construction
  const CheckpointWriterOptions options;
  // of the writing thread
  model::CheckpointStore store;
  // guarded by mutex
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Work> work;
  TrainingState spare;
  std::optional<Clock::Instant> begun;  // what is being written
  bool stop = false;
  // Held while `done` is called. Taken before `mutex`, never while holding it.
  std::mutex telling;
  bool abandoned = false;  // guarded by telling: nobody is there any more who could be told
  // own synchronisation
  std::atomic<bool> unfinished = false;

  bool idle() const { return !work && !begun; }
  void write(const Work& now);
};

CheckpointWriter::CheckpointWriter(model::CheckpointStore store, CheckpointWriterOptions options)
    : desk_(std::make_shared<Desk>(std::move(options), std::move(store))),
      thread_([desk = desk_, key = FailpointScope::current()] {
        const FailpointScope scope(key);
        run(*desk);
      }) {
}

CheckpointWriter::~CheckpointWriter() {
  std::unique_lock lock(desk_->mutex);
  desk_->stop = true;
  desk_->changed.notify_all();
  const Clock::Instant begun = desk_->begun.value_or(system_clock().now());
  const bool idle = desk_->changed.wait_until(lock, begun + desk_->options.patience, [this] { return desk_->idle(); });
  lock.unlock();
  if (idle) {
    thread_.join();
  } else {
    const std::lock_guard telling(desk_->telling);
    desk_->abandoned = true;
    thread_.detach();
  }
}

void CheckpointWriter::submit(TrainingState state, std::optional<double> best_metric) {
  const std::lock_guard lock(desk_->mutex);
  MUSTER_CHECK(desk_->idle(), "one checkpoint at a time");
  desk_->work = Work{std::move(state), best_metric};
  desk_->unfinished = true;
  desk_->changed.notify_all();
}

std::optional<TrainingState> CheckpointWriter::spare(const Deadline& deadline) {
  if (!wait(deadline)) return std::nullopt;
  const std::lock_guard lock(desk_->mutex);
  return std::move(desk_->spare);
}

bool CheckpointWriter::busy() const {
  return desk_->unfinished.load(std::memory_order_relaxed);
}

bool CheckpointWriter::wait(Deadline deadline) {
  std::unique_lock lock(desk_->mutex);
  return desk_->changed.wait_until(lock, deadline.instant(), [this] { return desk_->idle(); });
}

void CheckpointWriter::run(Desk& desk) {
  give_way_to_training();
  std::unique_lock lock(desk.mutex);
  while (true) {
    desk.changed.wait(lock, [&] { return desk.work || desk.stop; });
    if (!desk.work) return;
    Work work = std::move(*desk.work);
    desk.work.reset();
    desk.begun = system_clock().now();
    lock.unlock();
    desk.write(work);
    lock.lock();
    desk.spare = std::move(work.state);
    desk.begun.reset();
    desk.unfinished = false;
    desk.changed.notify_all();
  }
}

void CheckpointWriter::Desk::write(const Work& now) {
  WrittenCheckpoint written;
  written.step = now.state.manifest.step;
  written.path = store.path_of(written.step);
  try {
    options.before();
    store.save(now.state.content());
    if (now.best_metric) store.mark_best(written.step, *now.best_metric);
  } catch (const Error& error) {
    written.failure = error.what();
    written.cause = error.message();
  } catch (const std::exception& error) {
    written.failure = written.cause = error.what();
  }
  const std::lock_guard lock(telling);
  if (!abandoned) options.done(written);
}

}  // namespace muster::trainer
