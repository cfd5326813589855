// Two in a row that crash alike before their first step, or fail alike at the same step, are taken as a rule. One alone
// may have been bad luck, and is replaced.
#include "muster/launch/early_endings.h"

#include <signal.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace muster::launch {

bool is_users_mistake(const Ending& ending) {
  return !ending.unknown && ending.signal == 0 && ending.exit_code == 2;
}

bool is_crash(const Ending& ending) {
  constexpr std::array kFaults{SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP};
  return std::find(kFaults.begin(), kFaults.end(), ending.signal) != kFaults.end();
}

std::optional<std::string> EarlyEndings::crashed(std::size_t worker, const Ending& ending, std::uint64_t step) {
  const bool again = last_ && last_->signal == ending.signal && last_->step == step;
  const std::size_t before = last_ ? last_->worker : worker;
  last_ = Crash{worker, ending.signal, step};
  if (!again) return std::nullopt;
  return fmt::format("worker {} has ended before its first step just as worker {} did ({}): others would do the same",
                     worker, before, to_string(ending));
}

std::optional<std::string> EarlyEndings::failed(const Failure& failure) {
  const bool alike = failure_ && failure_->exit_code == failure.exit_code && failure_->step == failure.step &&
                     failure_->reason == failure.reason;
  if (!alike) failure_ = failure;
  if (!alike || failure.started < failure_->ended) return std::nullopt;
  return fmt::format(
      "worker {} has failed after step {} just as worker {} did before it was started ({}): others would do the same",
      failure.worker, failure.step, failure_->worker,
      failure.reason.empty() ? fmt::format("exit code {}", failure.exit_code) : failure.reason);
}

}  // namespace muster::launch
