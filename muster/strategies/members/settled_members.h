// The workers of several hosts as a group that stays as it is: they meet once, in the first generation that the
// coordinator of all hosts makes of them, and nobody is replaced. What a fixed group (fixed_members.h) is on one host.
//
// Each host has a roster for it (host_members.h): by it the host's supervisor sees who is ready and who
// gives no sign of life, and who waits for others learns that the job has gone on without them. A loss ends the job.
// Thread safety: one thread; abandoned_for() and throw_if_interrupted() from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "muster/strategies/members/host_members.h"

namespace muster::strategies {

class SettledMembers final : public Membership {
 public:
  // Returns when the workers of all hosts have come. Throws kTimeout, kMismatch. REQUIRES: supervised.host.
  explicit SettledMembers(const Supervised& supervised);

  bool replaces() const override { return false; }
  bool founds() const override { return members().leads(); }
  const Members& members() const override { return host_.members(); }
  void meet() override {}
  void rejoin() override;
  void throw_if_interrupted() const override { host_.throw_if_interrupted(); }
  std::chrono::nanoseconds abandoned_for() const override { return host_.abandoned_for(); }
  // What it does is not told: a lane may wait for those of other workers, and looks like one that hangs then.
  void begin(comm::Activity activity) override;
  void enter_step(std::int64_t step) override { host_.enter_step(step); }
  bool wants_note(bool /*last*/) const override { return true; }
  void write_note(const std::string& text) override { host_.write_note(text); }
  std::string note() const override { return host_.note(); }

 private:
  HostMembers host_;
};

}  // namespace muster::strategies
