// Entering, meeting and rejoining are the same wait for a generation that has this worker in it. Where no supervisor
// lives every wait also looks after the others, and the living decide on members as it would.
#include "muster/strategies/members/host_members.h"

#include <signal.h>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/base/process_signs.h"
#include "muster/comm/connect.h"
#include "muster/comm/store.h"
#include "muster/comm/supervisor_sign.h"
#include "muster/control/job_generation.h"
#include "muster/control/liveness.h"
#include "muster/launch/child_process.h"
#include "muster/strategies/members/fixed_members.h"
#include "muster/strategies/members/roster_access.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::hours kStartTimeout{1};  // of a fixed group: roster_access.cpp says why
constexpr std::chrono::milliseconds kHeartbeat{100};
// How long a worker waits for the supervisor's decision before it looks whether there still is one.
constexpr std::chrono::milliseconds kDecisionTime{200};
constexpr std::int64_t kBeforeTheFirstStep = -1;    // of failpoints
constexpr std::chrono::seconds kWrittenBefore{10};  // for a slow disk

[[noreturn]] void end_wait_for_others() {
  throw Error(ErrorKind::kPeerLost, "told to end: the others are not waited for any longer");
}

}  // namespace

HostMembers::HostMembers(std::optional<Supervised> supervised, const comm::Group& group,
                         std::shared_ptr<comm::Roster> roster, const Clock& clock)
    : supervised_(std::move(supervised)),
      group_(group),
      clock_(clock),
      roster_(roster ? std::move(roster) : open_shared<comm::Roster>(supervised_, group, {})),
      liveness_(comm::supervisor_liveness(supervised_ ? supervised_->folder : "")) {
  for (int seat = 0; seat < roster_->options().ranks; ++seat)
    watches_.emplace_back(control::ProcessWatch::Idle::kSilent, liveness_ / 4, clock_);
  if (supervised_) return;
  members_.group = group_;
  members_.generation = kFirstGeneration;
  if (group_.rank() == 0) roster_->begin_generation(kFirstGeneration, all_ranks());
  roster_->enter(kFirstGeneration, Deadline::after(kStartTimeout));
}

std::uint64_t HostMembers::all_ranks() const {
  const int ranks = group_.size();
  return ranks == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << ranks) - 1;
}

comm::GroupOptions HostMembers::group_of_host() const {
  // Of the roster's ranks some may be empty; members are counted in the order of their ranks.
  const std::uint64_t below = (std::uint64_t{1} << roster_->board().self()) - 1;
  comm::GroupOptions group;
  group.rank = std::popcount(roster_->members() & below);
  group.size = std::popcount(roster_->members());
  group.store = supervised_->store;
  group.name = fmt::format("generation-{}", roster_->generation());
  group.backend = "shm";
  return group;
}

comm::GroupOptions HostMembers::group_of_all_hosts() {
  const HostPlace& place = *supervised_->host;
  // Both were written before the roster's generation began.
  const std::string text =
      supervised_->store->get(control::hosts_key(roster_->generation()), Deadline::after(kWrittenBefore));
  std::uint64_t number = host_number_ == 0 ? place.number : host_number_;
  try {
    number = std::stoull(supervised_->store->get(control::own_host_key(roster_->generation()), Deadline::after({})));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;  // it has not changed
  }
  members_.job = control::JobGeneration::from_text(text);
  members_.host = members_.job.place_of(number);
  if (members_.job.hosts[members_.host].members != roster_->members())
    throw Error(
        ErrorKind::kMismatch,
        fmt::format("job generation {} has members {:#x} on host {}, and its roster has {:#x}", members_.job.number,
                    members_.job.hosts[members_.host].members, number, roster_->members()));
  // Who was away under another number comes anew.
  if (std::exchange(host_number_, number) != number || first_of_job_ == 0) first_of_job_ = members_.job.number;
  comm::GroupOptions group;
  group.rank = members_.job.rank_of(members_.host, supervised_->seat);
  group.size = members_.job.workers();
  group.store = place.store;
  group.name = fmt::format("job-generation-{}", members_.job.number);
  group.backend = place.backend;
  group.interface = place.interface;
  return group;
}

