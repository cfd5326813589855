#include "muster/trainer/checkpoint_writer.h"

#include <linux/ioprio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"

namespace muster::trainer {
namespace {

// Nice 19 has a seventieth of a training thread's claim to a core: not SCHED_IDLE, which a busy machine starves. Where
// it is refused the checkpoint costs more, and nothing else.
void give_way_to_training() {
  const auto thread = static_cast<id_t>(::gettid());
  constexpr int kLowest = 19;
  // Not constexpr: newer kernel headers have a function behind the macro.
  const int last_of_best_effort = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7);
  static_cast<void>(::setpriority(PRIO_PROCESS, thread, kLowest));
  static_cast<void>(::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, thread, last_of_best_effort));
}

}  // namespace

CheckpointWriter::CheckpointWriter(model::CheckpointStore& store, std::function<void(const WrittenCheckpoint&)> done,
                                   std::function<void()> before)
    : store_(store),
      done_(std::move(done)),
      before_(std::move(before)),
      thread_([this, key = FailpointScope::current()] {
        const FailpointScope scope(key);
        run();
      }) {
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointWriter::submit(TrainingState state, std::optional<double> best_metric) {
  const std::lock_guard lock(mutex_);
  MUSTER_CHECK(!work_ && !busy_, "one checkpoint at a time");
  work_ = Work{std::move(state), best_metric};
  unfinished_ = true;
  changed_.notify_all();
}

std::optional<TrainingState> CheckpointWriter::spare(const Deadline& deadline) {
  if (!wait(deadline)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return std::move(spare_);
}

bool CheckpointWriter::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline.instant(), [this] { return !work_ && !busy_; });
}

void CheckpointWriter::run() {
  give_way_to_training();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_ || stop_; });
    if (!work_) return;
    Work work = std::move(*work_);
    work_.reset();
    busy_ = true;
    lock.unlock();
    write(work);
    lock.lock();
    spare_ = std::move(work.state);
    busy_ = false;
    unfinished_ = false;
    changed_.notify_all();
  }
}

void CheckpointWriter::write(const Work& work) {
  WrittenCheckpoint written;
  written.step = work.state.manifest.step;
  written.path = store_.path_of(written.step);
  try {
    before_();
    store_.save(work.state.content());
    if (work.best_metric) store_.mark_best(written.step, *work.best_metric);
  } catch (const Error& error) {
    written.failure = error.what();
    written.cause = error.message();
  } catch (const std::exception& error) {
    written.failure = written.cause = error.what();
  }
  done_(written);
}

}  // namespace muster::trainer
