// The address of the arena goes through group or store, the memory through a socket (comm/region.h). Waits have limits
// of their own only where nobody watches over the founder.
#include "muster/strategies/members/arena_access.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>

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
comm::Arena make_arena(const comm::ArenaOptions& wanted, int rank) {
  comm::ArenaOptions options = wanted;
  std::random_device random;
  options.nonce = (std::uint64_t{random()} << 32) | random();
  auto region = std::make_shared<const comm::SharedRegion>(
      comm::SharedRegion::create(comm::Arena::bytes(options), {.make_now = true}));
  comm::Arena::create(region, options);
  return comm::Arena::attach(std::move(region), options.nonce, rank);
}

comm::Arena fetch_arena(const comm::ArenaAddress& address, const comm::ArenaOptions& wanted, int rank,
                        const Deadline& deadline) {
  auto region = std::make_shared<const comm::SharedRegion>(comm::fetch_region(address.server, deadline));
  comm::Arena arena = comm::Arena::attach(std::move(region), address.nonce, rank);
  const comm::ArenaOptions& found = arena.options();
  if (found.version_bytes != wanted.version_bytes || found.lane_bytes != wanted.lane_bytes ||
      found.lanes != wanted.lanes || found.ranks != wanted.ranks)
    throw Error(ErrorKind::kMismatch, "this worker's model, optimizer or lanes are not those of the first worker", {},
                "Start every worker with the same program, arguments and job.");
  return arena;
}

}  // namespace

comm::Arena open_arena(comm::Group& group, const comm::ArenaOptions& wanted) {
  struct Announcement {
    std::array<std::uint8_t, 128> address{};
  } announcement;
  const Deadline deadline = Deadline::after(kStartTimeout);
  if (group.rank() != 0) {
    group.broadcast(std::span<std::uint8_t>(announcement.address), 0, deadline);
    const auto end = std::find(announcement.address.begin(), announcement.address.end(), 0);
    const std::string text(announcement.address.begin(), end);
    comm::Arena arena = fetch_arena(comm::ArenaAddress::parse(text), wanted, group.rank(), deadline);
    group.barrier(deadline);
    return arena;
  }
  comm::Arena arena = make_arena(wanted, 0);
  std::optional<comm::RegionServer> server;
  if (group.size() > 1) {
    server.emplace(*arena.region());
    const std::string text = comm::ArenaAddress{server->address(), arena.options().nonce}.text();
    MUSTER_CHECK(text.size() < announcement.address.size(), "an address fits its message");
    std::copy(text.begin(), text.end(), announcement.address.begin());
  }
  group.broadcast(std::span<std::uint8_t>(announcement.address), 0, deadline);
  group.barrier(deadline);
  return arena;
}

comm::Arena open_arena(Supervised& supervised, const comm::ArenaOptions& wanted) {
  if (supervised.founder) return make_arena(wanted, supervised.seat);
  std::string text = supervised.arena;
  for (int round = 0; text.empty(); ++round) {
    // The founder may have much to load; whether it gets on is the supervisor's to see.
    text = comm::wait_while_supervised(supervised.folder, supervised.patience, [&](const Deadline& deadline) {
      return supervised.store->get(comm::arena_key(round), deadline);
    });
    const std::optional<int> appointed = comm::appointed_by(text);
    if (!appointed) break;
    supervised.founder = *appointed == supervised.seat;
    if (supervised.founder) return make_arena(wanted, supervised.seat);
    text.clear();
  }
  return fetch_arena(comm::ArenaAddress::parse(text), wanted, supervised.seat, Deadline::after(supervised.patience));
}

std::unique_ptr<comm::RegionServer> serve_arena(const Supervised& supervised, const comm::Arena& arena) {
  auto server = std::make_unique<comm::RegionServer>(*arena.region());
  const std::string text = comm::ArenaAddress{server->address(), arena.options().nonce}.text();
  const ProcessId self = this_process();
  supervised.store->set(fmt::format("server/{}-{}", self.pid, self.start_time), text);
  if (supervised.founder) supervised.store->set(comm::arena_key(comm::open_round(*supervised.store)), text);
  return server;
}

}  // namespace muster::strategies
