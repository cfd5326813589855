// Which parameter servers hold which chunks: decisions as pure functions of what is known about the servers.
//
// A map is numbered by its generation; every change makes a new one, and whoever has a later one refuses what was sent
// by an older one. A chunk has holders: the first is its primary, which orders the updates; the others are copies. A
// holder that is filling has not got the chunk yet: its primary sends it, and every update with it, but it is not
// counted on. When all is filled the map is settled: every chunk is where consistent hashing wants it
// (data/partition/hash_placement.h), so a server that comes or goes moves about its share of the chunks. A server that
// is leaving gets nothing more, but keeps what it has until the map is settled without it: then nothing is lost with
// it, also where it had the only copy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster::control {

struct ServerSeat {
  std::string address{};  // empty: no server
  std::uint32_t attempt = 0;
  // Where it runs, for jobs of several hosts: copies of a chunk are on different ones, as far as there are.
  std::string host{};

  bool operator==(const ServerSeat&) const = default;
};

struct ChunkHolder {
  std::uint32_t server = 0;
  bool filling = false;

  bool operator==(const ChunkHolder&) const = default;
};

struct ServerMap {
  std::uint64_t generation = 0;
  std::uint32_t copies = 1;  // wanted
  std::vector<ServerSeat> servers;
  std::vector<std::vector<ChunkHolder>> chunks;  // by number
  std::set<std::uint32_t> leaving{};             // of the servers

  // The server that orders the updates of a chunk; nothing if all its holders are lost.
  std::optional<std::uint32_t> primary(std::uint32_t chunk) const;
  bool holds(std::uint32_t chunk, std::uint32_t server) const;
  // Whether it holds, or is to be filled with, any chunk. One that does not may go.
  bool holds_any(std::uint32_t server) const;
  // Whether it alone has some chunk.
  bool needs(std::uint32_t server) const;
  // Servers that are filling, ascending.
  std::vector<std::uint32_t> filling() const;
  // Whether something has to move: somebody is filling, or is leaving and still holds something.
  bool unsettled() const;
  // Chunks that nobody has any more.
  std::vector<std::uint32_t> lost() const;

  std::string to_text() const;
  // Throws Error{kDamaged}.
  static ServerMap from_text(const std::string& text);
};

// The first map: nobody has to be filled. REQUIRES: at least one server has an address.
ServerMap first_map(std::uint32_t chunks, std::uint32_t copies, std::vector<ServerSeat> servers,
                    std::set<std::uint32_t> leaving = {});

// The next map when the servers are these, at least as many as before, and some of them are leaving: holders that are
// gone, or are another process now, are no longer; who should have a chunk and has not is filling. A chunk that nobody
// has any more stays without holders. With a single copy there is nobody to fill from when a server is lost: a chunk
// stays on its server, whatever process that is.
ServerMap next_map(const ServerMap& map, std::vector<ServerSeat> servers, std::set<std::uint32_t> leaving = {});

// The next map when all who were filling have what they lacked. Those who are leaving hold nothing in it.
ServerMap settled_map(const ServerMap& map);

// Keys of the job's store (comm/store.h): the process of a server, where it is to be found, the maps, that a server has
// got what it lacked by a map, and how many chunks the job has and how many copies of each it wants.
constexpr const char* kServerProcesses = "server-processes";
std::string server_process_key(std::uint32_t number, std::uint32_t attempt);
std::string server_key(std::uint32_t number, std::uint32_t attempt);
std::string map_key(std::uint64_t generation);
std::string filled_key(std::uint64_t generation, std::uint32_t server);
constexpr const char* kChunksKey = "plan/chunks";
constexpr const char* kCopiesKey = "plan/copies";

// Most servers of a job that begins with so many. Each has a place for every other as its client, from the beginning.
constexpr int most_servers(int at_first) {
  return std::max(at_first, 8);
}

}  // namespace muster::control
