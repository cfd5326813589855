// A process of another user that takes the name of an abstract socket and keeps what it is sent: what any user of a
// machine can do with the name of a process that has died. Needs root.
//
// The child makes system calls only: the process that forks it may have threads.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "muster/base/files.h"

namespace muster::testing {

class OtherUser {
 public:
  static constexpr uid_t kUser = 65534;

  struct Heard {
    int connections = 0;
    std::string bytes{};
  };

  static bool possible() { return ::geteuid() == 0; }

  // Listens under `name` as soon as that is free, and returns then.
  OtherUser(std::string_view name, int type) {
    std::array<int, 2> stop{};
    std::array<int, 2> answers{};
    EXPECT_EQ(::pipe2(stop.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(answers.data(), O_CLOEXEC), 0);
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    name.copy(place.sun_path + 1, sizeof place.sun_path - 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    child_ = ::fork();
    if (child_ == 0) {
      ::close(stop[1]);
      listen(place, length, type, stop[0], answers[1]);
      ::_exit(0);
    }
    ::close(stop[0]);
    ::close(answers[1]);
    stop_ = FileDescriptor(stop[1]);
    answers_ = FileDescriptor(answers[0]);
    char ready = 0;
    EXPECT_EQ(::read(answers_.get(), &ready, 1), 1) << "no process of another user";
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;
  ~OtherUser() { heard(); }

  // Ends it.
  Heard heard() {
    Heard heard;
    if (child_ <= 0) return heard;
    stop_ = FileDescriptor();
    EXPECT_EQ(::read(answers_.get(), &heard.connections, sizeof heard.connections),
              static_cast<ssize_t>(sizeof heard.connections));
    std::array<char, 4096> part{};
    for (ssize_t count = 0; (count = ::read(answers_.get(), part.data(), part.size())) > 0;)
      heard.bytes.append(part.data(), static_cast<std::size_t>(count));
    int status = -1;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
    child_ = 0;
    return heard;
  }

 private:
  static void listen(const sockaddr_un& place, socklen_t length, int type, int stop, int answers) {
    if (::syscall(SYS_setresuid, kUser, kUser, kUser) != 0) ::_exit(1);
    const int listener = ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    while (::bind(listener, reinterpret_cast<const sockaddr*>(&place), length) != 0) {
      pollfd ended{stop, POLLIN, 0};
      if (::poll(&ended, 1, 1) > 0) ::_exit(2);
    }
    if (::listen(listener, 64) != 0 || ::write(answers, "r", 1) != 1) ::_exit(3);
    static std::array<char, 1 << 15> bytes;
    std::size_t used = 0;
    int connections = 0;
    std::array<pollfd, 64> watched{};
    watched[0] = {stop, POLLIN, 0};
    watched[1] = {listener, POLLIN, 0};
    nfds_t count = 2;
    // What came before the end is heard.
    for (int patience = -1; ::poll(watched.data(), count, patience) > 0;) {
      if (watched[0].revents != 0) {
        watched[0].fd = -1;  // poll() passes over it
        patience = 0;
      }
      for (nfds_t i = 2; i < count; ++i) {
        if (watched[i].revents == 0) continue;
        const ssize_t got = ::read(watched[i].fd, bytes.data() + used, bytes.size() - used);
        if (got > 0) used += static_cast<std::size_t>(got);
        if (got > 0 && used < bytes.size()) continue;
        ::close(watched[i].fd);
        watched[i].fd = -1;
      }
      if (watched[1].revents == 0) continue;
      const int connection = ::accept(listener, nullptr, nullptr);
      ++connections;
      // The settings by which an HTTP/2 server begins: who takes it for one goes on to its requests.
      (void)!::send(connection, "\0\0\0\4\0\0\0\0\0", 9, MSG_NOSIGNAL);
      if (count < watched.size())
        watched[count++] = {connection, POLLIN, 0};
      else
        ::close(connection);
    }
    if (::write(answers, &connections, sizeof connections) < 0 || ::write(answers, bytes.data(), used) < 0) ::_exit(4);
  }

  pid_t child_ = 0;
  FileDescriptor stop_;
  FileDescriptor answers_;
};

}  // namespace muster::testing
