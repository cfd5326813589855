// Nodes that find their coordinator by a folder: what they get, whom they refuse, and what is left.
#include "muster/launch/meeting.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/control/trust_files.h"
#include "muster/launch/own_address.h"
#include "support/sandbox.h"

namespace muster::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kAnswers = [](const Met&) { return true; };
constexpr auto kSilent = [](const Met&) { return false; };

std::optional<Met> find(const testing::TemporaryFolder& folder, const std::string& copy = "copy",
                        std::chrono::seconds longest = 30s) {
  return find_meeting(
      folder.path(), "slurm-1.0", folder / copy, Deadline::after(longest), [] { return false; }, kAnswers);
}

ErrorKind refusal(const testing::TemporaryFolder& folder) {
  try {
    find(folder, "refused", 0s);
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was refused";
  return ErrorKind::kInterrupted;
}

TEST(Meeting, NodesGetAddressAndCertificatesOfOneAuthority) {
  const testing::TemporaryFolder folder;
  std::filesystem::path coordinators;
  {
    MeetingHost host(folder.path(), "slurm-1.0", true);
    host.open("10.0.0.1:7400");
    coordinators = host.certs();
    const std::optional<Met> met = find(folder);
    ASSERT_TRUE(met);
    EXPECT_EQ(met->address, "10.0.0.1:7400");
    EXPECT_EQ(control::read_certificate_files(met->certs).authorities,
              control::read_certificate_files(coordinators).authorities);
    EXPECT_NE(control::read_certificate_files(met->certs).key, control::read_certificate_files(coordinators).key);
    struct stat facts {};
    ASSERT_EQ(::stat((folder / ".muster-slurm-1.0").c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0700U);
    // Who has the authority's key could make a coordinator.
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
      EXPECT_NE(entry.path().filename(), "ca.key");
  }
  EXPECT_FALSE(std::filesystem::exists(coordinators));
  EXPECT_FALSE(std::filesystem::exists(folder / ".muster-slurm-1.0"));
}

TEST(Meeting, WithoutProtectionThereAreNoCertificates) {
  const testing::TemporaryFolder folder;
  MeetingHost host(folder.path(), "slurm-1.0", false);
  host.open("127.0.0.1:1");
  EXPECT_THAT(host.certs().string(), IsEmpty());
  EXPECT_THAT(find(folder)->certs.string(), IsEmpty());
}

TEST(Meeting, NobodyComes) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(refusal(folder), ErrorKind::kTimeout);
  EXPECT_FALSE(find_meeting(
      folder.path(), "a", folder / "copy", Deadline::after(30s), [] { return true; }, kAnswers));
}

TEST(Meeting, OneThatEndsBeforeItListensSaysWhy) {
  const testing::TemporaryFolder folder;
  {
    MeetingHost host(folder.path(), "slurm-1.0", true);
    host.fail("no such data");
  }
  try {
    find(folder);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(error.what(), HasSubstr("no such data"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / ".muster-slurm-1.0/agent"));
  // The next start of that name is another one.
  MeetingHost again(folder.path(), "slurm-1.0", false);
  again.open("127.0.0.1:1");
  EXPECT_EQ(find(folder)->address, "127.0.0.1:1");
}

// Node 0 was killed: what it has left leads nobody astray, and its keys go with the nodes that have met it.
TEST(Meeting, WhatAKilledNodeLeavesMisleadsNobodyAndIsTakenAway) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path place = folder / ".muster-slurm-1.0";
  {
    MeetingHost host(folder.path(), "slurm-1.0", true);
    host.open("10.0.0.1:1");
    std::filesystem::rename(place, folder / "kept");  // out of the reach of its end
  }
  std::filesystem::rename(folder / "kept", place);
  const std::optional<Met> met = find(folder);
  ASSERT_TRUE(met);
  // The next start of that name opens while the others look at the address of the one before.
  std::optional<MeetingHost> next;
  const auto begin_next = [&](const Met& at) {
    if (at.address != "10.0.0.1:1") return true;
    if (!next) next.emplace(folder.path(), "slurm-1.0", true).open("10.0.0.1:2");
    return false;
  };
  const auto found = find_meeting(
      folder.path(), "slurm-1.0", folder / "next", Deadline::after(30s), [] { return false; }, begin_next);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->address, "10.0.0.1:2");
  clear_meeting(folder.path(), "slurm-1.0", *met, kSilent);
  EXPECT_TRUE(std::filesystem::exists(place / "agent")) << "of another start";
  clear_meeting(folder.path(), "slurm-1.0", *found, kAnswers);
  EXPECT_TRUE(std::filesystem::exists(place / "agent")) << "it lives";
  clear_meeting(folder.path(), "slurm-1.0", *found, kSilent);
  EXPECT_FALSE(std::filesystem::exists(place));
}

