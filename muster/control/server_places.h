// Parameter servers on several hosts: which host runs which server, and what those who run there have to know.
//
// The coordinator decides on the places and leaves them in the store of all hosts, revision by revision; agents follow
// the newest (coordinator/host_servers.h). Pure functions and values; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::control {

// A new revision for every change. The processes of a server count on from revision * kAttemptsOfAPlace, so that those
// on different hosts never have the same attempt.
struct ServerPlaces {
  std::uint64_t revision = 0;
  std::vector<std::uint64_t> hosts{};      // by server: the number of its host; 0: it has none
  std::vector<std::uint64_t> revisions{};  // by server: since when it has been there

  std::uint32_t first_attempt(std::uint32_t server) const;
  std::string to_text() const;
  // Throws Error{kDamaged}.
  static ServerPlaces from_text(const std::string& text);
  bool operator==(const ServerPlaces&) const = default;
};

constexpr std::uint64_t kAttemptsOfAPlace = 10'000;

// The places of `servers` servers when these are the hosts, by number. Servers whose host is still there stay; each of
// the others goes to the host that has the fewest, the first of several. So at first they are dealt out in turn: any
// two hosts differ by one server at most. The same as `before` when nothing has to move.
// `may_move`: others have what any one server holds. Then, if no host was lost, one goes from the host with the most to
// the one with the fewest where these differ by two or more: a host that comes later gets its part, server by server.
ServerPlaces place_servers(std::uint32_t servers, const std::vector<std::uint64_t>& hosts, const ServerPlaces& before,
                           bool may_move = false);

// How servers are to be reached on one host, as its agent tells those that it starts.
struct ServerHost {
  std::string address{};  // of the network to the other hosts, without a port
  std::string certs{};    // the folder of the certificates (trust_files.h); empty: nothing is encrypted
  std::string token{};

  std::string to_text() const;
  // Throws Error{kDamaged}.
  static ServerHost from_text(const std::string& text);
};

// Keys. In the store of all hosts: the secrets (job_secrets.h), and revisions of the places, from 1 on. In a host's
// store, left by its agent: how servers are to be reached there.
std::string server_places_key(std::uint64_t revision);
constexpr const char* kServerHostKey = "server-host";
// In both: a process of a server has ended.
constexpr const char* kServersGone = "servers-gone";
std::string server_gone_key(std::uint32_t number, std::uint32_t attempt);

}  // namespace muster::control
