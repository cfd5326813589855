// Hosts that are examined together: one that was killed comes again, and strangers at a probe's port hold nobody up.
#include "muster/cli/doctor/meeting.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <list>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/version.h"
#include "muster/cli/doctor/probe.h"

namespace muster::cli {
namespace {

using ::testing::IsEmpty;

control::HostCard card(const std::string& name) {
  return {.version = version(), .name = name};
}

TEST(DoctorDesk, AHostThatWasKilledComesAgain) {
  DoctorDesk desk(3, "");
  EXPECT_EQ(desk.join(card("a")).host, 1U);
  EXPECT_EQ(desk.join(card("b")).host, 2U);
  EXPECT_EQ(desk.join(card("b")).host, 3U) << "two of one name, as long as there is room";
  EXPECT_THROW(desk.join(card("c")), Error);
  EXPECT_THROW(desk.join(card("a")), Error) << "the first one is this process";
  EXPECT_EQ(desk.join(card("b")).host, 2U);
  desk.store_set(2, "facts/2", "{}");
  EXPECT_EQ(desk.join(card("b")).host, 3U);
  desk.store_set(3, "facts/3", "{}");
  EXPECT_THROW(desk.join(card("b")), Error) << "all have said what they are";
}

FileDescriptor stranger_at(const std::string& address) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  there.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&there), sizeof there) != 0)
    throw std::runtime_error("connect");
  return socket;
}

TEST(ProbeServer, StrangersWhoSayNothingHoldNobodyUp) {
  const std::string word(32, 'w');
  const ProbeServer server("127.0.0.1", 0, word);
  std::list<FileDescriptor> strangers;
  for (int i = 0; i < 8; ++i)
    strangers.push_back(stranger_at(server.address()));
  const LinkFigures figures = probe_link(server.address(), word);
  EXPECT_THAT(figures.failure, IsEmpty());
  EXPECT_GT(figures.megabits, 0);
  EXPECT_FALSE(probe_link(server.address(), std::string(32, 'x')).failure.empty());
}

}  // namespace
}  // namespace muster::cli
