// Both transports of the parameter server behind one face, for tests and for the processes that they kill.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/strategies/parameter_server/grpc_transport.h"
#include "muster/strategies/parameter_server/shm_transport.h"

namespace muster::strategies {

inline const TransportLimits kLimits{.most_body = (std::size_t{2} << 20) + 5, .window = 4, .clients = 3};
inline const std::string kToken(64, 'a');

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(30));
}

inline std::unique_ptr<Inbox> make_inbox(const std::string& kind, std::size_t memory_bytes = 0) {
  if (kind == "shm") return make_shm_inbox(kLimits, memory_bytes);
  return make_grpc_inbox(kLimits, memory_bytes, "127.0.0.1:0", kToken);
}

inline std::unique_ptr<Connection> connect(const std::string& kind, const std::string& address,
                                           std::uint32_t client = 0) {
  if (kind == "shm") return connect_shm(address, client, soon());
  return connect_grpc(address, kToken, client, kLimits, soon());
}

inline std::vector<std::byte> bytes_of(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + static_cast<std::size_t>(seed) * 29) >> 3);
  return bytes;
}

// Gives every call to `handle` on a thread of its own, until it goes out of scope.
class Serving {
 public:
  Serving(Inbox& inbox, std::function<void(Inbox&, const Incoming&)> handle)
      : inbox_(inbox), thread_([this, handle = std::move(handle)] {
          while (!stop_.load())
            if (const std::optional<Incoming> call = inbox_.next(soon())) handle(inbox_, *call);
        }) {}
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  ~Serving() {
    stop_.store(true);
    inbox_.wake();
    thread_.join();
  }

 private:
  Inbox& inbox_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// A request with a number, by which it is known again.
inline Request numbered(std::uint64_t number = 0) {
  return {.verb = PushUpdateRequest{.update = number}};
}
inline std::uint64_t number_of(const Request& request) {
  const auto* const push = std::get_if<PushUpdateRequest>(&request.verb);
  return push != nullptr ? push->update : 0;
}

// The request's own number as the version, its client as the generation, and its body.
inline void echo(Inbox& inbox, const Incoming& call) {
  inbox.reply(call.handle, {.generation = call.request.client, .version = number_of(call.request)}, call.body);
}

}  // namespace muster::strategies
