// Three decisions: the first map, the next when servers have come or gone, and the settled one when all is filled. Each
// is a pure function, and any keeper that takes over comes to the same.
#include "muster/control/server_map.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/data/partition/hash_placement.h"

namespace muster::control {
namespace {

// Where chunks should be, first the primary.
std::vector<std::vector<std::uint32_t>> placement(std::size_t chunks, std::uint32_t copies,
                                                  const std::vector<ServerSeat>& servers,
                                                  const std::set<std::uint32_t>& leaving) {
  std::vector<data::Member> members;
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t server = 0; server < servers.size(); ++server) {
    if (servers[server].address.empty() || leaving.contains(server)) continue;
    data::Member member;
    member.name = fmt::format("server-{}", server);
    member.domain = servers[server].host;
    members.push_back(member);
    numbers.push_back(server);
  }
  if (members.empty()) return std::vector<std::vector<std::uint32_t>>(chunks);
  std::vector<std::vector<std::uint32_t>> placed = data::place_copies_by_hash(chunks, copies, members);
  for (std::vector<std::uint32_t>& holders : placed) {
    for (std::uint32_t& holder : holders)
      holder = numbers[holder];
  }
  return placed;
}

std::vector<ChunkHolder> settled(const std::vector<std::uint32_t>& servers) {
  std::vector<ChunkHolder> holders;
  for (const std::uint32_t server : servers)
    holders.push_back({server, false});
  return holders;
}

}  // namespace

std::optional<std::uint32_t> ServerMap::primary(std::uint32_t chunk) const {
  if (chunk >= chunks.size() || chunks[chunk].empty()) return std::nullopt;
  return chunks[chunk].front().server;
}

bool ServerMap::holds(std::uint32_t chunk, std::uint32_t server) const {
  if (chunk >= chunks.size()) return false;
  return std::any_of(chunks[chunk].begin(), chunks[chunk].end(),
                     [&](const ChunkHolder& holder) { return holder.server == server; });
}

bool ServerMap::holds_any(std::uint32_t server) const {
  for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
    if (holds(chunk, server)) return true;
  }
  return false;
}

bool ServerMap::needs(std::uint32_t server) const {
  return std::any_of(chunks.begin(), chunks.end(), [&](const std::vector<ChunkHolder>& holders) {
    const bool others = std::any_of(holders.begin(), holders.end(), [&](const ChunkHolder& holder) {
      return !holder.filling && holder.server != server;
    });
    return !others && !holders.empty() && holders.front() == ChunkHolder{server, false};
  });
}

std::vector<std::uint32_t> ServerMap::filling() const {
  std::set<std::uint32_t> found;
  for (const std::vector<ChunkHolder>& holders : chunks) {
    for (const ChunkHolder& holder : holders) {
      if (holder.filling) found.insert(holder.server);
    }
  }
  return {found.begin(), found.end()};
}

bool ServerMap::unsettled() const {
  return !filling().empty() ||
         std::any_of(leaving.begin(), leaving.end(), [&](std::uint32_t server) { return holds_any(server); });
}

std::vector<std::uint32_t> ServerMap::lost() const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
    if (chunks[chunk].empty()) found.push_back(chunk);
  }
  return found;
}

std::string server_process_key(std::uint32_t number, std::uint32_t attempt) {
  return fmt::format("{}/{}-{}", kServerProcesses, number, attempt);
}

std::string server_key(std::uint32_t number, std::uint32_t attempt) {
  return fmt::format("servers/{}-{}", number, attempt);
}

std::string map_key(std::uint64_t generation) {
  return fmt::format("map/{}", generation);
}

std::string filled_key(std::uint64_t generation, std::uint32_t server) {
  return fmt::format("filled/{}-{}", generation, server);
}

ServerMap first_map(std::uint32_t chunks, std::uint32_t copies, std::vector<ServerSeat> servers,
                    std::set<std::uint32_t> leaving) {
  ServerMap map{1, copies, std::move(servers), {}, std::move(leaving)};
  for (const std::vector<std::uint32_t>& holders : placement(chunks, copies, map.servers, map.leaving))
    map.chunks.push_back(settled(holders));
  return map;
}

