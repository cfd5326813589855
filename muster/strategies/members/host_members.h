// The workers of a host as members of generations: how one comes in, learns that others were lost, and goes on with
// those who are left. Strategies whose workers may be lost and replaced are built on it.
//
// It has the host's roster (comm/roster.h) and a thread that gives signs of life. While a supervisor lives it sees who
// is lost; when it is gone the workers watch over each other. With a fixed group (no supervisor) there is one
// generation, and nobody is replaced. In a job of several hosts a generation of the roster stands for one of the job,
// which the agent has left in the host's store: the group is that of all workers of all hosts, and without the
// coordinator's word nobody decides on members. Thread safety: one thread; abandoned_for() from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/failpoint.h"
#include "muster/comm/connect.h"
#include "muster/comm/region.h"
#include "muster/comm/roster.h"
#include "muster/control/process_watch.h"
#include "muster/strategies/membership.h"

namespace muster::strategies {

class HostMembers final : public Membership {
 public:
  // `supervised` and `group` as in StrategyOptions. `roster`: of workers who keep more behind it, what open_shared()
  // gave (roster_access.h); none: makes or finds one.
  HostMembers(std::optional<Supervised> supervised, const comm::Group& group, std::shared_ptr<comm::Roster> roster = {},
              const Clock& clock = system_clock());

  comm::Roster& roster() { return *roster_; }

  bool replaces() const override { return supervised_.has_value(); }
  bool founds() const override { return supervised_ ? supervised_->founder : group_.rank() == 0; }
  const Members& members() const override { return members_; }
  // Under a supervisor: says that this worker is ready, and returns when it is a member.
  void meet() override;
  void rejoin() override;
  void throw_if_interrupted() const override { roster_->throw_if_superseded(); }
  std::chrono::nanoseconds abandoned_for() const override;
  void begin(comm::Activity activity) override { roster_->board().begin(activity); }
  void enter_step(std::int64_t step) override;
  void write_note(const std::string& text) override { roster_->write_note(text); }
  std::string note() const override { return roster_->note(); }

 private:
  void gather();
  comm::GroupOptions group_of_host() const;
  // Of the job generation that the roster's one stands for; makes the members' hosts those of it.
  comm::GroupOptions group_of_all_hosts();
  // Leaves a word for the coordinator if the others were lost and nothing has begun here; if it is away, as soon as it
  // is there again.
  void tell_if_broken(const std::string& reason);
  void tell_what_is_broken();
  void enter_next();
  // On several hosts: throws kPeerLost when this worker was told to end and has waited long enough for the others.
  void throw_if_told_to_end() const;
  void decide_on_members();
  // While nobody is in charge: throws kPeerLost when a member is dead or silent.
  void look_after_the_others();
  bool silent(int seat);
  void give_signs_of_life(const std::stop_token& stop);
  std::uint64_t all_ranks() const;

  // Constant after construction.
  std::optional<Supervised> supervised_;
  const comm::Group group_;
  const Clock& clock_;  // of how long the workers are without a supervisor, and members silent
  const std::shared_ptr<comm::Roster> roster_;
  const std::chrono::nanoseconds liveness_;
  // Of the present members.
  Members members_;
  std::uint64_t first_generation_ = 0;  // that this worker was in
  bool gathered_ = false;               // it has met others, so there may be something to save
  // Of a job of several hosts: this host's number, and the first job generation of this worker under it.
  std::uint64_t host_number_ = 0;
  std::uint64_t first_of_job_ = 0;
  std::optional<std::string> untold_;           // what the coordinator has still to hear
  std::unique_ptr<comm::RegionServer> server_;  // gives the roster to those who come later
  std::optional<FailpointScope> scope_;
  std::vector<control::ProcessWatch> watches_;    // by seat, for times without a supervisor
  std::atomic<std::int64_t> abandoned_since_{0};  // of the monotonic clock, in ns; 0: it is not
  std::jthread heartbeat_;                        // the last member: it is stopped before anything it uses goes
};

}  // namespace muster::strategies
