#include "muster/control/server_map.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::control {
namespace {

constexpr std::uint32_t kChunks = 200;

std::vector<ServerSeat> servers(std::size_t count) {
  std::vector<ServerSeat> seats;
  for (std::size_t i = 0; i < count; ++i)
    seats.push_back({"address-" + std::to_string(i), 0});
  return seats;
}

std::set<std::uint32_t> holders_of(const ServerMap& map, std::uint32_t chunk) {
  std::set<std::uint32_t> found;
  for (const ChunkHolder& holder : map.chunks[chunk])
    found.insert(holder.server);
  return found;
}

TEST(ServerMap, CopiesAreOnDifferentServersAndLoadsAreBounded) {
  const ServerMap map = first_map(kChunks, 2, servers(4));
  std::vector<int> load(4);
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_EQ(holders_of(map, chunk).size(), 2U);
    for (const std::uint32_t server : holders_of(map, chunk))
      ++load[server];
  }
  // 400 copies on 4 servers, at most a quarter above the fair share.
  EXPECT_LE(*std::max_element(load.begin(), load.end()), 125);
  EXPECT_TRUE(map.filling().empty());
}

TEST(ServerMap, AServerThatComesMovesAboutItsShareOfTheChunks) {
  const ServerMap before = first_map(kChunks, 1, servers(4));
  const ServerMap after = settled_map(next_map(before, servers(5)));
  int moved = 0;
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk)
    moved += before.primary(chunk) != after.primary(chunk) ? 1 : 0;
  EXPECT_GT(moved, 10);
  EXPECT_LT(moved, 80) << "a fifth of 200, and a few more for the bound";
}

TEST(ServerMap, OnlyOneThatHasAChunkIsItsPrimary) {
  const ServerMap before = first_map(kChunks, 2, servers(3));
  std::vector<ServerSeat> seats = servers(3);
  seats[1] = {};
  const ServerMap lost = next_map(before, seats);
  EXPECT_TRUE(lost.lost().empty());
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_TRUE(before.holds(chunk, *lost.primary(chunk))) << chunk;
    EXPECT_NE(*lost.primary(chunk), 1U);
    EXPECT_FALSE(lost.chunks[chunk].front().filling);
    EXPECT_EQ(holders_of(lost, chunk), (std::set<std::uint32_t>{0, 2}));
  }
  // A new process on the seat has nothing.
  seats[1] = {"another", 1};
  const ServerMap back = next_map(lost, seats);
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_NE(*back.primary(chunk), 1U);
    for (const ChunkHolder& holder : back.chunks[chunk])
      EXPECT_TRUE(holder.server != 1 || holder.filling);
  }
  EXPECT_EQ(settled_map(back).chunks, before.chunks) << "the same servers hold the same chunks";
}

TEST(ServerMap, ALossWhileAnotherIsFilledLosesNothingThatOneHas) {
  std::vector<ServerSeat> seats = servers(3);
  const ServerMap before = first_map(kChunks, 2, seats);
  seats[0] = {"new", 1};
  const ServerMap filling = next_map(before, seats);
  seats[2] = {};
  const ServerMap after = next_map(filling, seats);
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    // Only server 1 is left of those who had anything.
    const bool had = before.holds(chunk, 1);
    EXPECT_EQ(after.chunks[chunk].empty(), !had) << chunk;
    if (had) {
      EXPECT_EQ(after.primary(chunk), 1U);
    }
  }
  EXPECT_FALSE(after.lost().empty());
}

TEST(ServerMap, WithASingleCopyAChunkStaysOnItsServer) {
  std::vector<ServerSeat> seats = servers(3);
  const ServerMap before = first_map(kChunks, 1, seats);
  seats[1] = {};
  const ServerMap lost = next_map(before, seats);
  seats[1] = {"again", 1};
  const ServerMap back = next_map(lost, seats);
  EXPECT_TRUE(back.lost().empty());
  EXPECT_EQ(back.chunks, before.chunks);
  EXPECT_EQ(back.generation, 3U);
}

TEST(ServerMap, IsTheSameAsTextAndDamageIsRefused) {
  std::vector<ServerSeat> seats = servers(3);
  const ServerMap first = first_map(20, 2, seats);
  seats[2] = {"x", 4};
  const ServerMap map = next_map(first, seats);
  const ServerMap read = ServerMap::from_text(map.to_text());
  EXPECT_EQ(read.chunks, map.chunks);
  EXPECT_EQ(read.servers, map.servers);
  EXPECT_EQ(read.generation, map.generation);
  for (const char* wrong : {"", "{}", "[1]", R"({"generation":1,"copies":1,"servers":[],"chunks":[[0]]})"})
    EXPECT_THROW(ServerMap::from_text(wrong), Error) << wrong;
}

}  // namespace
}  // namespace muster::control
