#include "muster/trainer/checkpoint_writer.h"

#include <utility>

namespace muster::trainer {

CheckpointWriter::CheckpointWriter(model::CheckpointStore& store, std::function<void(const WrittenCheckpoint&)> done,
                                   std::function<void()> before)
    : store_(store), done_(std::move(done)), before_(std::move(before)), thread_([this] { run(); }) {
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
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_ && !busy_; });
  work_ = Work{std::move(state), best_metric};
  changed_.notify_all();
}

bool CheckpointWriter::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline.instant(), [this] { return !work_ && !busy_; });
}

void CheckpointWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_ || stop_; });
    if (!work_) return;
    const Work work = std::move(*work_);
    work_.reset();
    busy_ = true;
    lock.unlock();
    write(work);
    lock.lock();
    busy_ = false;
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
  } catch (const std::exception& error) {
    written.failure = error.what();
  }
  done_(written);
}

}  // namespace muster::trainer
