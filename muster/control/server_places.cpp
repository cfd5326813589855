// The decision counts servers by host, and moves as few as it can: each one that moves has to be filled anew. The rest
// is values as JSON and back.
#include "muster/control/server_places.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::control {
namespace {

// Throws kDamaged for what is none, or lacks something.
template <typename Read>
auto read_json(const std::string& text, const char* where, const Read& read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kDamaged, error.what(), where);
  }
}

}  // namespace

std::uint32_t ServerPlaces::first_attempt(std::uint32_t server) const {
  // The first revision's is 0: what has never moved counts as on one host.
  const std::uint64_t since = server < revisions.size() ? revisions[server] : 1;
  return static_cast<std::uint32_t>((std::max<std::uint64_t>(since, 1) - 1) * kAttemptsOfAPlace);
}

std::string ServerPlaces::to_text() const {
  return Json{{"revision", revision}, {"hosts", hosts}, {"revisions", revisions}}.dump();
}

ServerPlaces ServerPlaces::from_text(const std::string& text) {
  const char* const where = "the places of parameter servers";
  return read_json(text, where, [&](const Json& json) {
    ServerPlaces places;
    places.revision = json.at("revision");
    places.hosts = json.at("hosts").get<std::vector<std::uint64_t>>();
    places.revisions = json.at("revisions").get<std::vector<std::uint64_t>>();
    if (places.hosts.size() != places.revisions.size())
      throw Error(ErrorKind::kDamaged, "hosts and revisions are not as many", where);
    return places;
  });
}

ServerPlaces place_servers(std::uint32_t servers, const std::vector<std::uint64_t>& hosts, const ServerPlaces& before,
                           bool may_move) {
  ServerPlaces next = before;
  next.hosts.resize(servers);
  next.revisions.resize(servers);
  std::map<std::uint64_t, int> load;
  for (const std::uint64_t host : hosts)
    load[host] = 0;
  for (const std::uint64_t host : next.hosts)
    if (const auto found = load.find(host); found != load.end()) ++found->second;
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto move = [&](std::uint32_t server) {
    const auto least = std::min_element(load.begin(), load.end(), fewer);
    const std::uint64_t host = least == load.end() ? 0 : least->first;
    if (next.hosts[server] == host) return;
    next.hosts[server] = host;
    next.revisions[server] = before.revision + 1;
    if (least != load.end()) ++least->second;
  };
  for (std::uint32_t server = 0; server < servers; ++server)
    if (!load.contains(next.hosts[server])) move(server);
  if (next == before && may_move && !load.empty()) {
    const auto [least, most] = std::minmax_element(load.begin(), load.end(), fewer);
    for (std::uint32_t server = 0; most->second - least->second > 1 && server < servers && next == before; ++server)
      if (next.hosts[server] == most->first) move(server);
  }
  if (!(next == before)) next.revision = before.revision + 1;
  return next;
}

std::string ServerHost::to_text() const {
  return Json{{"address", address}, {"certs", certs}, {"token", token}}.dump();
}

ServerHost ServerHost::from_text(const std::string& text) {
  return read_json(text, "how parameter servers are reached", [](const Json& json) {
    return ServerHost{json.at("address"), json.at("certs"), json.at("token")};
  });
}

std::string server_places_key(std::uint64_t revision) {
  return fmt::format("server-places/{}", revision);
}

std::string server_gone_key(std::uint32_t number, std::uint32_t attempt) {
  return fmt::format("{}/{}-{}", kServersGone, number, attempt);
}

}  // namespace muster::control
