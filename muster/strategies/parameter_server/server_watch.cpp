// A thread that looks at the turns of the serving loop. It ends the process: nothing else takes a thread out of an
// endless loop, or out of a wait for what never comes. That need not be a bug of ours, so it is no MUSTER_CHECK.
#include "muster/strategies/parameter_server/server_watch.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <fmt/format.h>

namespace muster::strategies {

std::optional<std::string_view> TurnJudge::stuck(const std::optional<Server::Progress>& now) {
  if (!now || !turned_ || now->turns != turned_->turns) {
    turned_ = now;
    asleep_ = 0;
    return std::nullopt;
  }
  asleep_ = now->asleep ? asleep_ + 1 : 0;
  if (now->processor_time - turned_->processor_time > kMostOfATurn) return "a parameter server spins";
  if (asleep_ > kMostAsleep)
    return "a parameter server is blocked: it waits in the middle of a call (an update of the program's own must wait "
           "for nobody)";
  return std::nullopt;
}

ServerWatch::ServerWatch(const Server& server)
    : thread_([&server](const std::stop_token& stop) {
        TurnJudge judge;
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        while (!stopped.wait_for(lock, stop, kServerLook, [&] { return stop.stop_requested(); })) {
          const std::optional<std::string_view> why = judge.stuck(server.progress());
          if (!why) continue;
          fmt::print(stderr, "muster: {}; its process ends\n", *why);
          std::abort();
        }
      }) {
}

}  // namespace muster::strategies
