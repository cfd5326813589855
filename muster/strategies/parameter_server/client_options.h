// What a client of parameter servers is told (client.h, parameter_client.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/base/deadline.h"
#include "muster/comm/store.h"

namespace muster::strategies {

class Connection;  // transport.h

struct ClientOptions {
  std::uint32_t number = 0;
  std::shared_ptr<comm::Store> store;
  // A connection to the server at `address`; empty: through shared memory.
  std::function<std::unique_ptr<Connection>(const std::string& address, std::uint32_t client, const Deadline& deadline)>
      connect{};
  // Called every few milliseconds while a call waits for a server that is lost; what it throws ends the wait.
  std::function<void()> interruption = [] {};
  // Whether somebody watches the servers, so that a call may wait beyond its deadline (patience.h).
  std::function<bool()> watched = [] { return false; };
};

}  // namespace muster::strategies
