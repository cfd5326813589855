// Gloo as a transport: who may connect to what, messages in slots, and every way in which a group of ranks can end.
// Ranks are threads here; processes that die or stop are in network_faults_test.cpp.
#include "muster/comm/gloo_transport.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace muster::comm {
namespace {

using muster::testing::expect_error;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::run_ranks;

Deadline soon() {
  return Deadline::after(seconds(20));
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> room_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

class GlooTransportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gloo_available()) GTEST_SKIP() << "this build has no Gloo";
  }
  GlooOptions options(int rank, int size) const {
    GlooOptions options;
    options.rank = rank;
    options.size = size;
    options.store = store_;
    options.deadline = soon();
    return options;
  }
  std::unique_ptr<Transport> make(int rank, int size) const { return make_gloo_transport(options(rank, size)); }

  std::shared_ptr<Store> store_ = make_memory_store();
};

// This process's TCP sockets: where they are bound, whether they listen, whether programs we start inherit them.
struct Socket {
  std::uint32_t address;
  bool listens;
  bool inherited;
};
std::vector<Socket> tcp_sockets() {
  std::vector<Socket> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    sockaddr_in address{};
    socklen_t length = sizeof(address);
    if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0 || address.sin_family != AF_INET)
      continue;
    int listens = 0;
    socklen_t size = sizeof(listens);
    ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    sockets.push_back({ntohl(address.sin_addr.s_addr), listens != 0, (::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) == 0});
  }
  return sockets;
}

TEST_F(GlooTransportTest, RefusesWhatCannotBeRight) {
  expect_error(ErrorKind::kInvalidInput, "rank 2 of 2", [&] { make(2, 2); });
  expect_error(ErrorKind::kInvalidInput, "rank -1", [&] { make(-1, 2); });
  expect_error(ErrorKind::kInvalidInput, "rank 0 of 0", [&] { make(0, 0); });
  GlooOptions bad = options(0, 2);
  bad.store = nullptr;
  expect_error(ErrorKind::kInvalidInput, "store", [&] { make_gloo_transport(bad); });
  for (const std::string address : {"0.0.0.0", "::"}) {
    bad = options(0, 2);
    bad.address = address;
    expect_error(ErrorKind::kInvalidInput, "all interfaces", [&] { make_gloo_transport(bad); });
  }
  for (const std::string address : {"", "localhost", "no.such.host", "127.0.0", "192.0.2.1"}) {
    bad = options(0, 2);
    bad.address = address;
    expect_error(ErrorKind::kInvalidInput, address, [&] { make_gloo_transport(bad); });
  }
  bad = options(0, 2);
  bad.interface = "nonesuch0";
  expect_error(ErrorKind::kInvalidInput, "nonesuch0", [&] { make_gloo_transport(bad); });
  bad = options(0, 2);
  bad.name = "no name";
  expect_error(ErrorKind::kInvalidInput, "no name", [&] { make_gloo_transport(bad); });
}

TEST_F(GlooTransportTest, AnInterruptionEndsAWaitAndIsToldToTheOthers) {
  std::atomic<bool> superseded{false};
  run_ranks(2, [&](int rank) {
    GlooOptions mine = options(rank, 2);
    if (rank == 0)
      mine.interruption = [&] {
        if (superseded) throw Error(ErrorKind::kPeerLost, "another generation has begun");
      };
    const auto transport = make_gloo_transport(mine);
    int received = 0;
    const auto receive = transport->receive(1 - rank, 1, room_of(received));
    if (rank == 1) superseded = true;
    expect_error(ErrorKind::kPeerLost, "another generation has begun",
                 [&] { receive->wait(Deadline::after(std::chrono::hours(1))); });
  });
}

