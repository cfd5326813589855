// ServerDirector: decides for the parameter servers of a job of several hosts, beside its coordinator: on which host
// each of them runs (control/server_places.h), and which holds what (control/server_map.h, launch/server_keeper.h).
//
// It reads what agents have left in the store of all hosts (host_servers.h), and leaves its decisions there. A host
// that the coordinator gives up has no servers from then on: copies of what they held take over, and others are started
// on the hosts that are left. Where nobody else has what they held the job is over. One thread of its own. Thread
// safety: every method from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/mutex.h"
#include "muster/control/cluster_calls.h"
#include "muster/control/server_places.h"
#include "muster/launch/server_keeper.h"

namespace muster::coordinator {

struct ServerDirectorOptions {
  std::uint32_t servers = 1;
  std::size_t hosts = 1;   // that have to have come before servers are placed
  bool encrypted = false;  // calls to servers
  std::uint64_t own = 0;   // the number of the coordinator's own host
  // Those that take part now. A host that is missing here is lost.
  std::function<std::vector<control::HostStatus>()> living;
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

class ServerDirector {
 public:
  // `calls` are the coordinator's own, and outlive it.
  ServerDirector(control::ClusterCalls& calls, ServerDirectorOptions options, const Clock& clock = system_clock());
  ServerDirector(const ServerDirector&) = delete;
  ServerDirector& operator=(const ServerDirector&) = delete;
  ~ServerDirector();

  // Why the job cannot go on, once it cannot, with the hosts that are lost; empty: it can.
  std::string failure() const;
  // How many serve.
  int serving() const;
  // No more decisions: the job ends, and hosts leave it as they should.
  void stop();

 private:
  void run(const std::stop_token& stop);
  void look();
  void place();
  // Throws kPeerLost when a host is lost that alone had parts of the model.
  void require_copies_elsewhere() const;
  bool lives(std::uint64_t host) const;
  std::string words_for(std::uint64_t host) const;

  // constant after construction
  control::ClusterCalls& calls_;
  const ServerDirectorOptions options_;
  const std::shared_ptr<comm::Store> store_;
  // of the thread
  launch::ServerKeeper keeper_;
  control::ServerPlaces places_;
  std::vector<std::uint32_t> attempts_;         // by server: of the process that is there, or to come
  std::map<std::uint64_t, std::string> names_;  // of hosts that were seen
  std::vector<std::uint64_t> living_;
  // guarded by mutex_
  mutable Mutex mutex_;
  std::string failure_ MUSTER_GUARDED_BY(mutex_);
  int serving_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::jthread thread_;  // after what it uses
};

}  // namespace muster::coordinator
