// A parameter server in a thread of this process, until the end of the scope.
#pragma once

#include <thread>
#include <utility>

#include "muster/strategies/parameter_server/server.h"

namespace muster::strategies {

class ServerThread {
 public:
  explicit ServerThread(ServerOptions options) : server_(std::move(options)), thread_([this] { server_.run(); }) {}
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;
  ~ServerThread() { server_.stop(); }

  const Server& server() const { return server_; }

 private:
  Server server_;
  std::jthread thread_;
};

}  // namespace muster::strategies
