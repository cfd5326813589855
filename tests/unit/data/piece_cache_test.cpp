// What is kept, what goes, and what a crash or another user can do to it.
#include "muster/data/piece_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "muster/base/error.h"
#include "support.h"

namespace muster::data {
namespace {

constexpr const char* kName = "0123456789abcdef-16384";
constexpr std::uint64_t kPieceBytes = 4000;  // a page each, with the checksum

Bytes piece(int number) {
  return Bytes(kPieceBytes, static_cast<std::byte>(number));
}

class PieceCacheTest : public ::testing::Test {
 protected:
  std::unique_ptr<PieceCache> open(std::uint64_t pages, const std::string& name = kName) {
    return std::make_unique<PieceCache>(folder_ / "cache", name, pages * 4096);
  }

  TemporaryFolder folder_;
};

TEST_F(PieceCacheTest, KeepsWhatItWasGiven) {
  const auto cache = open(10);
  EXPECT_FALSE(cache->get({1, 2}, kPieceBytes));
  EXPECT_TRUE(cache->put({1, 2}, piece(7)));
  EXPECT_EQ(cache->get({1, 2}, kPieceBytes), piece(7));
  EXPECT_FALSE(cache->get({2, 1}, kPieceBytes));
  EXPECT_TRUE(cache->put({1, 2}, piece(8))) << "again";
  EXPECT_EQ(cache->get({1, 2}, kPieceBytes), piece(8));
  EXPECT_EQ(cache->bytes(), 4096U);
}

TEST_F(PieceCacheTest, WhatWasNotUsedForTheLongestTimeGoesFirst) {
  const auto cache = open(3);
  for (std::uint64_t i = 1; i <= 3; ++i)
    cache->put({0, i}, piece(static_cast<int>(i)));
  EXPECT_TRUE(cache->touch({0, 1}));
  cache->put({0, 4}, piece(4));
  EXPECT_FALSE(cache->has({0, 2}));
  EXPECT_EQ(cache->get({0, 1}, kPieceBytes), piece(1));
  cache->put({0, 5}, piece(5));
  EXPECT_FALSE(cache->has({0, 3}));
  EXPECT_TRUE(cache->has({0, 1}));
  EXPECT_EQ(cache->bytes(), 3 * 4096U);
  EXPECT_FALSE(std::filesystem::exists(piece_path(cache->folder(), {0, 3})));
}

TEST_F(PieceCacheTest, WhatIsToBeKeptNeitherGoesNorCounts) {
  const auto cache = open(2);
  cache->keep([](const PieceId& piece) { return piece.shard == 7; });
  for (std::uint64_t i = 1; i <= 5; ++i) {
    EXPECT_TRUE(cache->put({7, i}, piece(static_cast<int>(i))));
    EXPECT_TRUE(cache->put({0, i}, piece(static_cast<int>(i))));
  }
  EXPECT_EQ(cache->bytes(), 2 * 4096U);
  EXPECT_EQ(cache->kept_bytes(), 5 * 4096U);
  for (std::uint64_t i = 1; i <= 5; ++i)
    EXPECT_EQ(cache->get({7, i}, kPieceBytes), piece(static_cast<int>(i)));
  // Others are to be kept now: what was, may go, the oldest first.
  cache->keep([](const PieceId& piece) { return piece.shard == 0; });
  EXPECT_EQ(cache->bytes(), 2 * 4096U);
  EXPECT_EQ(cache->kept_bytes(), 2 * 4096U);
  EXPECT_FALSE(cache->has({7, 1}));
  EXPECT_TRUE(cache->has({0, 5}));
}

TEST_F(PieceCacheTest, APieceThatIsLargerThanTheLimitIsNotKept) {
  const auto cache = open(1);
  cache->put({0, 1}, piece(1));
  EXPECT_FALSE(cache->put({0, 2}, Bytes(5000)));
  EXPECT_TRUE(cache->has({0, 1}));
}

TEST_F(PieceCacheTest, AnAgentAfterThisOneUsesWhatIsThere) {
  {
    const auto cache = open(10);
    cache->put({0, 1}, piece(1));
    cache->put({3, 9}, piece(2));
    folder_.write("cache/" + std::string(kName) + "/0/unfinished-7", piece(9));
  }
  const auto cache = open(10);
  EXPECT_EQ(cache->get({0, 1}, kPieceBytes), piece(1));
  EXPECT_EQ(cache->get({3, 9}, kPieceBytes), piece(2));
  EXPECT_EQ(cache->bytes(), 2 * 4096U);
  EXPECT_FALSE(std::filesystem::exists(cache->folder() / "0/unfinished-7")) << "left by one that was killed";
}

TEST_F(PieceCacheTest, ALimitThatIsLowerNowHoldsAtOnce) {
  {
    const auto cache = open(10);
    for (std::uint64_t i = 1; i <= 5; ++i)
      cache->put({0, i}, piece(1));
  }
  EXPECT_EQ(open(2)->bytes(), 2 * 4096U);
}

TEST_F(PieceCacheTest, WhatIsDamagedIsNotThere) {
  const auto cache = open(10);
  const auto damage = [&](std::uint64_t number, const Bytes& bytes) {
    cache->put({0, number}, piece(1));
    folder_.write("cache/" + std::string(kName) + "/0/" + std::to_string(number), bytes);
    EXPECT_FALSE(cache->get({0, number}, kPieceBytes)) << number;
    EXPECT_FALSE(cache->has({0, number})) << number;
    EXPECT_TRUE(cache->put({0, number}, piece(2)));
    EXPECT_EQ(cache->get({0, number}, kPieceBytes), piece(2)) << number;
  };
  damage(1, Bytes(kPieceBytes + 4));  // other bytes
  damage(2, Bytes(kPieceBytes));      // cut
  damage(3, {});                      // empty, as after a crash
  damage(4, Bytes(kPieceBytes + 5));  // longer
  cache->put({0, 5}, piece(1));
  std::filesystem::remove(piece_path(cache->folder(), {0, 5}));
  EXPECT_FALSE(cache->get({0, 5}, kPieceBytes)) << "removed by somebody";
}

TEST_F(PieceCacheTest, OtherUsersSeeNothing) {
  const auto cache = open(10);
  cache->put({0, 1}, piece(1));
  struct stat found {};
  ASSERT_EQ(::stat(cache->folder().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat(piece_path(cache->folder(), {0, 1}).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST_F(PieceCacheTest, AFolderThatIsNoneOfOursIsRefused) {
  std::filesystem::create_directories(folder_ / "cache");
  std::filesystem::create_directories(folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / "cache" / kName);
  const auto error = error_of([&] { open(10); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
  EXPECT_THAT(error->what(), ::testing::HasSubstr("data.cache"));
}

TEST_F(PieceCacheTest, TwoAgentsDoNotShareOne) {
  const auto cache = open(10);
  const auto error = error_of([&] { open(10); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kResource);
}

TEST_F(PieceCacheTest, CachesOfOtherDataGoUnlessTheyAreInUse) {
  open(10, "00000000000000aa-16384")->put({0, 1}, piece(1));
  const auto used = open(10, "00000000000000bb-16384");
  std::filesystem::create_directories(folder_ / "cache" / "mine");
  open(10);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache" / "00000000000000aa-16384"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "cache" / "00000000000000bb-16384"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "cache" / "mine")) << "not ours";
}

TEST_F(PieceCacheTest, ADiskThatIsFullKeepsNothingAndSaysSo) {
  const auto cache = open(10);
  // A file where the shard's folder should be: nothing can be written there.
  folder_.write("cache/" + std::string(kName) + "/5", {});
  EXPECT_FALSE(cache->put({5, 1}, piece(1)));
  EXPECT_FALSE(cache->has({5, 1}));
  EXPECT_TRUE(cache->put({6, 1}, piece(1)));
}

}  // namespace
}  // namespace muster::data
