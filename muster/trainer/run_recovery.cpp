// Both ways in end alike: what the leader knows is told, and everything that follows from who is there now is settled.
// Whatever is done before that can be done again, since somebody may be lost at any moment of it.
#include "muster/trainer/run_recovery.h"

#include <chrono>

#include <fmt/format.h>

#include "muster/base/clock.h"

namespace muster::trainer {

void RunRecovery::meet() {
  const bool founder = parts_.founds();
  const bool shared = session_.membership().replaces();
  leader_.begin_to_speak(founder);
  if (founder) leader_.find_run();
  if (founder || !shared) parts_.begin_optimizer();
  if (founder && shared && parts_.options.resume) leader_.load_checkpoint();
  if (founder && shared) leader_.leave_first_note();
  session_.meet(parts_.sets.train);
  if (parts_.leads() && !leader_.has_folder()) leader_.adopt_run();
  leader_.exchange_knowledge();
  if (!shared && parts_.options.resume) {
    if (session_.members().hosts() > 1)
      leader_.share_checkpoint();
    else
      leader_.load_checkpoint();
  }
  leader_.take_lead(false);
  settle();
}

void RunRecovery::recover(const Error& loss) {
  parts_.log.warning(
      fmt::format("step {}: {}; going on with those who are left", session_.cursor().step + 1, loss.message()));
  const auto start = system_clock().now();
  const int workers = session_.members().group.size();
  const std::optional<strategies::StepOutcome> outcome = rejoin();
  if (session_.members().group.size() < workers) leader_.pace().failed();
  leader_.yield_files();
  leader_.take_lead(true);
  steps_.end_after_loss(outcome);
  leader_.exchange_knowledge();
  settle();
  const strategies::Members members = session_.members();
  parts_.log.debug(fmt::format("generation {}: worker {} of {}, at step {}, after {:.0f} ms", members.generation,
                               members.group.rank(), members.group.size(), session_.cursor().step,
                               1e3 * std::chrono::duration<double>(system_clock().now() - start).count()));
}

// After every meeting, when all know what the leader knows.
void RunRecovery::settle() {
  session_.go_on_after(leader_.known().progress.skipped);
  leader_.settle_copies();
  saver_.enter_ledger();
  job_.enter();
  saver_.write_owed();
}

// Without a supervisor, or a coordinator of all hosts, nobody may ever decide on members again, and on several hosts
// workers do not decide among themselves: after the time that they wait for somebody to take over, or when they are
// told to end, they keep what they have and end.
std::optional<strategies::StepOutcome> RunRecovery::rejoin() {
  try {
    return session_.rejoin();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout || !parts_.stop_requested()) throw;
    steps_.end_after_loss(session_.settle_step());
    saver_.keep_committed();
    given_up_ = true;
    throw;
  }
}

}  // namespace muster::trainer
