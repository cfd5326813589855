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

}  // namespace muster::launch
