// What is written is read back by the reader beside it, also beyond the old format's counts.
#include "muster/base/zip_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "muster/base/zip.h"

namespace muster {
namespace {

TEST(ZipWriter, MembersComeBackAlignedAndWhole) {
  std::vector<std::byte> archive;
  ZipWriter writer(
      [&](std::span<const std::byte> bytes) { archive.insert(archive.end(), bytes.begin(), bytes.end()); });
  const std::vector<std::string> contents{"", "x", std::string(64, 'y'), std::string(100'001, 'z')};
  for (std::size_t i = 0; i < contents.size(); ++i)
    writer.add("folder/" + std::string(i * 13, 'n') + std::to_string(i), std::as_bytes(std::span(contents[i])));
  writer.finish();
  const std::vector<ZipMember> members = zip_members(archive, "z");
  ASSERT_EQ(members.size(), contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    EXPECT_EQ(members[i].offset % 64, 0U);
    EXPECT_TRUE(std::ranges::equal(stored_member(archive, members[i], "z"), std::as_bytes(std::span(contents[i]))));
    EXPECT_EQ(read_member(archive, members[i], "z").size(), contents[i].size());
  }
}

TEST(ZipWriter, MoreMembersThanTheOldFormatCounts) {
  std::vector<std::byte> archive;
  ZipWriter writer(
      [&](std::span<const std::byte> bytes) { archive.insert(archive.end(), bytes.begin(), bytes.end()); });
  constexpr std::size_t kMembers = 65'540;
  for (std::size_t i = 0; i < kMembers; ++i)
    writer.add(std::to_string(i), {});
  writer.finish();
  const std::vector<ZipMember> members = zip_members(archive, "z");
  ASSERT_EQ(members.size(), kMembers);
  EXPECT_EQ(members.back().name, std::to_string(kMembers - 1));
}

}  // namespace
}  // namespace muster
