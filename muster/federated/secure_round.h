// A round of secure aggregation that survives its server: the state machine (secure/secure_server.h) and a journal of
// what it was told, in its order.
//
// Whatever a client is answered is on disk before: a server that was killed reads the journal, is in the same state,
// and goes on. It must not begin the round again: clients would mask the same updates anew, and two sums of different
// survivors would tell the difference. Masked updates themselves are round_files.h's. Thread safety: one thread at a
// time. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/federated/federated_calls.h"
#include "muster/federated/secure/secure_server.h"

namespace muster::federated {

class SecureRound {
 public:
  // Goes on with the journal, if there is one. Throws Error{kDamaged | kIo | kResource}.
  SecureRound(SecureSetup setup, std::vector<std::uint64_t> asked, std::string authorities,
              std::filesystem::path journal);

  SecureServer& server() { return server_; }
  const SecureServer& server() const { return server_; }

  // What a client says, and the answer as far as there is one: kWait until its stage is closed. Throws Error{kIo |
  // kResource} when it cannot be kept; then it was not said.
  SecureAnswer step(std::uint64_t client, const SecureMessage& message);
  // Durable when it returns.
  void close_stage();

 private:
  void replay();
  void keep(std::uint64_t client, const std::string& record);
  void take(std::uint64_t client, const SecureMessage& message);
  SecureAnswer answer_to(std::uint64_t client, SecureStep step) const;

  const std::filesystem::path path_;
  SecureServer server_;
  FileDescriptor file_;
};

}  // namespace muster::federated