// The members of a generation as a group, and who of them is the longest there.
void HostMembers::gather() {
  comm::GroupOptions group = supervised_->host ? group_of_all_hosts() : group_of_host();
  // Some may be in the middle of a long lane: the group is made when all have come. Whoever is lost or hangs is found
  // by others, and a generation without it ends this wait.
  const std::function<void()> interruption = [this] {
    roster_->throw_if_superseded();
    look_after_the_others();
    throw_if_told_to_end();
  };
  const auto store = comm::with_interruption(group.store, interruption);
  store->set(fmt::format("{}/came/{}", group.name, group.rank), "1");
  for (int other = 0; other < group.size; ++other)
    store->get(fmt::format("{}/came/{}", group.name, other), Deadline::after(kStartTimeout));
  group.interruption = interruption;
  if (supervised_->host) {
    // A thread of the group asks it too, and copies of the group may outlive this object.
    group.connect_timeout = kStartTimeout;
    auto observer =
        std::make_shared<const comm::Roster>(comm::Roster::attach(roster_->region(), roster_->nonce(), comm::kAnyRank));
    roster_->throw_if_superseded();  // so it has been attached in this generation
    group.interruption = [observer = std::move(observer), grace_used = supervised_->grace_used] {
      observer->throw_if_superseded();
      if (grace_used() >= kGraceForOthers) end_wait_for_others();
    };
  }
  members_.group = comm::make_group(group);
  std::vector<std::int64_t> since(static_cast<std::size_t>(group.size));
  const auto own = static_cast<std::int64_t>(supervised_->host ? first_of_job_ : first_generation_);
  members_.group.all_gather(std::span(&own, 1), std::span(since), Deadline::after(kStartTimeout));
  members_.leader = static_cast<int>(std::min_element(since.begin(), since.end()) - since.begin());
  members_.generation = supervised_->host ? members_.job.number : roster_->generation();
  gathered_ = true;
}

void HostMembers::throw_if_told_to_end() const {
  if (supervised_->host && supervised_->grace_used() >= kGraceForOthers) end_wait_for_others();
}

void HostMembers::tell_if_broken(const std::string& reason) {
  untold_ = reason;
  tell_what_is_broken();
}

void HostMembers::tell_what_is_broken() {
  // Who is about to end anyway has no time for a coordinator that may be gone.
  if (!untold_ || supervised_->grace_used() >= kGraceForGeneration) return;
  if (!supervised_->host || members_.job.number == 0 || roster_->committed().generation != roster_->generation()) {
    untold_.reset();
    return;
  }
  try {
    supervised_->host->store->set(control::broken_key(members_.job.number), *untold_);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kTimeout) return;  // the coordinator is away: once more, a little later
    // Others have said it before, or nobody can be told: then the agent is gone, too.
  }
  untold_.reset();
}

void HostMembers::enter_step(std::int64_t step) {
  if (supervised_) scope_.emplace(supervised_->seat, step, supervised_->attempt);
}

void HostMembers::meet() {
  if (!supervised_) return;
  enter_step(kBeforeTheFirstStep);
  // Once: a worker whose first meeting failed, because somebody was lost in it, comes here again.
  if (!server_) {
    server_ = serve_roster(*supervised_, *roster_);
    roster_->ask_to_enter();
    // Whoever takes over finds this process in the roster, so it need not end with the one that started it.
    outlive_parent();
    heartbeat_ = std::jthread([this](const std::stop_token& stop) { give_signs_of_life(stop); });
    roster_->board().set_interruption([this] {
      look_after_the_others();
      throw_if_told_to_end();
    });
  }
  rejoin();
}

void HostMembers::give_signs_of_life(const std::stop_token& stop) {
  name_heartbeat_thread();
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  do {
    roster_->beat();
    if (!roster_->abandoned())
      abandoned_since_ = 0;
    else if (abandoned_since_ == 0)
      abandoned_since_ = clock_.now().time_since_epoch().count();
  } while (!stopped.wait_for(lock, stop, kHeartbeat, [&] { return stop.stop_requested(); }));
}

std::chrono::nanoseconds HostMembers::abandoned_for() const {
  const std::int64_t since = abandoned_since_.load();
  return since == 0 ? std::chrono::nanoseconds(0) : clock_.now().time_since_epoch() - std::chrono::nanoseconds(since);
}

