// HostServers: a host's part in the parameter servers of a job of several hosts.
//
// Servers and workers of a host know the host's own store and nothing else: a coordinator that is away holds up nobody.
// What they have to know of other hosts, and others of them, is carried between that store and the one of all hosts by
// a thread of the agent's: the plan from the first host to the others, maps from the coordinator (server_director.h) to
// all, where servers are to be found, that they are filled, and that they have ended, from every host to the
// coordinator. It also says which servers are this host's to run, where they listen, and by what both ends of a
// connection trust each other. Thread safety: every method from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/mutex.h"
#include "muster/comm/store.h"
#include "muster/control/cluster_calls.h"
#include "muster/control/server_places.h"
#include "muster/launch/server_keeper.h"

namespace muster::coordinator {

struct HostServersOptions {
  std::string address{};                  // of this host, for the others, without a port
  bool first = false;                     // this host's first worker makes the plan
  std::filesystem::path folder{};         // of this host's own, for secrets
  std::function<std::uint64_t()> number;  // of this host, now
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

class HostServers {
 public:
  // `calls` outlive it.
  HostServers(control::ClusterCalls& calls, HostServersOptions options);
  HostServers(const HostServers&) = delete;
  HostServers& operator=(const HostServers&) = delete;
  ~HostServers();

  // The store of this host's workers; another one when they begin anew.
  void see(const std::string& store);
  // Servers that are to run here, by the newest places.
  std::vector<launch::OwnServer> own() const;

 private:
  void run(const std::stop_token& stop);
  // One turn; throws what the coordinator or the disk does.
  void exchange();
  void take_places();
  void take_secrets();
  void open(const std::string& folder);
  void bring_plan();
  void tell_news();
  void bring_maps();
  std::optional<std::string> find(const std::string& key, std::chrono::milliseconds wait = {});

  // constant after construction
  control::ClusterCalls& calls_;
  const HostServersOptions options_;
  // of the thread
  std::optional<control::ServerHost> reached_;  // once the secrets are known
  std::string folder_;                          // of store_
  std::shared_ptr<comm::Store> store_;          // of this host; null: nobody has said where
  bool has_plan_ = false;                       // in it
  std::uint64_t map_ = 0;                       // the newest in it
  std::set<std::string> told_;                  // keys of it that all hosts have
  std::string trouble_;                         // that was told
  // guarded by mutex_
  mutable Mutex mutex_;
  control::ServerPlaces places_ MUSTER_GUARDED_BY(mutex_);
  std::string seen_ MUSTER_GUARDED_BY(mutex_);
  std::jthread thread_;  // after what it uses
};

}  // namespace muster::coordinator
