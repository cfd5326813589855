// The heartbeat of a parameter server: a server that spins or is blocked is found out, and its process ended, so that
// whoever watches processes replaces it.
//
// Judged by the processor time that its thread was given without a turn of its loop, and by how often it was seen
// asleep in one, not by the clock: on a machine that has no time for it, or for its disk, a server is late, not lost.
// (One that is stopped is seen from outside: launch/server_keeper.h.)
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "muster/strategies/parameter_server/server.h"

namespace muster::strategies {

// A turn answers one call: of the largest chunk that takes milliseconds.
constexpr std::chrono::seconds kMostOfATurn{3};
// Between two looks, and so many of them, one after the other, may find it asleep in the same turn. No turn waits for
// another process, but for one that is being connected to: a second for each server that has just been lost.
constexpr std::chrono::milliseconds kServerLook{500};
constexpr int kMostAsleep = 60;

class TurnJudge {
 public:
  // Why a server that has come so far does not get on; nothing: it does. To be asked again and again, at every look.
  std::optional<std::string_view> stuck(const std::optional<Server::Progress>& now);

 private:
  std::optional<Server::Progress> turned_;  // when it was first seen in this turn
  int asleep_ = 0;                          // looks of this turn, one after the other
};

// Stops the process, with a message, when the server does not get on. The server outlives it.
class ServerWatch {
 public:
  explicit ServerWatch(const Server& server);

 private:
  std::jthread thread_;
};

}  // namespace muster::strategies
