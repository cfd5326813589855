// A mutex, its lock and its condition, annotated so that clang's -Wthread-safety proves who holds what.
//
// Write MUSTER_GUARDED_BY(mutex_) behind a member and MUSTER_REQUIRES(mutex_) behind a private method that
// expects the lock. Other compilers see plain std::mutex and std::condition_variable.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define MUSTER_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define MUSTER_THREAD_ATTRIBUTE(attribute)
#endif
#define MUSTER_GUARDED_BY(mutex) MUSTER_THREAD_ATTRIBUTE(guarded_by(mutex))
#define MUSTER_REQUIRES(mutex) MUSTER_THREAD_ATTRIBUTE(requires_capability(mutex))

namespace muster {

class MUSTER_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() MUSTER_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() MUSTER_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

// Holds the mutex for its scope.
class MUSTER_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MUSTER_THREAD_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() MUSTER_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits may return early: callers wait in a loop around what they wait for.
class Condition {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  void wait(Mutex& mutex) MUSTER_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  void wait_for(Mutex& mutex, std::chrono::nanoseconds duration) MUSTER_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_for(lock, duration);
    lock.release();
  }

 private:
  std::condition_variable condition_;
};

}  // namespace muster