TEST_F(GlooTransportTest, ListensOnLoopbackWhileConnectingAndNowhereAfterwards) {
  std::atomic<int> connected{0};
  run_ranks(2, [&](int rank) {
    GlooOptions mine = options(rank, 2);
    if (rank == 1) {
      store_->get("gloo/0", soon());  // rank 0 has opened its ports
      bool listens = false;
      for (const Socket& socket : tcp_sockets()) {
        listens = listens || socket.listens;
        EXPECT_TRUE(!socket.listens || socket.address >> 24U == 127U);
      }
      EXPECT_TRUE(listens);
      mine.address.clear();
      mine.interface = "lo";
    }
    const auto transport = make_gloo_transport(mine);
    ++connected;
    while (connected < 2)
      std::this_thread::yield();
    const std::vector<Socket> sockets = tcp_sockets();
    EXPECT_EQ(sockets.size(), 2U);
    for (const Socket& socket : sockets) {
      EXPECT_FALSE(socket.listens);
      EXPECT_FALSE(socket.inherited);
    }
    ++connected;
    while (connected < 4)
      std::this_thread::yield();
  });
  EXPECT_TRUE(tcp_sockets().empty());
}

TEST_F(GlooTransportTest, NamesTheRankThatDoesNotCome) {
  run_ranks(2, [&](int rank) {
    GlooOptions mine = options(rank, 3);
    mine.deadline = Deadline::after(seconds(2));  // the two have come by then, on a busy machine too
    expect_error(ErrorKind::kTimeout, "rank 2", [&] { make_gloo_transport(mine); });
  });
}

TEST_F(GlooTransportTest, NamesTheRankThatPublishedAndNeverConnected) {
  // The addresses that rank 1 left lead nowhere: nobody connects, and the deadline holds.
  std::string published;
  GlooOptions mine = options(0, 2);
  mine.deadline = Deadline::after(milliseconds(300));
  std::thread ghost([&] { published = store_->get("gloo/0", soon()); });
  std::thread forger([&] {
    ghost.join();
    // The highest address: the one that has to wait for a connection is rank 0.
    sockaddr_in far{};
    std::memcpy(&far, published.data() + 16 + (published.size() - 16) / 2, sizeof(far));
    far.sin_addr.s_addr = htonl(0x7fffffffU);
    std::memcpy(published.data() + 16, &far, sizeof(far));
    store_->set("gloo/1", published);
  });
  EXPECT_THROW(make_gloo_transport(mine), Error);
  forger.join();
  EXPECT_TRUE(mine.deadline.remaining() == std::chrono::nanoseconds(0) || tcp_sockets().empty());
}

TEST_F(GlooTransportTest, UsesANameOnce) {
  run_ranks(2, [&](int rank) { make(rank, 2); });
  expect_error(ErrorKind::kMismatch, "gloo/0", [&] { make(0, 2); });
}

TEST_F(GlooTransportTest, RefusesRanksOfAnotherSize) {
  run_ranks(2, [&](int rank) {
    GlooOptions mine = options(rank, rank == 0 ? 2 : 3);
    mine.deadline = Deadline::after(seconds(2));
    // Rank 0 sees a stranger; rank 1 sees one, or waits in vain for a third rank.
    EXPECT_THROW(make_gloo_transport(mine), Error);
  });
}

TEST_F(GlooTransportTest, KeepsSlotsApartAndMessagesOfASlotInOrder) {
  run_ranks(3, [&](int rank) {
    const auto transport = make(rank, 3);
    EXPECT_EQ(transport->name(), "gloo");
    const int next = (rank + 1) % 3;
    const int before = (rank + 2) % 3;
    std::array<int, 3> given{rank * 10 + 1, rank * 10 + 2, rank * 10 + 3};
    std::array<int, 3> got{};
    std::vector<std::unique_ptr<Transfer>> transfers;
    transfers.push_back(transport->send(next, 5, bytes_of(given[0])));
    transfers.push_back(transport->send(next, 5, bytes_of(given[1])));
    transfers.push_back(transport->send(next, 6, bytes_of(given[2])));
    transfers.push_back(transport->send(next, 7, {}));  // nothing: not sent, and finished
    EXPECT_TRUE(transfers.back()->test());
    // The slot that was used last is asked first.
    transport->receive(before, 6, room_of(got[2]))->wait(soon());
    transport->receive(before, 5, room_of(got[0]))->wait(soon());
    const auto last = transport->receive(before, 5, room_of(got[1]));
    while (!last->test()) {
    }
    EXPECT_TRUE(last->test());
    last->wait(Deadline::after(milliseconds(0)));
    EXPECT_EQ(got, (std::array<int, 3>{before * 10 + 1, before * 10 + 2, before * 10 + 3}));
    for (const auto& transfer : transfers)
      transfer->wait(soon());
  });
}

