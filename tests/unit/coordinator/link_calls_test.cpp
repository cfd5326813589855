// Hosts that ask each other whether they are there, on loopback; and what strangers send them.
#include "muster/coordinator/link_calls.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "support/eventually.h"

namespace muster::coordinator {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<control::Peer> peers(std::initializer_list<std::pair<std::uint64_t, std::string>> list) {
  std::vector<control::Peer> made;
  for (const auto& [host, address] : list)
    made.push_back({host, address});
  return made;
}

void send_to(const std::string& address, const std::string& bytes) {
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::sendto(socket.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)),
            static_cast<ssize_t>(bytes.size()));
}

TEST(LinkCalls, HostsOfAJobHearEachOtherUntilOneIsGone) {
  LinkCalls a("127.0.0.1", "job", 1s);
  auto b = std::make_unique<LinkCalls>("127.0.0.1", "job", 1s);
  const auto all = peers({{1, a.address()}, {2, b->address()}});
  EXPECT_THAT(a.links().heard, IsEmpty());
  a.set_peers(1, all);
  b->set_peers(2, all);
  ASSERT_TRUE(testing::eventually([&] { return a.links().heard.size() == 1 && b->links().heard.size() == 1; }));
  EXPECT_THAT(a.links().heard, ElementsAre(2));
  EXPECT_THAT(b->links().heard, ElementsAre(1));
  EXPECT_THAT(a.links().unheard, IsEmpty());
  b.reset();
  ASSERT_TRUE(testing::eventually([&] { return !a.links().unheard.empty(); }));
  EXPECT_THAT(a.links().unheard, ElementsAre(2));
  EXPECT_THAT(a.links().heard, IsEmpty());
  a.set_peers(1, peers({{1, a.address()}}));
  EXPECT_THAT(a.links().unheard, IsEmpty()) << "it is no host of the job any more";
}

TEST(LinkCalls, AnotherJobOrAnotherNumberIsNotHeard) {
  LinkCalls a("127.0.0.1", "job", 1s);
  LinkCalls foreign("127.0.0.1", "another job", 1s);
  LinkCalls renumbered("127.0.0.1", "job", 1s);
  const auto all = peers({{1, a.address()}, {2, foreign.address()}, {3, renumbered.address()}});
  a.set_peers(1, all);
  foreign.set_peers(2, all);
  renumbered.set_peers(4, all);
  ASSERT_TRUE(testing::eventually([&] { return a.links().unheard.size() == 2; }));
  EXPECT_THAT(a.links().unheard, ElementsAre(2, 3));
  EXPECT_THAT(a.links().heard, IsEmpty());
}

TEST(LinkCalls, GarbageChangesNothing) {
  LinkCalls a("127.0.0.1", "job", 1s);
  LinkCalls b("127.0.0.1", "job", 1s);
  const auto all = peers({{1, a.address()}, {2, b.address()}, {3, "no address"}});
  a.set_peers(1, all);
  b.set_peers(2, all);
  for (int i = 0; i < 2000; ++i)
    for (const std::size_t bytes : {0U, 1U, 47U, 48U, 49U, 1400U})
      send_to(a.address(), std::string(bytes, static_cast<char>(i)));
  ASSERT_TRUE(testing::eventually([&] { return !a.links().heard.empty() && !b.links().heard.empty(); }));
  EXPECT_THAT(a.links().heard, ElementsAre(2));
  EXPECT_THAT(a.links().unheard, Not(Contains(2)));
}

}  // namespace
}  // namespace muster::coordinator
