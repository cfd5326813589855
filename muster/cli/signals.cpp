#include "muster/cli/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "muster/base/deadline.h"

namespace muster::cli {
namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

[[noreturn]] void end_now(int signal, const char* why) {
  const std::string message = fmt::format("\nmuster: {}\n", why);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(128 + signal);
}

}  // namespace

SignalWatch::SignalWatch(std::chrono::duration<double> grace, std::function<void(const std::string&)> on_first)
    : grace_(grace), on_first_(std::move(on_first)) {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

SignalWatch::~SignalWatch() {
  end_ = true;
  thread_.join();
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void SignalWatch::watch() {
  constexpr timespec kTurn{0, 50'000'000};  // how soon the end of the program or of the grace period is seen
  const sigset_t set = watched_signals();
  std::optional<Deadline> deadline;
  while (!end_) {
    const int signal = sigtimedwait(&set, nullptr, &kTurn);
    if (signal > 0) {
      if (signal_ != 0) end_now(signal_, "stopped at once, at the second signal");
      signal_ = signal;
      deadline = Deadline::after(std::chrono::duration_cast<std::chrono::nanoseconds>(grace_));
      on_first_(fmt::format("{}: finishing the step and writing a checkpoint (at most {:.0f} s; again to stop at once)",
                            signal == SIGINT ? "Ctrl-C" : "SIGTERM", grace_.count()));
    }
    if (deadline && deadline->passed()) end_now(signal_, "the grace period is over; stopped without a new checkpoint");
  }
}

}  // namespace muster::cli