TEST_F(GlooTransportTest, TestsWithoutHarm) {
  run_ranks(2, [&](int rank) {
    const auto transport = make(rank, 2);
    int value = 0;
    if (rank == 0) {
      const auto receive = transport->receive(1, 3, room_of(value));
      for (int i = 0; i < 50; ++i)
        EXPECT_FALSE(receive->test());
      const int go = 1;
      transport->send(1, 4, bytes_of(go))->wait(soon());
      receive->wait(soon());
      EXPECT_EQ(value, 77);
    } else {
      transport->receive(0, 4, room_of(value))->wait(soon());
      const int answer = 77;
      transport->send(0, 3, bytes_of(answer))->wait(soon());
    }
  });
}

TEST_F(GlooTransportTest, LetsARankLeaveThatNobodyWaitsFor) {
  std::atomic<bool> left{false};
  run_ranks(3, [&](int rank) {
    auto transport = make(rank, 3);
    if (rank == 2) {
      transport.reset();
      left = true;
      return;
    }
    while (!left)
      std::this_thread::yield();
    system_clock().sleep_for(milliseconds(30));  // sleeps: the watch has seen it, and nobody can be asked whether
    const int peer = 1 - rank;
    int value = 0;
    for (int i = 0; i < 20; ++i) {
      const auto receive = transport->receive(peer, 1, room_of(value));
      transport->send(peer, 1, bytes_of(i))->wait(soon());
      receive->wait(soon());
      EXPECT_EQ(value, i);
    }
    expect_error(ErrorKind::kPeerLost, "rank 2 has left",
                 [&] { transport->receive(2, 1, room_of(value))->wait(soon()); });
  });
}

TEST_F(GlooTransportTest, DeliversWhatWasSentBeforeARankLeft) {
  const std::vector<std::byte> given(3000000, std::byte{42});
  run_ranks(2, [&](int rank) {
    const auto transport = make(rank, 2);
    if (rank == 0) return transport->send(1, 1, given)->wait(soon());
    std::vector<std::byte> got(given.size());
    transport->receive(0, 1, got)->wait(soon());
    EXPECT_EQ(got, given);
  });
}

TEST_F(GlooTransportTest, EndsAWaitAtItsDeadlineAndNamesThePeerEverywhere) {
  // Rank 2 sends nothing; rank 0 waits for it, rank 1 for rank 0. Both must name rank 2.
  std::atomic<int> done{0};
  run_ranks(3, [&](int rank) {
    const auto transport = make(rank, 3);
    int value = 0;
    if (rank == 0) {
      expect_error(ErrorKind::kTimeout, "rank 2",
                   [&] { transport->receive(2, 1, room_of(value))->wait(Deadline::after(milliseconds(100))); });
      // Sticky: the first error, at once.
      expect_error(ErrorKind::kTimeout, "rank 2", [&] { transport->receive(1, 1, room_of(value))->wait(soon()); });
    }
    if (rank == 1)
      expect_error(ErrorKind::kTimeout, "rank 2", [&] { transport->receive(0, 1, room_of(value))->wait(soon()); });
    ++done;
    while (done < 2)
      std::this_thread::yield();
    // What the others decided is on its way; messages that leave before it arrives are sent in vain.
    if (rank == 2) {
      expect_error(ErrorKind::kTimeout, "rank 2", [&] {
        for (const Deadline deadline = soon(); !deadline.passed();)
          transport->send(0, 1, bytes_of(value))->wait(soon());
      });
    }
  });
}

TEST_F(GlooTransportTest, NamesTheRankAtTheEndOfTheChain) {
  // Rank 2 gives up first, waiting for rank 1, which waits for rank 0 by then, which does something else.
  std::atomic<int> done{0};
  run_ranks(3, [&](int rank) {
    const auto transport = make(rank, 3);
    int value = 0;
    if (rank > 0) {
      const Deadline deadline = rank == 2 ? Deadline::after(seconds(2)) : soon();
      expect_error(ErrorKind::kTimeout, "rank 0 sent no message",
                   [&] { transport->receive(rank - 1, 1, room_of(value))->wait(deadline); });
    }
    ++done;
    while (done < 3)
      std::this_thread::yield();
  });
}

