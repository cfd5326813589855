// What a connection of gRPC over TLS needs so that it comes about, and comes about again: time, and somebody who waits.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

namespace muster::control {

// What an attempt may take, handshake and first settings with it, on machines that are busy. gRPC calls it the shortest
// pause between attempts, and uses it as their limit; the pauses themselves do not depend on it.
inline constexpr int kConnectMs = 10'000;

// Waits for changes of a connection, always. gRPC reads what comes for a connection that is being made only while some
// thread waits on its channel; else it looks every 5 s. Calls do not wait: once an attempt has failed, every call fails
// at once until another one has succeeded. So a handshake, which takes several looks, would never come to its end
// unless it did at the first attempt.
class Attendant {
 public:
  explicit Attendant(std::shared_ptr<grpc::Channel> channel)
      : thread_([channel = std::move(channel)](const std::stop_token& stop) {
          while (!stop.stop_requested())
            channel->WaitForStateChange(channel->GetState(/*try_to_connect=*/false),
                                        std::chrono::system_clock::now() + kLook);
        }) {}

 private:
  static constexpr std::chrono::milliseconds kLook{250};

  std::jthread thread_;
};

}  // namespace muster::control
