// Until the founder has published the arena nobody can be told where it is: those who start then are told to look for
// it, and look again when another one is appointed to found it.
#include "muster/launch/supervised_arena.h"

#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/comm/arena.h"
#include "muster/comm/supervisor_sign.h"
#include "muster/launch/environment.h"
#include "muster/launch/worker_words.h"

namespace muster::launch {
namespace {

constexpr std::chrono::milliseconds kChargePollInterval{2};
constexpr std::chrono::milliseconds kArenaPollInterval{20};
constexpr std::chrono::seconds kFetchTimeout{5};
constexpr std::chrono::seconds kChargeTimeout{5};

}  // namespace

SupervisedArena::SupervisedArena(TemporaryFolder folder, std::filesystem::path store, std::chrono::nanoseconds liveness)
    : folder_(std::move(folder)), liveness_(liveness) {
  open_store(std::move(store));
}

void SupervisedArena::open_store(std::filesystem::path folder) {
  store_folder_ = std::move(folder);
  fixed_ = false;
  store_ = comm::make_file_store(store_folder_);
  comm::leave_supervisor_sign(*store_, liveness_);
}

SupervisedArena::Invitation SupervisedArena::invite(std::size_t seat) {
  Invitation invitation;
  invitation.joins = !server_ && founded_;
  invitation.arena = server_ ? address_.text() : founded_ ? "join" : "found";
  if (!std::exchange(founded_, true)) founder_ = seat;
  return invitation;
}

std::optional<std::size_t> SupervisedArena::founder() const {
  return founded_ ? std::optional(founder_) : std::nullopt;
}

void SupervisedArena::look() {
  const auto now = system_clock().now();
  if (roster_ || now - looked_ < kArenaPollInterval) return;
  looked_ = now;
  std::shared_ptr<const comm::SharedRegion> region;
  try {
    address_ =
        comm::ArenaAddress::parse(store_->get(comm::arena_key(round_), Deadline::after(std::chrono::nanoseconds(0))));
    region =
        std::make_shared<const comm::SharedRegion>(comm::fetch_region(address_.server, Deadline::after(kFetchTimeout)));
  } catch (const Error& error) {
    // Not there yet; or whoever made it has died, and will be buried.
    if (error.kind() == ErrorKind::kTimeout || error.kind() == ErrorKind::kPeerLost) return;
    throw;
  }
  take(region);
}

void SupervisedArena::take(const std::shared_ptr<const comm::SharedRegion>& region) {
  roster_.emplace(comm::Roster::attach(region, address_.nonce, comm::kAnyRank));
  const Deadline deadline = Deadline::after(kChargeTimeout);
  // A worker that decides in a supervisor's place does so for a moment only.
  while (!roster_->take_charge(this_process())) {
    if (deadline.passed()) throw Error(ErrorKind::kMismatch, "another process watches the workers of this job");
    system_clock().sleep_for(kChargePollInterval);
  }
  // From here on newcomers get it from here.
  server_.emplace(*region);
  address_.server = server_->address();
}

void SupervisedArena::adopt() {
  founded_ = true;
  for (const auto& [key, value] : comm::values_in_file_store(store_folder_, "server")) {
    try {
      address_ = comm::ArenaAddress::parse(value);
      take(std::make_shared<const comm::SharedRegion>(
          comm::fetch_region(address_.server, Deadline::after(kFetchTimeout))));
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) throw;
    }
  }
  throw Error(ErrorKind::kPeerLost, "no worker of this job lives any more");
}

SupervisedArena::Founding SupervisedArena::found_anew() {
  founded_ = false;
  if (comm::open_round(*store_) == round_) return Founding::kOpen;
  round_ = 0;
  open_store(folder_.path() / fmt::format("store-{}", ++foundings_));
  return Founding::kAnew;
}

void SupervisedArena::appoint(std::size_t seat) {
  store_->set(comm::arena_key(round_++), comm::appointment(static_cast<int>(seat)));
  founder_ = seat;
  founded_ = true;
}

void SupervisedArena::begin_generation(std::uint64_t generation, std::uint64_t members) {
  roster_->begin_generation(generation, members);
}

bool SupervisedArena::done(std::size_t seat) const {
  return roster_ && board().doing(static_cast<int>(seat)).activity == comm::Activity::kDone;
}

std::vector<LaneOfStep> SupervisedArena::lanes_of(std::size_t seat) const {
  std::vector<LaneOfStep> lanes;
  if (!roster_) return lanes;
  // As it is at this moment.
  const std::optional<comm::Arena> now = comm::Arena::find(roster_->region(), address_.nonce, comm::kAnyRank);
  for (int lane = 0; now && lane < now->options().lanes; ++lane) {
    const comm::LaneWord word = now->lane_state(lane);
    if (word.rank == static_cast<int>(seat) && word.state == comm::LaneState::kStarted)
      lanes.push_back({now->step(), lane});
  }
  return lanes;
}

std::string SupervisedArena::place_of(std::size_t seat) const {
  const std::vector<LaneOfStep> lanes = lanes_of(seat);
  return lanes.empty() ? fmt::format("after step {}", step())
                       : fmt::format("lane {} of step {}", lanes.front().lane, lanes.front().step + 1);
}

std::string SupervisedArena::note() const {
  return roster_ ? roster_->note() : read_note(store_folder_);
}

bool SupervisedArena::fixed() const {
  if (!fixed_) fixed_ = stored(kFixedKey).has_value();
  return fixed_;
}

bool SupervisedArena::refused(std::size_t seat) const {
  return stored(kRefusedKey) == std::to_string(seat);
}

std::optional<std::string> SupervisedArena::stored(const char* key) const {
  try {
    return store_->get(key, Deadline::after(std::chrono::nanoseconds(0)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    return std::nullopt;
  }
}

}  // namespace muster::launch
