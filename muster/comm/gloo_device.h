// Gloo's network device: which address it binds to, and what Gloo leaves open to programs that we start. Internal to
// gloo_mesh.cpp.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "muster/comm/gloo_transport.h"

namespace gloo::transport {
class Device;
}

namespace muster::comm {

// Starts Gloo's thread on the interface or address. Throws kInvalidInput: not one interface or address of this machine.
std::shared_ptr<gloo::transport::Device> open_gloo_device(const GlooOptions& options);

// To be called when all ranks are connected: nothing listens at these local addresses any more (Gloo's bytes of them),
// and the connections there are kept from programs that this process starts: they would hold a connection open after
// this process died, and nobody would notice its death. Throws kResource.
void close_to_others(gloo::transport::Device& device, const std::vector<std::vector<char>>& local_addresses);

// Makes the device's thread take a turn at once while in scope. Closing a connection waits for one, and a thread with
// nothing to do takes one every 10 ms.
class QuickTurns {
 public:
  explicit QuickTurns(gloo::transport::Device& device);
  ~QuickTurns();
  QuickTurns(const QuickTurns&) = delete;
  QuickTurns& operator=(const QuickTurns&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Threads started in its scope get no signals, which are for the program's own threads, and do not push others off a
// core when they wake up. Gloo's thread would often do that to the very thread that holds the lock it needs, and then
// spin: on a busy machine short messages took ten times as long.
class BackgroundThreads {
 public:
  BackgroundThreads();
  ~BackgroundThreads();
  BackgroundThreads(const BackgroundThreads&) = delete;
  BackgroundThreads& operator=(const BackgroundThreads&) = delete;

 private:
  sigset_t signals_before_;
  int policy_before_;
};

// Gloo writes to connections without asking that a closed one be no signal. In its scope this thread gets none.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked();
  ~PipeSignalBlocked();
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

 private:
  sigset_t before_;
  bool pending_before_;
};

}  // namespace muster::comm