TEST_F(GlooTransportTest, NamesThePeerWhenRanksWaitInACircle) {
  run_ranks(3, [&](int rank) {
    const auto transport = make(rank, 3);
    int value = 0;
    expect_error(ErrorKind::kTimeout, "rank ", [&] {
      transport->receive((rank + 1) % 3, 1, room_of(value))->wait(Deadline::after(milliseconds(100)));
    });
  });
}

TEST_F(GlooTransportTest, AbortEndsTheWaitsOfAllRanks) {
  std::atomic<int> waiting{0};
  run_ranks(3, [&](int rank) {
    const auto transport = make(rank, 3);
    std::thread parent;
    if (rank == 0) {
      parent = std::thread([&] {
        while (waiting < 2)
          std::this_thread::yield();
        transport->abort(2, "its process ended with signal 9");
      });
    }
    if (rank < 2) {
      std::vector<std::byte> room(1 << 20);
      ++waiting;
      expect_error(ErrorKind::kPeerLost, "rank 2 is lost: its process ended with signal 9",
                   [&] { transport->receive(1 - rank, 1, room)->wait(soon()); });
    } else {
      while (waiting < 2)
        std::this_thread::yield();
    }
    if (parent.joinable()) parent.join();
  });
}

TEST_F(GlooTransportTest, AMessageGivenUpHalfWayFailsTheGroup) {
  std::atomic<bool> given_up{false};
  run_ranks(2, [&](int rank) {
    const auto transport = make(rank, 2);
    std::vector<std::byte> bytes(1000);
    if (rank == 0) {
      { const auto dropped = transport->send(1, 1, bytes); }
      given_up = true;
      expect_error(ErrorKind::kPeerLost, "rank 0 gave up", [&] { transport->send(1, 2, bytes); });
    } else {
      while (!given_up)
        std::this_thread::yield();
      expect_error(ErrorKind::kPeerLost, "rank 0 gave up", [&] { transport->receive(0, 1, bytes)->wait(soon()); });
    }
  });
}

TEST_F(GlooTransportTest, GivingUpALongMessageLetsGoOfItsMemory) {
  // The sanitizers see to it: the memory is gone while the message is under way.
  std::atomic<int> started{0};
  run_ranks(2, [&](int rank) {
    const auto transport = make(rank, 2);
    auto bytes = std::make_unique<std::vector<std::byte>>(32 << 20);
    auto transfer = rank == 0 ? transport->send(1, 1, *bytes) : transport->receive(0, 1, *bytes);
    ++started;
    while (started < 2)
      std::this_thread::yield();
    transfer.reset();
    bytes.reset();
  });
}

TEST_F(GlooTransportTest, AFinishedMessageMayBeForgotten) {
  run_ranks(2, [&](int rank) {
    const auto transport = make(rank, 2);
    int value = 0;
    if (rank == 0) {
      const int told = 5;
      const auto receive = transport->receive(1, 1, room_of(value));
      {
        const auto sent = transport->send(1, 1, bytes_of(told));
        receive->wait(soon());  // whoever answers has got it
      }
    } else {
      transport->receive(0, 1, room_of(value))->wait(soon());
      transport->send(0, 1, bytes_of(value))->wait(soon());
    }
    EXPECT_EQ(value, 5);
  });
}

TEST_F(GlooTransportTest, SplitsWithoutDependingOnTheParent) {
  run_ranks(3, [&](int rank) {
    auto transport = make(rank, 3);
    if (rank == 1) return;
    const auto pair = transport->split({2, 0}, "pair", soon());
    transport.reset();
    EXPECT_EQ(pair->rank(), rank == 2 ? 0 : 1);
    EXPECT_EQ(pair->size(), 2);
    int value = 0;
    const auto receive = pair->receive(1 - pair->rank(), 1, room_of(value));
    pair->send(1 - pair->rank(), 1, bytes_of(rank))->wait(soon());
    receive->wait(soon());
    EXPECT_EQ(value, 2 - rank);
  });
}

TEST(GlooTwin, SaysWhatIsMissing) {
  if (gloo_available()) GTEST_SKIP() << "this build has Gloo";
  expect_error(ErrorKind::kUnsupported, "libgloo", [] { make_gloo_transport({}); });
}

}  // namespace
}  // namespace muster::comm
