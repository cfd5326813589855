// By doing it: a call that every coordinator answers, if only by a refusal, and a server at the address itself, which
// answers nobody and is gone a moment later.
#include "muster/control/take_over_checks.h"

#include <chrono>

#include "muster/base/clock.h"
#include "muster/base/error.h"

namespace muster::control {
namespace {

constexpr std::chrono::milliseconds kAskingPause{100};

class NobodyYet final : public ClusterCalls {
 public:
  Welcome join(const HostCard&) override { refuse(); }
  Orders report(const HostReport&, std::uint64_t, std::chrono::milliseconds) override { refuse(); }
  void store_set(std::uint64_t, std::string_view, std::string_view) override { refuse(); }
  std::optional<std::string> store_get(std::uint64_t, std::string_view, std::chrono::milliseconds) override {
    refuse();
  }
  void leave(std::uint64_t, int, const std::string&) override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw Error(ErrorKind::kPeerLost, "the coordinator is about to begin", {}, "Try again.");
  }
};

}  // namespace

bool coordinator_answers(const ClusterTarget& target, const Deadline& deadline) {
  ClusterClient client(target);
  for (;;) {
    try {
      client.tell_of("");
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) return true;
    }
    if (deadline.passed()) return false;
    system_clock().sleep_for(kAskingPause);
  }
}

void require_can_listen(const ClusterListen& listen) {
  NobodyYet nobody;
  const ClusterServer server(nobody, listen);
}

}  // namespace muster::control
