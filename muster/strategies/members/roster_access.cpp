// The address of the shared memory goes through group or store, the memory through a socket (comm/region.h). Waits have
// limits of their own only where nobody watches over the founder.
#include "muster/strategies/members/roster_access.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/comm/arena_address.h"
#include "muster/comm/supervisor_sign.h"

namespace muster::strategies {
namespace {

// Of a fixed group, whose ranks may take very different times to load what they need before they come here. A rank that
// dies is seen at once; nobody watches over one that hangs.
constexpr std::chrono::hours kStartTimeout{1};

// Alone nobody else has to see it, but only shared memory can be mapped a second time, read-only for the model.
template <typename Shared>
std::shared_ptr<Shared> make(typename Shared::Options options, int rank) {
  std::random_device random;
  options.nonce = (std::uint64_t{random()} << 32) | random();
  auto region = std::make_shared<const comm::SharedRegion>(
      comm::SharedRegion::create(Shared::bytes(options), {.make_now = true}));
  Shared::create(region, options);
  return std::make_shared<Shared>(Shared::attach(std::move(region), options.nonce, rank));
}

template <typename Shared>
std::shared_ptr<Shared> fetch(const std::string& text, const typename Shared::Options& wanted, int rank,
                              const Deadline& deadline) {
  const auto address = comm::ArenaAddress::parse(text);
  const auto region = std::make_shared<const comm::SharedRegion>(comm::fetch_region(address.server, deadline));
  // Who shares less than the others would wait for them in vain, and they for it.
  std::optional<comm::Arena> arena = comm::Arena::find(region, address.nonce, rank);
  if constexpr (std::is_same_v<Shared, comm::Arena>) {
    if (arena && arena->options().fits(wanted)) return std::make_shared<comm::Arena>(*std::move(arena));
  } else {
    auto roster = std::make_shared<comm::Roster>(comm::Roster::attach(region, address.nonce, rank));
    if (!arena && roster->options().fits(wanted)) return roster;
  }
  throw Error(ErrorKind::kMismatch,
              "this worker's strategy, model, optimizer or lanes are not those of the first worker", {},
              "Start every worker with the same program, arguments and job.");
}

std::string address_of(const comm::RegionServer& server, const comm::Roster& roster) {
  return comm::ArenaAddress{server.address(), roster.nonce()}.text();
}

template <typename Shared>
std::shared_ptr<Shared> open_in(comm::Group group, const typename Shared::Options& wanted) {
  std::array<std::uint8_t, 128> message{};
  const Deadline deadline = Deadline::after(kStartTimeout);
  if (group.rank() != 0) {
    group.broadcast(std::span<std::uint8_t>(message), 0, deadline);
    const std::string text(message.begin(), std::find(message.begin(), message.end(), 0));
    auto shared = fetch<Shared>(text, wanted, group.rank(), deadline);
    group.barrier(deadline);
    return shared;
  }
  auto shared = make<Shared>(wanted, 0);
  std::optional<comm::RegionServer> server;
  if (group.size() > 1) {
    server.emplace(*shared->region());
    const std::string text = address_of(*server, *shared);
    MUSTER_CHECK(text.size() < message.size(), "an address fits its message");
    std::copy(text.begin(), text.end(), message.begin());
  }
  group.broadcast(std::span<std::uint8_t>(message), 0, deadline);
  group.barrier(deadline);
  return shared;
}

template <typename Shared>
std::shared_ptr<Shared> open_under(Supervised& supervised, const typename Shared::Options& wanted) {
  if (supervised.founder) return make<Shared>(wanted, supervised.seat);
  std::string text = supervised.arena;
  for (int round = 0; text.empty(); ++round) {
    // The founder may have much to load; whether it gets on is the supervisor's to see.
    text = comm::wait_while_supervised(supervised.folder, supervised.patience, [&](const Deadline& deadline) {
      return supervised.store->get(comm::arena_key(round), deadline);
    });
    const std::optional<int> appointed = comm::appointed_by(text);
    if (!appointed) break;
    supervised.founder = *appointed == supervised.seat;
    if (supervised.founder) return make<Shared>(wanted, supervised.seat);
    text.clear();
  }
  return fetch<Shared>(text, wanted, supervised.seat, Deadline::after(supervised.patience));
}

}  // namespace

template <typename Shared>
std::shared_ptr<Shared> open_shared(std::optional<Supervised>& supervised, const comm::Group& group,
                                    typename Shared::Options wanted) {
  wanted.ranks = supervised ? supervised->seats : group.size();
  return supervised ? open_under<Shared>(*supervised, wanted) : open_in<Shared>(group, wanted);
}
template std::shared_ptr<comm::Roster> open_shared(std::optional<Supervised>&, const comm::Group&, comm::RosterOptions);
template std::shared_ptr<comm::Arena> open_shared(std::optional<Supervised>&, const comm::Group&, comm::ArenaOptions);

std::unique_ptr<comm::RegionServer> serve_roster(const Supervised& supervised, const comm::Roster& roster) {
  auto server = std::make_unique<comm::RegionServer>(*roster.region());
  const std::string text = address_of(*server, roster);
  const ProcessId self = this_process();
  supervised.store->set(fmt::format("server/{}-{}", self.pid, self.start_time), text);
  if (supervised.founder) supervised.store->set(comm::arena_key(comm::open_round(*supervised.store)), text);
  return server;
}

}  // namespace muster::strategies
