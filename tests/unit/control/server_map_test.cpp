// Maps over servers that come, go, leave and die while others fill: nothing that one has is lost.
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

// How many chunks have another primary.
int moved(const ServerMap& before, const ServerMap& after) {
  int count = 0;
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk)
    count += before.primary(chunk) != after.primary(chunk) ? 1 : 0;
  return count;
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

// As many on each of them, in turn.
std::vector<ServerSeat> servers_on(std::size_t count, std::size_t hosts) {
  std::vector<ServerSeat> seats = servers(count);
  for (std::size_t i = 0; i < count; ++i)
    seats[i].host = "host-" + std::to_string(i % hosts);
  return seats;
}

// Whether holders of a chunk are on different hosts, of every chunk.
bool apart(const ServerMap& map) {
  for (const std::vector<ChunkHolder>& holders : map.chunks) {
    std::set<std::string> hosts;
    for (const ChunkHolder& holder : holders)
      hosts.insert(map.servers[holder.server].host);
    if (hosts.size() != holders.size()) return false;
  }
  return true;
}

TEST(ServerMap, CopiesAreOnDifferentHosts) {
  struct Row {
    std::size_t servers;
    std::size_t hosts;
    std::uint32_t copies;
  };
  for (const Row& row : {Row{2, 2, 2}, Row{4, 2, 2}, Row{5, 2, 2}, Row{3, 3, 3}, Row{8, 3, 2}, Row{9, 3, 3}}) {
    const ServerMap map = first_map(kChunks, row.copies, servers_on(row.servers, row.hosts));
    EXPECT_TRUE(apart(map)) << row.servers << " servers on " << row.hosts << " hosts, " << row.copies << " copies";
    std::set<std::string> with_primaries;
    for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      EXPECT_EQ(holders_of(map, chunk).size(), row.copies);
      with_primaries.insert(map.servers[*map.primary(chunk)].host);
    }
    EXPECT_EQ(with_primaries.size(), row.hosts) << "all hosts order updates";
  }
}

TEST(ServerMap, WithFewerHostsThanCopiesTheyAreOnDifferentServersStill) {
  const ServerMap map = first_map(kChunks, 3, servers_on(6, 2));
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_EQ(holders_of(map, chunk).size(), 3U);
    std::set<std::string> hosts;
    for (const std::uint32_t server : holders_of(map, chunk))
      hosts.insert(map.servers[server].host);
    EXPECT_EQ(hosts.size(), 2U) << "both";
  }
}

TEST(ServerMap, ALostHostLosesNoChunkAndCopiesAreApartAgain) {
  const ServerMap before = first_map(kChunks, 2, servers_on(6, 3));
  std::vector<ServerSeat> seats = servers_on(6, 3);
  for (ServerSeat& seat : seats)
    if (seat.host == "host-1") seat = {};
  const ServerMap without = next_map(before, seats);
  EXPECT_TRUE(without.lost().empty());
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk)
    EXPECT_TRUE(before.holds(chunk, *without.primary(chunk))) << "the primary has it";
  const ServerMap settled = settled_map(without);
  EXPECT_TRUE(apart(settled));
}

TEST(ServerMap, AServerThatComesMovesAboutItsShareOfTheChunks) {
  const ServerMap before = first_map(kChunks, 1, servers(4));
  const ServerMap after = settled_map(next_map(before, servers(5)));
  EXPECT_GT(moved(before, after), 10);
  EXPECT_LT(moved(before, after), 80) << "a fifth of 200, and a few more for the bound";
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

TEST(ServerMap, AServerThatIsLeavingKeepsWhatItHasUntilOthersAreFilled) {
  for (const std::uint32_t copies : {1U, 2U}) {
    const ServerMap before = first_map(kChunks, copies, servers(4));
    const ServerMap leaving = next_map(before, servers(4), {3});
    EXPECT_TRUE(leaving.unsettled());
    EXPECT_EQ(leaving.holds_any(3), true);
    EXPECT_EQ(leaving.needs(3), copies == 1);
    for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      EXPECT_EQ(leaving.primary(chunk), before.primary(chunk)) << "who ordered the updates goes on";
      for (const std::uint32_t server : holders_of(before, chunk))
        EXPECT_TRUE(leaving.holds(chunk, server));
      for (const ChunkHolder& holder : leaving.chunks[chunk])
        EXPECT_EQ(holder.filling, !before.holds(chunk, holder.server));
    }
    const ServerMap settled = settled_map(leaving);
    EXPECT_FALSE(settled.holds_any(3));
    EXPECT_FALSE(settled.unsettled());
    for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk)
      EXPECT_EQ(holders_of(settled, chunk).size(), copies);
    // Its process ends: nothing moves any more.
    std::vector<ServerSeat> seats = servers(4);
    seats[3] = {};
    const ServerMap left = next_map(settled, seats);
    EXPECT_EQ(left.chunks, settled.chunks);
    EXPECT_TRUE(left.lost().empty());
  }
}

