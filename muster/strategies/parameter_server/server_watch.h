// The heartbeat of a parameter server: a server that spins is found out, and its process ended, so that whoever watches
// processes replaces it.
//
// Judged by the processor time that its thread was given without a turn of its loop, not by the clock: on a machine
// that has no time for it a server is late, not lost. (One that is stopped is seen from outside:
// launch/server_keeper.h.)
#pragma once

#include <chrono>
#include <optional>
#include <thread>

#include "muster/strategies/parameter_server/server.h"

namespace muster::strategies {

// A turn answers one call: of the largest chunk that takes milliseconds.
constexpr std::chrono::seconds kMostOfATurn{3};

class SpinJudge {
 public:
  // Whether a server that has come so far spins. To be asked again and again.
  bool spins(const std::optional<Server::Progress>& now);

 private:
  std::optional<Server::Progress> turned_;  // when it was first seen in this turn
};

// Stops the process, with a message, when the server spins. The server outlives it.
class ServerWatch {
 public:
  explicit ServerWatch(const Server& server);

 private:
  std::jthread thread_;
};

}  // namespace muster::strategies
