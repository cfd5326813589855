// How the thread of a server gets on, for others to see (server_watch.h).
//
// Thread safety: take() and scopes by that thread, progress() by any.
#pragma once

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "muster/base/mutex.h"
#include "muster/base/proc_stat.h"
#include "muster/strategies/parameter_server/server.h"

namespace muster::strategies {

class ServerTurns {
 public:
  // As long as this thread turns.
  class Scope {
   public:
    explicit Scope(ServerTurns& turns) : turns_(turns) {
      clockid_t clock = 0;
      const MutexLock lock(turns_.mutex_);
      if (::pthread_getcpuclockid(::pthread_self(), &clock) == 0) turns_.clock_ = clock;
      turns_.signs_ = "/proc/self/task/" + std::to_string(::gettid()) + "/stat";
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      const MutexLock lock(turns_.mutex_);
      turns_.clock_.reset();
    }

   private:
    ServerTurns& turns_;
  };

  void take() { turns_.fetch_add(1, std::memory_order_relaxed); }

  std::optional<Server::Progress> progress() {
    const MutexLock lock(mutex_);
    timespec used{};
    if (!clock_ || ::clock_gettime(*clock_, &used) != 0) return std::nullopt;
    // Before the turn is read: of a server that gets on the one that is read is then another one.
    const std::optional<ProcStat> signs = read_proc_stat(signs_);
    return Server::Progress{turns_.load(std::memory_order_relaxed),
                            std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec),
                            signs && signs->state == 'S'};
  }

 private:
  std::atomic<std::uint64_t> turns_ = 0;
  Mutex mutex_;
  std::optional<clockid_t> clock_ MUSTER_GUARDED_BY(mutex_);
  std::string signs_ MUSTER_GUARDED_BY(mutex_);  // the kernel's, of the thread
};

}  // namespace muster::strategies
