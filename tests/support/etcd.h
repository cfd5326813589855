// A real etcd for tests: one member or several, on loopback ports of their own, with data in a folder that goes away.
// Members are processes that the test kills, stops and starts again, by their pid.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "support/command.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::testing {

inline bool etcd_installed() {
  static const bool installed = run_command({"etcd", "--version"}).exit_code == 0;
  return installed;
}

// Nobody listens there, and nobody else is given it for a while.
inline int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no free port");
  ::close(socket);
  return ntohs(address.sin_port);
}

class EtcdCluster {
 public:
  // `more`: arguments of every member. With `tls` members show a certificate: the arguments say which.
  explicit EtcdCluster(int size = 1, std::vector<std::string> more = {}, bool tls = false)
      : more_(std::move(more)), scheme_(tls ? "https" : "http"), members_(size) {
    for (Member& member : members_) {
      member.client = free_port();
      member.peer = free_port();
    }
    for (int i = 0; i < size; ++i)
      start(i);
  }

  int size() const { return static_cast<int>(members_.size()); }
  std::string address(int member) const { return fmt::format("127.0.0.1:{}", members_[member].client); }
  std::string url(const std::string& prefix = "muster") const {
    std::string addresses;
    for (int i = 0; i < size(); ++i)
      addresses += (i > 0 ? "," : "") + address(i);
    return "etcd://" + addresses + "/" + prefix;
  }

  void start(int number) {
    Member& member = members_[number];
    std::string all;
    for (std::size_t i = 0; i < members_.size(); ++i)
      all += fmt::format("{}m{}=http://127.0.0.1:{}", i > 0 ? "," : "", i, members_[i].peer);
    const std::string client = fmt::format("{}://127.0.0.1:{}", scheme_, member.client);
    const std::string peer = fmt::format("http://127.0.0.1:{}", member.peer);
    std::vector<std::string> words{"etcd", "--name", fmt::format("m{}", number), "--data-dir",
                                   folder_ / fmt::format("m{}", number), "--listen-client-urls", client,
                                   "--advertise-client-urls", client, "--listen-peer-urls", peer,
                                   "--initial-advertise-peer-urls", peer, "--initial-cluster", all,
                                   // A busy machine must not look like a lost leader.
                                   "--heartbeat-interval", "100", "--election-timeout", "1000", "--logger", "zap"};
    words.insert(words.end(), more_.begin(), more_.end());
    member.process = std::make_unique<Command>(words);
  }
  void kill(int number) { members_[number].process.reset(); }
  bool runs(int number) const { return members_[number].process != nullptr; }
  pid_t pid(int number) const { return members_[number].process->pid(); }
  std::string log(int number) const { return members_[number].process->out(); }

  // etcdctl, at that member or at all of them.
  CommandResult control(std::vector<std::string> words, int member = -1) const {
    std::string at;
    for (int i = 0; i < size(); ++i)
      if (member < 0 || member == i) at += (at.empty() ? "" : ",") + address(i);
    words.insert(words.begin(), {"env", "ETCDCTL_API=3", "etcdctl", "--endpoints", at, "--command-timeout", "20s"});
    return run_command(words);
  }
  // The member that leads the etcd, as itself says; -1: none.
  int leader() const {
    for (int i = 0; i < size(); ++i) {
      if (!runs(i)) continue;
      // address, id, version, size, leader, learner, ...
      const CommandResult status = control({"endpoint", "status", "--write-out", "simple"}, i);
      std::vector<std::string> fields;
      std::string rest = status.out;
      for (std::size_t comma; (comma = rest.find(", ")) != std::string::npos; rest = rest.substr(comma + 2))
        fields.push_back(rest.substr(0, comma));
      if (status.exit_code == 0 && fields.size() > 4 && fields[4] == "true") return i;
    }
    return -1;
  }

 private:
  struct Member {
    int client = 0;
    int peer = 0;
    std::unique_ptr<Command> process{};
  };
  const std::vector<std::string> more_;
  const std::string scheme_;
  const TemporaryFolder folder_;
  std::vector<Member> members_;
};

}  // namespace muster::testing