ServerMap next_map(const ServerMap& map, std::vector<ServerSeat> servers, std::set<std::uint32_t> leaving) {
  ServerMap next{map.generation + 1, map.copies, std::move(servers), map.chunks, std::move(leaving)};
  const auto same = [&](std::uint32_t server) {
    return next.servers[server] == map.servers[server] && !next.servers[server].address.empty();
  };
  const bool single = map.copies == 1;
  const auto gone = [&](const ChunkHolder& holder) {
    if (holder.filling) return !same(holder.server) || next.leaving.contains(holder.server);
    return !same(holder.server) && !single;
  };
  for (std::vector<ChunkHolder>& holders : next.chunks) {
    std::erase_if(holders, gone);
    // Only one that has the chunk can be the primary.
    std::stable_partition(holders.begin(), holders.end(), [](const ChunkHolder& holder) { return !holder.filling; });
    if (!holders.empty() && holders.front().filling) holders.clear();
  }
  const std::vector<std::vector<std::uint32_t>> wanted =
      placement(next.chunks.size(), next.copies, next.servers, next.leaving);
  for (std::size_t chunk = 0; chunk < next.chunks.size(); ++chunk) {
    std::vector<ChunkHolder>& holders = next.chunks[chunk];
    if (holders.empty() || next.servers[holders.front().server].address.empty()) continue;  // nobody to fill from
    for (const std::uint32_t server : wanted[chunk]) {
      if (!next.holds(static_cast<std::uint32_t>(chunk), server)) holders.push_back({server, true});
    }
  }
  return next;
}

ServerMap settled_map(const ServerMap& map) {
  ServerMap next = map;
  ++next.generation;
  const std::vector<std::vector<std::uint32_t>> wanted =
      placement(map.chunks.size(), map.copies, map.servers, map.leaving);
  for (std::size_t chunk = 0; chunk < next.chunks.size(); ++chunk) {
    std::vector<ChunkHolder>& holders = next.chunks[chunk];
    if (holders.empty() || next.servers[holders.front().server].address.empty()) continue;
    holders = settled(wanted[chunk]);
  }
  return next;
}

std::string ServerMap::to_text() const {
  Json seats = Json::array();
  for (const ServerSeat& seat : servers)
    seats.push_back({seat.address, seat.attempt, seat.host});
  Json lists = Json::array();
  for (const std::vector<ChunkHolder>& holders : chunks) {
    Json list = Json::array();
    // A holder that is filling is written as a negative number.
    for (const ChunkHolder& holder : holders)
      list.push_back(holder.filling ? -1 - static_cast<std::int64_t>(holder.server) : std::int64_t{holder.server});
    lists.push_back(list);
  }
  return Json{
      {"generation", generation}, {"copies", copies}, {"servers", seats}, {"chunks", lists}, {"leaving", leaving}}
      .dump();
}

ServerMap ServerMap::from_text(const std::string& text) {
  const std::string where = "a map of parameter servers";
  try {
    const Json json = Json::parse(text);
    ServerMap map;
    map.generation = json.at("generation");
    map.copies = json.at("copies");
    for (const Json& seat : json.at("servers"))
      map.servers.push_back({seat.at(0), seat.at(1), seat.size() > 2 ? seat.at(2).get<std::string>() : ""});
    for (const Json& list : json.at("chunks")) {
      std::vector<ChunkHolder> holders;
      for (const Json& number : list) {
        const auto value = number.get<std::int64_t>();
        holders.push_back({static_cast<std::uint32_t>(value < 0 ? -1 - value : value), value < 0});
        if (holders.back().server >= map.servers.size())
          throw Error(ErrorKind::kDamaged, "a chunk is on a server that does not exist", where);
      }
      map.chunks.push_back(std::move(holders));
    }
    map.leaving = json.value("leaving", std::set<std::uint32_t>());
    if (!map.leaving.empty() && *map.leaving.rbegin() >= map.servers.size())
      throw Error(ErrorKind::kDamaged, "a server is leaving that does not exist", where);
    return map;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kDamaged, error.what(), where);
  }
}

}  // namespace muster::control
