// Hosts, as far as one machine can have them: each has its own network (address 10.93.71.N on "eth0", joined to the
// others by a bridge), host name, process numbers, IPC, /tmp, /dev/shm, /proc and /sys. All else of the file system is
// seen read only. So no path, pid, Unix socket (abstract ones belong to a network) or memfd of one host can be met on
// another, and no packet leaves them: there is no uplink and no default route.
//
// Namespaces have no names: they live as long as their first process, which ends when their owner does, whatever ends
// it. Needs root and iproute2; no kernel module beyond bridge, veth and tbf. Thread safety: one thread at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/launch/finished.h"

namespace muster::launch {

// A program on a host. Killed when it goes out of scope. Standard output and error go to files of the caller, so that
// nothing can block. A value that moves.
class HostProgram {
 public:
  struct State;
  explicit HostProgram(std::shared_ptr<State> state);
  HostProgram(HostProgram&&) noexcept;
  HostProgram& operator=(HostProgram&&) noexcept;
  ~HostProgram();

  pid_t pid() const;  // as the caller sees it
  void signal(int number) const;
  std::string out() const;
  std::string err() const;
  // Whether it has ended; wait() then says how.
  bool ended();
  // Until it has ended. Kills it at the limit, which then shows as signal 9.
  Finished wait(std::chrono::seconds limit = std::chrono::seconds(120));

 private:
  std::shared_ptr<State> state_;
};

class Host {
 public:
  struct Parts;
  explicit Host(std::unique_ptr<Parts> parts);
  Host(Host&&) noexcept;
  ~Host();

  const std::string& name() const;     // "host-0", ...; what gethostname() says there
  const std::string& address() const;  // of eth0; all hosts know each other's names, too (/etc/hosts)
  pid_t pid() const;                   // of the first process, as the caller sees it
  // Where the caller finds a path of the host: for reading, and for putting files there.
  std::filesystem::path file(const std::filesystem::path& path) const;

  // Starts a program in /tmp/work of the host, its own. `environment` has "NAME=VALUE". Throws Error{kResource}.
  HostProgram start(std::vector<std::string> words, const std::vector<std::string>& environment = {});
  Finished run(std::vector<std::string> words, std::chrono::seconds limit = std::chrono::seconds(120));

  // SIGKILL to every process of the host at once; returns when all are gone. Their kernel then says goodbye for them
  // (FIN, RST): a host that loses its power is one that was cut off first (Hosts::cut).
  void kill_all();
  // SIGSTOP and SIGCONT to every process; freeze() returns when all stand still.
  void freeze();
  void thaw();
  // Process numbers as the host sees them, without its first process and without zombies.
  std::vector<pid_t> processes() const;

  // Bytes that eth0 has carried so far, with headers.
  std::uint64_t sent_bytes() const;
  std::uint64_t received_bytes() const;

 private:
  friend class Hosts;
  std::unique_ptr<Parts> parts_;
};

// Bits a second of a link, as tc writes its rate ("10mbit", "1gbit"). Throws Error{kInvalidInput}.
double link_bits(const std::string& rate);

class Hosts {
 public:
  // Why this machine cannot have hosts, for GTEST_SKIP; empty: it can.
  static std::string impossible();

  // Throws Error{kResource}, which says what the machine did not allow. REQUIRES: 1 to 200 hosts.
  explicit Hosts(int count);
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;
  // Nothing is left of them: processes, namespaces, interfaces and mounts.
  ~Hosts();

  int size() const;
  Host& operator[](int host);

  // Packets vanish, and nobody is told: neither interface goes down. Connections that stand are cut, too.
  void cut(int host);                  // from and to all others
  void cut_one_way(int from, int to);  // only packets from `from` to `to`
  void heal();                         // everything that was cut
  // The host's interface is down, as its own programs are told, and up again.
  void link_down(int host);
  void link_up(int host);
  // Each link carries at most `rate` (link_bits) in each direction. Empty: no limit.
  void shape(const std::string& rate);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::launch
