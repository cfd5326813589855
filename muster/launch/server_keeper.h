// Keeps the parameter servers of a job: starts them, sees a death at once, replaces the process, and decides by pure
// functions (control/server_map.h) which server holds what. Maps go into the job's store, where servers and workers
// look for them. A server that is to go hands over what it holds first, while training goes on.
//
// In a job of several hosts one keeper decides, for all of them, and has no processes: it is told of them as of servers
// that are threads of workers, and has a store of its own. Each host has another one, which runs the processes that are
// placed there and follows the maps that it finds in the host's store (coordinator/server_director.h, host_servers.h).
//
// Servers that are threads of the workers live and die with those: whoever watches the workers tells of them.
// Thread safety: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/comm/store.h"
#include "muster/control/server_map.h"
#include "muster/launch/child_process.h"

namespace muster::launch {

// A server that a host is to run, and the attempt of its first process there.
struct OwnServer {
  std::uint32_t number = 0;
  std::uint32_t first_attempt = 0;
};

struct ServerKeeperOptions {
  // Starts a server, which is told its number and how to find the others by MUSTER_RANK, MUSTER_SIZE, MUSTER_STORE and
  // MUSTER_ATTEMPT. Not used when the workers serve.
  Command command;
  int servers = 0;       // processes of `command`, at first
  int worker_seats = 0;  // instead: seats of workers, each of which serves
  // Of a host of several: which of the servers run here, now; asked at every look. Maps are made elsewhere. Empty: all
  // run here.
  std::function<std::vector<OwnServer>()> own{};
  std::vector<std::uint32_t> used{};     // by server: attempts below are those of a keeper before this one
  std::shared_ptr<comm::Store> store{};  // of maps and what they are made from; empty: the folder's
  bool take_over = false;                // another keeper began: its servers live on, and its maps count
  std::chrono::nanoseconds liveness = std::chrono::seconds(2);  // a server that is stopped for so long is killed
  // What happened, for people.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

class ServerKeeper {
 public:
  ServerKeeper(ServerKeeperOptions options, const std::filesystem::path& store_folder,
               const Clock& clock = system_clock());
  ServerKeeper(const ServerKeeper&) = delete;
  ServerKeeper& operator=(const ServerKeeper&) = delete;
  ~ServerKeeper();

  // A worker's seat, where workers serve: the process on it, by how many were there before; nothing: nobody.
  void set_worker(std::uint32_t seat, std::optional<std::uint32_t> attempt);
  // The host that it is on, of several; copies are kept on different ones.
  void set_host(std::uint32_t seat, std::string host);

  // So many processes from now on. Those with the highest numbers go. REQUIRES: the job began with processes.
  void set_servers(int servers);

  // Where workers serve: whether the one on that seat is to go. It must stay as long as it is needed.
  void set_leaving(std::uint32_t seat, bool leaving);
  // Whether the server on that seat may end: it holds nothing.
  bool may_go(std::uint32_t seat) const;

  // Looks after the servers; to be called every few milliseconds. Throws kPeerLost when all copies of a chunk are lost,
  // and when a server that the job cannot do without fails again and again: nobody could ever train.
  void look();

  // Whether, since the last call, a server whose chunks have no copies came back: with what it had written down.
  // Workers have to look where they stand.
  bool take_restored() { return std::exchange(restored_, false); }

  // The newest; nothing before the first.
  const std::optional<control::ServerMap>& map() const { return map_; }

  // How many processes have served there so far.
  std::uint32_t processes(std::uint32_t seat) const;
  // The same of all seats.
  std::vector<std::uint32_t> processes() const;

  // Descriptors that become readable when a server ends.
  std::vector<int> handles() const;
  // How many serve, and how many of those that are there are leaving.
  struct Count {
    int serving = 0;
    int leaving = 0;
  };
  Count count() const;
  // Of the servers' processes; 0 where there is none.
  std::vector<std::int32_t> pids() const;

 private:
  struct Seat;

  void take_over();
  void start(std::uint32_t number);
  void bury(std::uint32_t number, const Ending& ending);
  void give_up_if_hopeless(std::uint32_t number, const std::string& reason) const;
  void bury_the_dead();
  void end_those_who_may_go();
  void kill_the_stopped();
  void find_addresses();
  void take_places();
  void follow_maps();
  void decide();
  void publish(control::ServerMap map);

  const ServerKeeperOptions options_;
  const std::filesystem::path folder_;
  const Clock& clock_;
  const std::shared_ptr<comm::Store> store_;
  std::vector<Seat> seats_;
  std::optional<control::ServerMap> map_;
  bool restored_ = false;
};

}  // namespace muster::launch
