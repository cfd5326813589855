// A thread that compares turns of the serving loop with the processor time it was given. It ends the process by a
// failed check: nothing else takes a thread out of an endless loop.
#include "muster/strategies/parameter_server/server_watch.h"

#include <condition_variable>
#include <mutex>

#include "muster/base/check.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::milliseconds kLook{500};

}  // namespace

bool SpinJudge::spins(const std::optional<Server::Progress>& now) {
  if (!now || !turned_ || now->turns != turned_->turns) {
    turned_ = now;
    return false;
  }
  return now->processor_time - turned_->processor_time > kMostOfATurn;
}

ServerWatch::ServerWatch(const Server& server)
    : thread_([&server](const std::stop_token& stop) {
        SpinJudge judge;
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        while (!stopped.wait_for(lock, stop, kLook, [&] { return stop.stop_requested(); }))
          MUSTER_CHECK(!judge.spins(server.progress()), "a parameter server that gets on");
      }) {
}

}  // namespace muster::strategies
