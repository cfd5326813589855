// A TCP proxy on loopback that does to a connection what networks do: cuts it, swallows one direction, delays, flips
// bits. Thread safety: every method from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <thread>

#include "muster/base/files.h"
#include "muster/base/mutex.h"

namespace muster::testing {

class FaultProxy {
 public:
  enum class Direction { kToServer = 0, kToClient = 1 };

  // Between whoever connects to address() and the server at 127.0.0.1:`port`.
  explicit FaultProxy(std::uint16_t port);
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;
  ~FaultProxy();

  const std::string& address() const { return address_; }

  // Breaks off all connections that exist.
  void cut();
  // From now on no byte of this direction arrives on the connections that exist; they stay open.
  void swallow(Direction direction);
  // Flips one bit of the next bytes in this direction, on every connection that exists.
  void flip(Direction direction);
  // Holds up everything that arrives from now on.
  void delay(std::chrono::milliseconds duration);

 private:
  struct Way {
    FileDescriptor* from = nullptr;
    FileDescriptor* to = nullptr;
    std::string waiting{};  // read and not written yet
    bool swallowed = false;
    bool flipped = false;  // at the next bytes
  };
  struct Pair {
    FileDescriptor client;
    FileDescriptor server;
    Way ways[2];
    bool broken = false;
  };

  void run();
  void accept_one() MUSTER_REQUIRES(mutex_);
  static void move_bytes(Way& way, bool& broken);
  void wake() const;

  const std::uint16_t port_;
  std::string address_;
  FileDescriptor listener_;
  FileDescriptor bell_;  // an eventfd
  Mutex mutex_;
  std::list<Pair> pairs_ MUSTER_GUARDED_BY(mutex_);
  std::chrono::milliseconds delay_ MUSTER_GUARDED_BY(mutex_){0};
  bool stop_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster::testing
