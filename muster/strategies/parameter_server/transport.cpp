// start() waits for room on top of try_start(), the same for every transport: back-pressure is a wait with a deadline,
// and never a queue that grows.
#include "muster/strategies/parameter_server/transport.h"

#include "muster/base/error.h"

namespace muster::strategies {

Connection::Call Connection::start(const Request& request, std::span<const std::byte> body, std::span<std::byte> reply,
                                   const Deadline& deadline) {
  for (;;) {
    if (const std::optional<Call> call = try_start(request, body, reply)) return *call;
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout, "the deadline passed, and no call under way has been answered",
                  "parameter server");
    pause(deadline);
  }
}

}  // namespace muster::strategies
