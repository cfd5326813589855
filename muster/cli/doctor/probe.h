// What a link carries and how long it takes, tried by plain TCP: each host listens, and others try it in turn. Only who
// knows the word of the examination is answered; everybody else is hung up on. No torch here.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "muster/base/files.h"
#include "muster/cli/doctor/judge.h"

namespace muster::cli {

// Listens until it ends. Each caller has a thread, so that a stranger who says nothing holds nobody up; of more than 16
// at a time the others wait.
class ProbeServer {
 public:
  // At `address` without a port ("10.0.0.1"), at `port` (0: any). `word`: 32 bytes. Throws kIo.
  ProbeServer(const std::string& address, std::uint16_t port, std::string word);
  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;
  ~ProbeServer();

  const std::string& address() const { return address_; }  // with the port

 private:
  void serve();

  const std::string word_;
  std::string address_;
  FileDescriptor socket_;
  std::atomic<bool> ends_{false};
  std::atomic<int> callers_{0};
  std::thread thread_;
};

// Tries the way to that server; what goes wrong is in `failure`. Takes about a second.
LinkFigures probe_link(const std::string& address, const std::string& word);

// The address of this machine by which it reaches `address` ("10.0.0.1:7400").
std::string address_towards(const std::string& address);

}  // namespace muster::cli
