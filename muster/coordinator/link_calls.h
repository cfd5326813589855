// LinkCalls: a host asks the others over the network between hosts whether they are there, and answers them. What comes
// of it goes to the coordinator with the host's reports (control/host_links.h).
//
// Datagrams of 48 bytes to and from one UDP port of the interface between hosts, four a second and host:
//   magic (8)  kind (8): 1 asks, 2 answers   from (8)   to (8), numbers of hosts   turn (8)   seal (8)
// An answer is the question with its ends exchanged. The seal is the begin of a SHA-256 of the rest and the job's
// identity, which only its hosts know: what has another one, is for another host, or answers what was not asked, is
// dropped without a word. Nobody gets more back than was sent. Thread safety: every method from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/mutex.h"
#include "muster/control/cluster_calls.h"
#include "muster/control/host_links.h"

namespace muster::coordinator {

class LinkCalls {
 public:
  // Listens on a free port of that address, without one ("10.0.0.1", "[fd00::1]"). `job` is the job's identity;
  // `patience`: for how long another host may be silent. Throws kIo.
  LinkCalls(const std::string& address, std::string job, std::chrono::nanoseconds patience,
            const Clock& clock = system_clock());
  LinkCalls(const LinkCalls&) = delete;
  LinkCalls& operator=(const LinkCalls&) = delete;
  ~LinkCalls();

  // Where it listens: ADDRESS:PORT.
  const std::string& address() const { return address_; }
  // Who there is now, and the number of this host.
  void set_peers(std::uint64_t self, const std::vector<control::Peer>& peers);
  control::HostLinks links() const;

 private:
  struct Known {
    std::string address;
    Clock::Instant answered;  // the last time; at first: when it was told of
    bool ever = false;        // it has answered
    std::uint64_t turn = 0;   // of the newest question
  };

  void run();
  void ask();
  void take_what_came();

  // constant after construction
  const std::string job_;
  const std::chrono::nanoseconds patience_;
  const Clock& clock_;
  FileDescriptor socket_;
  std::string address_;
  FileDescriptor wake_;  // an eventfd: it ends
  // guarded by mutex_
  mutable Mutex mutex_;
  std::uint64_t self_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Known> peers_ MUSTER_GUARDED_BY(mutex_);  // by number
  Clock::Instant asked_ MUSTER_GUARDED_BY(mutex_);                  // the last time
  // after what it uses
  std::thread thread_;
};

}  // namespace muster::coordinator