// Others may take long to get ready: as long as somebody is in charge this one waits. Between hosts whoever is in
// charge may wait itself, for a coordinator that is gone for good; when it gives up it tells its workers to end.
void HostMembers::enter_next() {
  for (Deadline deadline = Deadline::after(supervised_->patience);;) {
    if (first_generation_ == 0) supervised_->interruption();
    if (supervised_->host && gathered_ && supervised_->grace_used() >= kGraceForGeneration)
      throw Error(ErrorKind::kTimeout, "told to end, and no generation has begun");
    try {
      return roster_->enter_next(Deadline::after(
          deadline.passed() ? kDecisionTime : std::min<std::chrono::nanoseconds>(kDecisionTime, deadline.remaining())));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      // Whose supervisor is gone waits for another one since then, not since it noticed that it needs one.
      if (supervised_->host && abandoned_since_ != 0) {
        if (abandoned_for() >= supervised_->patience) throw;
      } else if (deadline.passed()) {
        if (!comm::supervisor_lives(supervised_->folder)) throw;
        deadline = Deadline::after(supervised_->patience);
      }
    }
    tell_what_is_broken();
    // Between hosts nobody trains without the coordinator's word.
    if (roster_->abandoned() && !supervised_->host) decide_on_members();
  }
}

bool HostMembers::silent(int seat) {
  const std::optional<ProcessId> process = roster_->board().occupant(seat);
  const Clock::Instant beat{roster_->board().last_beat(seat)};
  // What is stopped or starved is judged by the time that it was seen to be, so it has to be looked at before.
  if (!process || beat.time_since_epoch().count() == 0 || clock_.now() - beat < liveness_ / 4) return false;
  return control::judge_silence(watches_[static_cast<std::size_t>(seat)].look(*process, beat), liveness_,
                                supervised_->patience)
      .lost;
}

void HostMembers::look_after_the_others() {
  if (abandoned_since_ == 0) return;
  for (int seat = 0; seat < roster_->options().ranks; ++seat) {
    if ((roster_->members() >> seat & 1) == 0 || seat == roster_->board().self()) continue;
    // A member has a seat; one of the dead may have been emptied since.
    const std::optional<ProcessId> process = roster_->board().occupant(seat);
    const bool dead = !process || state_of(*process) == ProcessState::kGone;
    if (!dead && !silent(seat)) continue;
    throw Error(
        ErrorKind::kPeerLost,
        fmt::format("worker {} {}", seat, dead ? "died" : fmt::format("(pid {}) gives no sign of life", process->pid)));
  }
}

// What the supervisor would do if there were one: everybody who lives is a member.
void HostMembers::decide_on_members() {
  const ProcessId self = this_process();
  if (!roster_->take_charge(self)) return;  // somebody else does
  std::uint64_t living = 0;
  for (int seat = 0; seat < roster_->options().ranks; ++seat) {
    const std::optional<ProcessId> occupant = roster_->board().occupant(seat);
    if (!occupant) continue;
    // One that wakes up later could write where others work: killed, and its death awaited.
    if (seat != roster_->board().self() && silent(seat)) launch::ChildProcess::adopt(*occupant).kill(SIGKILL);
    if (state_of(*occupant) != ProcessState::kGone) living |= std::uint64_t{1} << seat;
  }
  // Another worker may have done it a moment ago.
  const std::uint64_t generation = roster_->committed().generation;
  if (generation == roster_->generation() || roster_->present_members() != living)
    roster_->begin_generation(generation + 1, living);
  roster_->leave_charge(self);
}

void HostMembers::rejoin() {
  if (!supervised_) refuse_replacement();
  tell_if_broken(fmt::format("a worker of host {} has lost the others", host_number_));
  for (;;) {
    enter_next();
    if (first_generation_ == 0) first_generation_ = roster_->generation();
    try {
      return gather();
    } catch (const Error& error) {
      // Somebody was lost while we met, or somebody came: there will be another generation.
      if (error.kind() != ErrorKind::kPeerLost) throw;
      tell_if_broken(error.message());
    }
  }
}

}  // namespace muster::strategies
