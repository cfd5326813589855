// Regions handed over between processes; strangers, garbage and stopped servers written by hand.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/comm/region.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::comm {
namespace {

using muster::testing::expect_error;
using muster::testing::status_of_child;
using ::testing::MatchesRegex;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(10));
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

// Clients and servers that do not keep to the protocol. Written without the code under test.
struct RawAddress {
  explicit RawAddress(const std::string& address) {
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, address.data(), address.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }

  sockaddr_un name{};
  socklen_t size = 0;
};

FileDescriptor raw_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

FileDescriptor raw_connection(const std::string& address) {
  FileDescriptor socket = raw_socket();
  const RawAddress target(address);
  EXPECT_EQ(::connect(socket.get(), target.get(), target.size), 0) << std::strerror(errno);
  return socket;
}

TEST(RegionServer, HasARandomAddress) {
  const SharedRegion region = SharedRegion::create(4096);
  std::set<std::string> addresses;
  for (int i = 0; i < 20; ++i) {
    const RegionServer server(region);
    EXPECT_THAT(server.address(), MatchesRegex("muster-[0-9a-f]+"));
    EXPECT_EQ(server.address().size(), 7U + 32U);
    addresses.insert(server.address());
  }
  EXPECT_EQ(addresses.size(), 20U);
}

TEST(RegionServer, GivesTheSameMemoryToOtherProcesses) {
  const SharedRegion region = SharedRegion::create(100000);
  region.bytes()[3] = std::byte{9};
  const RegionServer server(region);
  for (int child = 0; child < 3; ++child) {
    const int status = status_of_child([&] {
      const SharedRegion other = fetch_region(server.address(), soon());
      if (other.bytes().size() != region.bytes().size() || other.bytes()[3] != std::byte{9}) return 1;
      other.bytes()[99999] = static_cast<std::byte>(child + 1);
      return 0;
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(region.bytes()[99999], static_cast<std::byte>(child + 1));
  }
}

TEST(RegionServer, ServesManyAtOnce) {
  const SharedRegion region = SharedRegion::create(4096);
  const RegionServer server(region);
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      for (int j = 0; j < 20; ++j)
        good += fetch_region(server.address(), soon()).bytes().size() == 4096 ? 1 : 0;
    });
  }
  for (std::thread& client : clients)
    client.join();
  EXPECT_EQ(good, 320);
}

TEST(RegionServer, OutlivesTheRegionObjectItWasMadeFrom) {
  std::unique_ptr<RegionServer> server;
  {
    const SharedRegion region = SharedRegion::create(4096);
    region.bytes()[0] = std::byte{77};
    server = std::make_unique<RegionServer>(region);
  }
  EXPECT_EQ(fetch_region(server->address(), soon()).bytes()[0], std::byte{77});
}

TEST(RegionServer, RefusesOtherUsersWithTheReason) {
  const SharedRegion region = SharedRegion::create(4096);
  const RegionServer server(region, ::geteuid() + 1);
  expect_error(ErrorKind::kMismatch, "is not given to user " + std::to_string(::geteuid()),
               [&] { fetch_region(server.address(), soon()); });
}

TEST(RegionServer, IsNotHeldUpByClientsThatSendGarbageNothingOrLeave) {
  const SharedRegion region = SharedRegion::create(4096);
  const RegionServer server(region);
  std::vector<FileDescriptor> held;
  for (int i = 0; i < 100; ++i) {
    FileDescriptor socket = raw_connection(server.address());
    const std::string garbage(static_cast<std::size_t>(1 + i * 37), static_cast<char>(i));
    if (i % 3 == 0) (void)::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    if (i % 3 == 1) held.push_back(std::move(socket));  // says nothing, and stays
  }
  EXPECT_EQ(fetch_region(server.address(), soon()).bytes().size(), 4096U);
}

TEST(RegionServer, LeavesNoDescriptorBehind) {
  const SharedRegion region = SharedRegion::create(4096);
  const std::ptrdiff_t before = open_descriptors();
  for (int i = 0; i < 30; ++i) {
    const RegionServer server(region);
    fetch_region(server.address(), soon());
    raw_connection(server.address());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(RegionServer, GoesOnWhenDescriptorsRanOut) {
  const int status = status_of_child([] {
    const SharedRegion region = SharedRegion::create(4096);
    const RegionServer server(region);
    const FileDescriptor client = raw_socket();
    const RawAddress target(server.address());
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none_left{static_cast<rlim_t>(client.get()) + 1, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none_left);
    if (::connect(client.get(), target.get(), target.size) != 0) return 1;
    pollfd one{client.get(), POLLIN, 0};
    if (::poll(&one, 1, 50) != 0) return 2;  // an answer without a descriptor to answer on
    ::setrlimit(RLIMIT_NOFILE, &before);
    if (::poll(&one, 1, 10000) != 1) return 3;
    return fetch_region(server.address(), soon()).bytes().size() == 4096 ? 0 : 4;
  });
  EXPECT_EQ(status, 0);
}

TEST(FetchRegion, RefusesWhatIsNoAddress) {
  const std::string digits(32, 'a');
  for (const std::string& address :
       {std::string(), std::string("muster-"), "muster-" + digits + "a", "mustex-" + digits,
        "muster-" + digits.substr(1) + "G", std::string(500, 'm'), std::string(39, '\0')}) {
    expect_error(ErrorKind::kInvalidInput, "is not the address of a region", [&] { fetch_region(address, soon()); });
  }
}

TEST(FetchRegion, SaysThatTheServerIsGone) {
  const SharedRegion region = SharedRegion::create(4096);
  std::string address;
  {
    const RegionServer server(region);
    address = server.address();
  }
  expect_error(ErrorKind::kPeerLost, "nobody offers a region there", [&] { fetch_region(address, soon()); });
}

class FetchRegionFrom : public ::testing::Test {
 protected:
  FetchRegionFrom() {
    const RawAddress own(address_);
    EXPECT_EQ(::bind(listener_.get(), own.get(), own.size), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
  }

  const std::string address_ = "muster-" + std::string(24, '0') + std::to_string(10000000 + ::getpid());
  const FileDescriptor listener_ = raw_socket();
};

TEST_F(FetchRegionFrom, AStoppedServerEndsAtTheDeadline) {
  const auto fetch = [&] { fetch_region(address_, Deadline::after(std::chrono::milliseconds(30))); };
  expect_error(ErrorKind::kTimeout, "no answer before the deadline", fetch);
  // The first client's connection still fills the queue: the second cannot even connect.
  expect_error(ErrorKind::kTimeout, "no answer before the deadline", fetch);
}

TEST_F(FetchRegionFrom, AServerThatDiesWhileAskedIsAPeerLost) {
  std::thread dying([&] { FileDescriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); });
  expect_error(ErrorKind::kPeerLost, "ended before it answered", [&] { fetch_region(address_, soon()); });
  dying.join();
}

TEST_F(FetchRegionFrom, SomethingElseIsRefused) {
  for (const std::string answer : {"g", "x", "HTTP/1.1 400 Bad Request"}) {
    std::thread other([&] {
      const FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      (void)::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    });
    expect_error(ErrorKind::kMismatch, "does not offer a region", [&] { fetch_region(address_, soon()); });
    other.join();
  }
}

}  // namespace
}  // namespace muster::comm