TEST(Meeting, WhoFindsNobodyAtTheAddressSaysSo) {
  const testing::TemporaryFolder folder;
  MeetingHost host(folder.path(), "slurm-1.0", false);
  host.open("10.0.0.1:1");
  try {
    find_meeting(
        folder.path(), "slurm-1.0", folder / "copy", Deadline::after(0s), [] { return false; }, kSilent);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr("10.0.0.1:1"));
  }
}

TEST(Meeting, AFolderThatOthersMayEnterIsRefused) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path place = folder / ".muster-slurm-1.0";
  std::filesystem::create_directory(place);
  testing::spill(place / "address", "10.6.6.6:1");
  ASSERT_EQ(::chmod(place.c_str(), 0755), 0);
  EXPECT_EQ(refusal(folder), ErrorKind::kInvalidInput);
  EXPECT_THROW(MeetingHost(folder.path(), "slurm-1.0", true), Error);
  ASSERT_EQ(::chmod(place.c_str(), 0700), 0);
  EXPECT_EQ(find(folder)->address, "10.6.6.6:1");
  if (::geteuid() != 0) return;
  // Another user's, in a folder where everybody may write.
  ASSERT_EQ(::chown(place.c_str(), 65534, 65534), 0);
  EXPECT_EQ(refusal(folder), ErrorKind::kInvalidInput);
}

TEST(Meeting, ANameIsNoPath) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"", "a/b", "..", "../x", "a b"})
    if (std::string(name) != "..") {
      EXPECT_THROW(MeetingHost(folder.path(), name, false), Error) << name;
    }
}

TEST(OwnAddress, IsThatOfTheWay) {
  const OwnAddress own = address_towards({"no-such-host.invalid", "127.0.0.1"});
  EXPECT_EQ(own.address, "127.0.0.1");
  EXPECT_EQ(own.interface, "lo");
  EXPECT_EQ(own.towards, "127.0.0.1");
  EXPECT_THROW(address_towards({}), Error);
}

TEST(OwnAddress, KnowsWhatIsPrivate) {
  for (const char* yes : {"127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.7.7", "100.64.0.1",
                          "169.254.0.1", "::1", "fd00::1", "fe80::1", "::ffff:10.0.0.1"})
    EXPECT_TRUE(is_private_address(yes)) << yes;
  for (const char* no : {"8.8.8.8", "172.32.0.1", "192.169.0.1", "100.128.0.1", "11.0.0.1", "2001:db8::1", "x", ""})
    EXPECT_FALSE(is_private_address(no)) << no;
  EXPECT_TRUE(is_loopback_address("127.1.2.3"));
  EXPECT_FALSE(is_loopback_address("10.0.0.1"));
}

TEST(OwnAddress, AnInterfaceIsTakenOnlyWhereItIsPrivate) {
  EXPECT_EQ(choose_interface("", {"10.0.0.1", "eth0", {}}), "eth0");
  EXPECT_EQ(choose_interface("ib0", {"8.8.8.8", "eth0", {}}), "ib0");
  EXPECT_EQ(choose_interface("", {"127.0.0.1", "lo", {}}), "");
  EXPECT_THROW(choose_interface("", {"8.8.8.8", "eth0", {}}), Error);
}

}  // namespace
}  // namespace muster::launch