TEST(ServerMap, AServerThatLeavesMovesItsOwnChunksAndFewOthers) {
  const ServerMap before = first_map(kChunks, 1, servers(4));
  const ServerMap after = settled_map(next_map(before, servers(4), {3}));
  int own = 0;
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk)
    own += before.primary(chunk) == 3U ? 1 : 0;
  EXPECT_GE(moved(before, after), own);
  EXPECT_LT(moved(before, after), own + 30) << "a few for the bound";
  // It comes back under its number, to its chunks.
  EXPECT_EQ(settled_map(next_map(after, servers(4))).chunks, before.chunks);
}

TEST(ServerMap, OneThatWasBeingFilledAndIsToldToLeaveIsNotWaitedFor) {
  const ServerMap before = first_map(kChunks, 1, servers(2));
  const ServerMap coming = next_map(before, servers(3));
  ASSERT_TRUE(coming.holds_any(2));
  const ServerMap going = next_map(coming, servers(3), {2});
  EXPECT_FALSE(going.holds_any(2));
  EXPECT_EQ(settled_map(going).chunks, before.chunks);
}

TEST(ServerMap, WhoChangesItsMindAndStaysHasWhatItHad) {
  const ServerMap before = first_map(kChunks, 1, servers(3));
  const ServerMap stays = next_map(next_map(before, servers(3), {2}), servers(3));
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk)
    EXPECT_EQ(stays.primary(chunk), before.primary(chunk));
  EXPECT_EQ(settled_map(stays).chunks, before.chunks);
}

TEST(ServerMap, AServerThatDiesWhileItIsLeaving) {
  std::vector<ServerSeat> seats = servers(3);
  seats[2] = {};
  // With copies the others have it all, and it is not needed any more.
  const ServerMap two = next_map(next_map(first_map(kChunks, 2, servers(3)), servers(3), {2}), seats);
  EXPECT_TRUE(two.lost().empty());
  EXPECT_FALSE(two.holds_any(2));
  EXPECT_FALSE(two.needs(2));
  // Without, its chunks wait for its next process, which leaves with them: to those who were to get them before.
  const ServerMap leaving = next_map(first_map(kChunks, 1, servers(3)), servers(3), {2});
  const ServerMap waiting = next_map(leaving, seats);
  EXPECT_TRUE(waiting.lost().empty());
  EXPECT_TRUE(waiting.needs(2));
  seats[2] = {"again", 1};
  const ServerMap back = next_map(waiting, seats, {2});
  EXPECT_EQ(back.chunks, leaving.chunks);
  EXPECT_FALSE(settled_map(back).holds_any(2));
}

TEST(ServerMap, ServersThatLeaveTogetherLeaveEverythingToTheLast) {
  for (const std::uint32_t copies : {1U, 2U}) {
    const ServerMap leaving = next_map(first_map(kChunks, copies, servers(3)), servers(3), {1, 2});
    EXPECT_TRUE(leaving.unsettled());
    const ServerMap settled = settled_map(leaving);
    for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk)
      EXPECT_EQ(holders_of(settled, chunk), (std::set<std::uint32_t>{0})) << "fewer servers than copies";
    EXPECT_FALSE(settled.unsettled());
  }
  // Where all others have everything already nobody has to be filled, and still something has to be done.
  const ServerMap both = next_map(first_map(kChunks, 2, servers(2)), servers(2), {1});
  EXPECT_TRUE(both.filling().empty());
  EXPECT_TRUE(both.unsettled());
}

TEST(ServerMap, IsTheSameAsTextAndDamageIsRefused) {
  std::vector<ServerSeat> seats = servers(3);
  const ServerMap first = first_map(20, 2, seats);
  seats[2] = {"x", 4, "far"};
  const ServerMap map = next_map(first, seats, {1});
  const ServerMap read = ServerMap::from_text(map.to_text());
  EXPECT_EQ(read.chunks, map.chunks);
  EXPECT_EQ(read.servers, map.servers);
  EXPECT_EQ(read.generation, map.generation);
  EXPECT_EQ(read.leaving, (std::set<std::uint32_t>{1}));
  // As it was written before servers could leave.
  EXPECT_TRUE(ServerMap::from_text(R"({"generation":1,"copies":1,"servers":[],"chunks":[]})").leaving.empty());
  for (const char* wrong : {"", "{}", "[1]", R"({"generation":1,"copies":1,"servers":[],"chunks":[[0]]})",
                            R"({"generation":1,"copies":1,"servers":[],"chunks":[],"leaving":[0]})"})
    EXPECT_THROW(ServerMap::from_text(wrong), Error) << wrong;
}

}  // namespace
}  // namespace muster::control
